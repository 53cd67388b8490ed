"""What is wrong with draws, found in small ones that were written by hand and in random ones that are right."""
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from helpers.facts.data_sharding import Sampling
from helpers.facts.errors import BadValue

RIGHT = Sampling(8, ([[[5, 0], [3, 6]], [[1, 4], [6, 0]]],          # of a rank: two epochs, each of two steps
                     [[[1, 7], [2, 4]], [[3, 2], [7, 5]]]))
ONE_RANK = Sampling(4, ([[[2, 0], [3, 1]], [[1, 2], [0, 3]]],))


def kinds(sampling: Sampling) -> list[str]:
    return [finding.kind for finding in sampling.findings]


def first_epochs(num_samples: int, *ranks: list[list[int]], **options) -> Sampling:
    """Draws of one epoch only, from which no order can be seen."""
    return Sampling(num_samples, tuple([rank] for rank in ranks), **options)


FAULTS = [
    ("uneven steps", first_epochs(6, [[3, 0], [5, 2]], [[4, 1]]), "ranks have 2, 1 steps"),
    ("uneven steps", first_epochs(2, [[1, 0]], []), "ranks have 1, 0 steps"),
    ("same batches", first_epochs(4, [[3, 0], [1, 2]], [[3, 0], [1, 2]]), "Use a DistributedSampler"),
    ("not split", first_epochs(4, [[3, 0], [1, 2]], [[1, 3], [2, 0]]), "every rank draws the same 4 samples"),
    ("read again", first_epochs(4, [[2, 0], [0, 2]], [[3, 1], [3, 1]]), "each of its samples 2 times"),
    ("overlap", first_epochs(4, [[3], [0]], [[0], [2]]), "1 draw repeats a sample, and 1 sample is never drawn"),
    ("overlap", first_epochs(4, [[3], [0], [1]], [[2], [3], [1]]), "2 draws repeat"),     # too many for a padding
    ("missing", first_epochs(9, [[3], [0]], [[2], [7]]), "5 of 9 samples are never drawn"),
    ("missing", first_epochs(6, [[3], [0]], [[2], [5]], may_leave_out=1), "2 of 6 samples are never drawn"),
    ("same order", Sampling(4, ([[[3], [0]]] * 2, [[[2], [1]]] * 2)), "set_epoch(epoch)"),
    ("uneven batches", first_epochs(5, [[3, 0], [1]], [[2], [4]]), "in step 0 ranks have 2, 1 samples"),
    ("uneven batches", first_epochs(7, [[3, 0], [1]], [[2, 6], [4, 5]]), "in step 1 ranks have 1, 2 samples"),
    ("uneven batches", first_epochs(4, [[3], [0]], [[2], [1]], items=([7, 9], [7, 4])), "step 1 ranks have 9, 4 items"),
]
NOTES = [
    ("with replacement", first_epochs(4, [[2], [2]], [[3], [1]]), "1 sample is never drawn"),
    ("padding", first_epochs(3, [[2], [0]], [[1], [2]]), "1 of 4 draws repeat a sample"),
    ("padding", first_epochs(2, [[0]], [[1]], [[0]], [[1]], [[0]]), "3 of 5 draws repeat"),
    ("left out", first_epochs(6, [[3], [0]], [[2], [5]], may_leave_out=2), "leaves 2 samples out"),
    ("not shuffled", Sampling(4, ([[[0], [2]]] * 2, [[[1], [3]]] * 2)), "in their own order"),
]


@pytest.mark.parametrize(("kind", "sampling", "says"), FAULTS)
def test_a_fault_is_named_alone(kind, sampling, says):
    finding, = sampling.findings
    assert (finding.kind, finding.harmless) == (kind, False)
    assert sampling.faults == [finding]
    assert says in finding.words


@pytest.mark.parametrize(("kind", "sampling", "says"), NOTES)
def test_what_is_harmless_is_a_note_and_no_fault(kind, sampling, says):
    finding, = sampling.findings
    assert (finding.kind, finding.harmless) == (kind, True)
    assert sampling.faults == []
    assert says in finding.words


@pytest.mark.parametrize("sampling", [
    RIGHT, ONE_RANK,
    first_epochs(4, [[3], [0]], [[2], [1]]),
    first_epochs(4, [[3], [0]], [[2], [1]], items=([7, 9], [7, 9])),
    Sampling(4, ([[[0], [1]]] * 2, [[[2], [3]], [[3], [2]]])),                  # one rank with another order is enough
    Sampling(4, ([[[3], [0]], [[1], [2]]], [[[2], [1]]])),                      # ranks with unequal numbers of epochs
])
def test_what_is_right_has_no_findings(sampling):
    assert sampling.findings == []


def test_several_faults_come_with_the_worst_first():
    """3 steps against 1, a sample twice, two never, the same in each epoch, and 1 sample against 2."""
    sampling = Sampling(6, ([[[3], [0], [5]]] * 2, [[[0, 2]]] * 2))
    assert kinds(sampling) == ["uneven steps", "overlap", "same order", "uneven batches"]


def test_padding_may_come_with_no_shuffling():
    assert kinds(Sampling(3, ([[[0], [2]]] * 2, [[[1], [2]]] * 2))) == ["padding", "not shuffled"]


def test_a_half_that_all_ranks_draw_is_told_with_what_is_never_drawn():
    """Every rank has told its DistributedSampler that it is rank 0: they use one, and half of the data is lost."""
    assert "never drawn" in str(first_epochs(4, [[3], [0]], [[3], [0]]))


def test_a_later_epoch_in_which_the_ranks_do_not_fit_is_a_fault():
    """Only rank 0 has called set_epoch: in epoch 1 samples 2 and 1 are drawn twice, and 0 and 3 never."""
    assert Sampling(4, ([[[0], [3]], [[2], [1]]], [[[2], [1]], [[2], [1]]])).faults != []


def test_on_one_rank_a_repeat_is_not_another_ranks():
    """Samples drawn with replacement: nobody else is there to have them."""
    sampling = first_epochs(4, [[2, 2], [3, 1]])
    assert (sampling.num_repeats, sampling.num_missing) == (1, 1)
    assert kinds(sampling) == ["with replacement"]


def test_a_repeat_of_a_ranks_own_sample_is_not_another_ranks():
    assert kinds(first_epochs(4, [[2], [2]], [[3], [1]])) == ["with replacement"]


#            sampling                                                      steps draws missing repeats  unique share
VALUES = [
    (RIGHT,                                                               [2, 2], 8, 0, 0, 1.0),
    (ONE_RANK,                                                               [2], 4, 0, 0, 1.0),
    (first_epochs(4, [[3, 0], [1, 2]], [[3, 0], [1, 2]]),                 [2, 2], 8, 0, 4, 1 / 2),
    (first_epochs(4, [[3, 0], [1, 2]], [[1, 3], [2, 0]]),                 [2, 2], 8, 0, 4, 3 / 4),
    (first_epochs(4, [[3, 0], [1]], [[0, 2], [1]]),                       [2, 2], 6, 0, 2, (3 / 4 + 1 / 2) / 2),
    (first_epochs(9, [[3, 3], [1]], [[0, 2]]),                            [2, 1], 5, 5, 1, (3 / 4 + 1) / 2),
    (first_epochs(2, [[1]], [[0]], [[1]]),                             [1, 1, 1], 3, 0, 1, 2 / 3),
    (first_epochs(0, [], []),                                             [0, 0], 0, 0, 0, 1.0),
    (first_epochs(3, [], []),                                             [0, 0], 0, 3, 0, 1.0),
    (first_epochs(3, [[0, 1, 2]], []),                                    [1, 0], 3, 0, 0, 1.0),
]


@pytest.mark.parametrize(("sampling", "steps", "num_draws", "num_missing", "num_repeats", "unique_share"), VALUES)
def test_counts_are_those_counted_by_hand(sampling, steps, num_draws, num_missing, num_repeats, unique_share):
    assert (sampling.steps, sampling.num_draws, sampling.num_missing, sampling.num_repeats) == (
        steps, num_draws, num_missing, num_repeats)
    assert sampling.unique_share == pytest.approx(unique_share)


def test_a_step_in_which_no_rank_has_a_sample_can_be_told_of():
    """With `identify`, a batch may hold none."""
    sampling = first_epochs(2, [[0], []], [[1], []])
    assert sampling.unique_share == 1.0
    assert sampling.faults == []


def test_more_samples_than_there_are_said_to_be_is_not_told_as_fewer_than_none():
    """`num_samples` was given too small."""
    with pytest.raises(BadValue, match="3 different samples are drawn of 2"):
        first_epochs(2, [[0]], [[1]], [[2]])


def test_no_data_is_no_fault():
    sampling = Sampling(0, ([[], []], [[], []]))
    assert sampling.faults == []
    assert str(sampling).startswith("0 samples, 2 ranks: 0 steps, 0 draws")


def test_the_report_prints_counts_then_faults_and_notes():
    sampling = Sampling(3, ([[[2, 0]]] * 2, [[[1, 2]]] * 2))
    assert str(sampling) == repr(sampling) == (
        "3 samples, 2 ranks: 1 step, 4 draws, 75.0% of a global batch unique\n"
        "  note  padding: 1 of 4 draws repeat a sample, so that all ranks have equally many. In an evaluation, count "
        "each sample once\n"
        "  FAULT  same order: epoch 1 repeats the order of epoch 0. The seed must change with the epoch: for a "
        "DistributedSampler, call set_epoch(epoch)")


def test_the_report_tells_unlike_numbers_of_steps():
    assert str(first_epochs(6, [[3, 0], [5, 2]], [[4, 1]], [[4, 1]])).startswith("6 samples, 3 ranks: 1 or 2 steps")


def test_the_report_of_what_is_right_is_one_line():
    assert str(RIGHT) == "8 samples, 2 ranks: 2 steps, 8 draws, 100.0% of a global batch unique"


def in_steps(samples: list[int], batch_size: int) -> list[list[int]]:
    return [samples[start:start + batch_size] for start in range(0, len(samples), batch_size)]


@st.composite
def partitions(draw) -> Sampling:
    """n samples cut into N equal parts, each in steps of B, in two epochs of unlike order."""
    world_size, own, batch_size = (draw(st.integers(1, most)) for most in (6, 8, 5))
    num_samples = world_size * own
    assume(num_samples > 1)
    epochs = [draw(st.permutations(range(num_samples))) for _ in range(2)]
    assume(epochs[0] != epochs[1])
    return Sampling(num_samples, tuple([in_steps(list(order[rank * own:(rank + 1) * own]), batch_size)
                                        for order in epochs] for rank in range(world_size)))


@given(partitions())
def test_a_true_partition_has_no_findings(sampling):
    assert sampling.findings == []
    assert (sampling.num_draws, sampling.num_missing, sampling.num_repeats) == (sampling.num_samples, 0, 0)
    assert sampling.unique_share == 1.0


@given(partitions(), st.data())
def test_a_sample_replaced_by_another_ranks_is_found(sampling, data):
    """It is then drawn twice, and the one that it replaces never."""
    world_size = len(sampling.draws)
    assume(world_size > 1)
    robbed, other = data.draw(st.permutations(range(world_size)))[:2]
    step = data.draw(st.integers(0, sampling.steps[robbed] - 1))
    place = data.draw(st.integers(0, len(sampling.draws[robbed][0][step]) - 1))
    sampling.draws[robbed][0][step][place] = sampling.draws[other][0][-1][-1]
    sampling = replace(sampling)                # count anew
    assert sampling.faults != []
    assert (sampling.num_missing, sampling.num_repeats) == (1, 1)


@given(partitions(), st.data())
def test_a_step_that_a_rank_lacks_is_found(sampling, data):
    assume(len(sampling.draws) > 1)
    data.draw(st.sampled_from(sampling.draws))[0].pop()
    assert kinds(sampling)[0] == "uneven steps"


@given(partitions())
def test_a_second_epoch_like_the_first_is_found(sampling):
    for rank in sampling.draws:
        rank[1] = rank[0]
    assert kinds(sampling) in (["same order"], ["not shuffled"])
