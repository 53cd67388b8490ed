"""Exercises 1 to 5 of set 04 accept every right answer, and say of a wrong one what is wrong."""
import functools
import re
from unittest.mock import ANY

import numpy as np
import pytest
import torch
from torch.utils.data import DistributedSampler, random_split

from helpers.checks.data_sharding import evaluations, means, partition, sampler
from helpers.checks.judge import other_process, real_ranks
from tests.checks import cells
from tests.checks.data_sharding import data_sharding_answers as answers
from tests.checks.outcome import outcome

CHECKS = {"sampler": (sampler.check_sampler, sampler.check_sampler_unseen),
          "proof": (partition.check_proof, partition.check_proof_unseen),
          "backward": (means.check_backward, means.check_backward_unseen),
          "accuracy": (evaluations.check_accuracy, evaluations.check_accuracy_unseen)}
POINTS = {"sampler": 3, "proof": 1, "backward": 3, "accuracy": 2}               # and 1 each for the unseen cases
PRAISE = {"sampler": "A partition, in every epoch.", "proof": "An empty answer is the proof.",
          "backward": "Every sample weighs as much as every other.",
          "accuracy": "It does not depend on the number of ranks."}
RIGHT = {
    "sampler": [answers.deals_out_a_permutation, answers.cuts_a_permutation_into_blocks,
                answers.asks_a_generator_of_numpy, answers.asks_a_generator_of_python, answers.adds_seed_and_epoch,
                answers.gives_a_tensor, answers.puts_the_global_generator_back, answers.shuffles_its_fixed_shard,
                answers.shuffles_each_rank_for_itself, answers.prints_and_warns,
                functools.partial(answers.yields_one_after_the_other)],
    "proof": [answers.adds_up_counters, answers.sorts_its_dict, answers.has_keys_of_numpy, answers.has_values_of_torch,
              answers.has_a_default, answers.empties_its_parts],
    "backward": [answers.weights_by_the_global_count, answers.weights_its_mean, answers.weights_an_empty_mean,
                 answers.gathers_the_counts, answers.gathers_counts_as_objects, answers.gives_backward_its_gradient,
                 answers.weights_by_the_mean_count],
    "accuracy": [answers.takes_the_maximum, answers.adds_and_clamps, answers.divides_by_how_often,
                 answers.counts_at_rank_0_and_tells],
}
# the function, its points among those that a learner sees and among the grader's (None: not asked), and what is said
COVER = "WRONG  every sample, and none twice but to pad: "
UNEVEN = "WRONG  as many on every rank: 1003 samples on 4 ranks: ranks have 251, 251, 251, 250 samples"
ORDER = "WRONG  an order for each epoch, the same when asked again: 1003 samples on 4 ranks: "
OWN_ORDER = "samples come in their own order, or nearly: shuffle them"
OWN_SAMPLER = "in this exercise you write what DistributedSampler does"
GLOBAL = "draws from, or seeds, a global random generator: make one of your own, torch.Generator()"
SAMPLER = [
    (answers.seeds_with_the_rank, 0, 0, f"{COVER}24 samples on 4 ranks: in epoch 0, 8 samples are never drawn, 10 "
                                        "first. Do all ranks cut the same permutation?"),
    (answers.ignores_the_rank, 0, None, "24 samples on 4 ranks: in epoch 0, 18 samples are never drawn, 0 first"),
    (answers.ignores_the_epoch, 2, None, f"{ORDER}epoch 1 has the order of epoch 0"),
    (answers.ignores_the_seed, 2, None, f"{ORDER}another seed gives the same order"),
    (answers.multiplies_seed_and_epoch, 2, 0, "unseen cases: 501 samples on 5 ranks: another seed gives the same "),
    (answers.multiplies_by_the_epoch_after_it, 2, None, f"{ORDER}epoch 1 has the order of epoch 0"),
    (answers.does_not_shuffle, 2, None, f"{ORDER}in epoch 0, {OWN_ORDER}"),
    (answers.does_not_shuffle_its_block, 2, None, f"{ORDER}in epoch 0, {OWN_ORDER}"),
    (answers.sorts_its_part, 2, None, f"{ORDER}in epoch 0, {OWN_ORDER}"),
    (answers.rotates_instead_of_shuffling, 2, None, f"{ORDER}in epoch 0, {OWN_ORDER}"),
    (answers.shuffles_the_first_epoch_only, 2, None, f"{ORDER}in epoch 1, {OWN_ORDER}"),
    (answers.gives_all_samples_to_every_rank, 0, None, f"{COVER}24 samples on 4 ranks: in epoch 0, 72 draws repeat a "
                                                       "sample; 0 are enough"),
    (answers.drops_the_tail, 0, None, "1003 samples on 4 ranks: in epoch 0, 3 samples are never drawn, 353 first. "
                                      "Repeat some, do not drop any"),
    (answers.pads_always, 0, 0, "unseen cases: 450 samples on 1 rank: in epoch 0, 1 draw repeats a sample; 0 are "),
    (answers.pads_with_its_own_last_sample, 3, 0,
     "unseen cases: 1 sample on 5 ranks: ranks have 1, 0, 0, 0, 0 samples"),
    (answers.pads_once_only, 3, 0, "unseen cases: 1 sample on 5 ranks: ranks have 1, 1, 0, 0, 0 samples"),
    (answers.fails_with_fewer_samples_than_ranks, 3, 0,
     "unseen cases: on real ranks: ranks 0, 1, 2, 3 and 4 of 5 raised "
                                                        "AssertionError"),
    (answers.leaves_lengths_uneven, 2, None, UNEVEN),
    (answers.seeds_the_global_generator, 0, 0, GLOBAL),
    (answers.draws_from_the_global_generator, 0, None, GLOBAL),
    (answers.seeds_the_global_generator_and_yields, 0, None, GLOBAL),
    (answers.seeds_pythons_global_generator, 0, None, GLOBAL),
    (answers.seeds_numpys_global_generator, 0, None, GLOBAL),
    (answers.draws_from_pythons_global_generator, 0, None, GLOBAL),
    (answers.draws_once_and_remembers, 0, None, "Do all ranks cut the same permutation?"),
    (answers.counts_from_one, 0, None, "24 samples on 4 ranks: in epoch 0, 24 is no sample"),
    (answers.starts_at_the_next_rank, 0, None, "24 samples on 4 ranks: in epoch 0, 1 sample is never drawn, 20 first"),
    (answers.gives_floats, 0, None, "returned [20.0, 7.0, 4.0, 9.0, 16.0, 15.0] of type list; whole numbers are asked"),
    (answers.gives_texts, 0, None, "returned ['20', '7', '4', '9', '16', '15'] of type list; whole numbers are asked"),
    (answers.gives_a_column, 0, None, "; whole numbers are asked for"),
    (answers.gives_the_lists_of_all_ranks, 0, None, "[3, 13, 19, 11, 0, 21], [12, 17, ... of type list; whole numbers"),
    (answers.gives_ints_of_its_own, 0, 0, "returned [0, 0, 0, 0, 0, 0] of type list; whole numbers are asked for"),
    (answers.gives_a_number, 0, None, "returned 3 of type int; a list is asked for"),
    (answers.gives_nothing_back, 0, None, "returned None: is there a return?"),
    (answers.gives_an_empty_list, 0, None, "in epoch 0, 24 samples are never drawn, 0 first"),
    (answers.wraps_a_distributed_sampler, 0, 0, OWN_SAMPLER),
    (answers.derives_from_distributed_sampler, 0, 0, OWN_SAMPLER),
    (answers.imports_the_courses_sampling, 0, 0, "uses helpers.run.data_sharding, which this exercise asks you to do"),
]
NO_SAMPLE = "parts [[0, 0], [3]] of 3 samples: {2: 0, 1: 0, 0: 2} of type dict, expected {0: 2, 1: 0, 2: 0, 3: 1}"
PROOF = [
    (answers.forgets_what_is_missing, 0, 0, "parts [[2], [0]] of 3 samples: {} of type dict, expected {1: 0}"),
    (answers.forgets_repeats, 0, 0, "parts [[0, 1], [1, 2]] of 3 samples: {} of type dict, expected {1: 2}"),
    (answers.forgets_what_is_no_sample, 0, 0, NO_SAMPLE),
    (answers.forgets_what_is_no_sample_and_drawn_once, 0, 0, NO_SAMPLE),
    (answers.forgets_negative_ones, 1, 0, "{} of type dict, expected {-1: 1}"),
    (answers.indexes_a_list, 0, 0, "raised IndexError: list index out of range"),
    (answers.counts_on_each_rank, 0, 0, "parts [[0, 1], [1, 2]] of 3 samples: {} of type dict, expected {1: 2}"),
    (answers.counts_ranks_not_draws, 0, 1, "parts [[0, 0], [3]] of 3 samples: {1: 0, 2: 0, 3: 1} of type dict, "
                                           "expected {0: 2, 1: 0, 2: 0, 3: 1}"),
    (answers.counts_draws_too_many, 0, 0, "parts [[2], [0]] of 3 samples: {1: 1} of type dict, expected {1: 0}"),
    (answers.gives_all_counts, 0, 0, "of 4 samples: {0: 1, 1: 1, 2: 1, 3: 1} of type dict, expected {}"),
    (answers.gives_keys_only, 0, 0, "returned [] of type list; a dict is asked for"),
    (answers.says_whether, 0, 0, "returned True of type bool; a dict is asked for"),
    (answers.gives_nothing, 0, 0, "returned None: is there a return?"),
    (answers.gives_an_empty_dict, 0, 0, "parts [[2], [0]] of 3 samples: {} of type dict, expected {1: 0}"),
    (answers.has_keys_of_text, 0, 0, "returned {'1': 0} of type dict; whole numbers are asked for"),
    (answers.gives_a_dict_of_its_own, 0, 0, "parts [[2], [0]] of 3 samples: {} of type dict, expected {1: 0}"),
    (answers.is_equal_to_any_count, 0, 0, "returned {1: 5} of type dict; whole numbers are asked for"),
    (answers.holds_anything_for_equal, 0, 0, "returned {1: <ANY>} of type dict; whole numbers are asked for"),
    (answers.has_values_of_several_numbers, 0, 0, "returned {1: tensor([0, 0])} of type dict; whole numbers are asked"),
]
EVEN, RAGGED = "WRONG  ranks with as many samples: ", "WRONG  ranks with 400, 400, 150 and 50: "
NOT_THE_MEAN = "the gradient is not that of the mean over all samples: "
NO_MULTIPLE = f"{NOT_THE_MEAN}nor is it a multiple of it. Is backward called once, on one number?"
DDP_DIVIDES = "DDP divides by the number of ranks, too"
DEAR = "bytes more than DDP's are sent: the counts are enough"
BACKWARD = [
    (answers.takes_the_mean_of_means, 1, 0, f"{RAGGED}{NOT_THE_MEAN}that is the mean of the ranks' means"),
    (answers.takes_the_sum, 0, None, f"{EVEN}{NOT_THE_MEAN}it is 200 times too large"),
    (answers.forgets_that_ddp_divides, 0, None, f"{EVEN}{NOT_THE_MEAN}it is 2 times too small. {DDP_DIVIDES}"),
    (answers.weights_the_wrong_way_round, 1, None, f"{RAGGED}{NO_MULTIPLE}"),
    (answers.takes_the_largest_count, 1, None, f"{RAGGED}{NOT_THE_MEAN}it is 1.6 times too small"),
    (answers.drops_samples_to_be_even, 1, None, f"{RAGGED}{NO_MULTIPLE}"),
    (answers.leaves_when_it_has_none, 3, 0, "on real ranks: rank 0 of 2 waited for a rank that had already returned"),
    (answers.goes_backward_twice, 0, None, "raised RuntimeError: Trying to backward through the graph a second time"),
    (answers.goes_backward_twice_and_keeps_the_graph, 0, 0, f"{EVEN}{NO_MULTIPLE}"),
    (answers.forgets_backward, 0, None, f"{EVEN}rank 0 has no gradient: is backward called?"),
    (answers.uses_the_courses_mean, 0, 0, "uses helpers.run.data_sharding, which this exercise asks you to do without"),
    (answers.reduces_the_losses, 0, None, f"{RAGGED}{NOT_THE_MEAN}it is 4 times too small. {DDP_DIVIDES}"),
    (answers.detaches_the_loss, 0, None, "element 0 of tensors does not require grad and does not have a grad_fn"),
    (answers.gathers_all_losses, 2, 1, DEAR),
    (answers.gathers_losses_as_objects, 2, 1, DEAR),
    (answers.sends_kilobytes, 2, None, f"8,144 {DEAR}"),
    (answers.reduces_the_gradients_again, 2, 1, DEAR),
    (answers.has_a_gradient_of_nan, 0, None, f"{EVEN}{NOT_THE_MEAN}it has numbers that are not finite. Is something "),
]
PADDED, UNPADDED = "WRONG  padded by a DistributedSampler: ", "WRONG  not padded: "
ACCURACY = [
    (answers.adds_counts, 1, None, f"{PADDED}8 of 10 samples are right, on 3 ranks: rank 0 says 0.9000, expected "
                                   "0.8000: a repeated sample counts twice, but not in the divisor"),
    (answers.divides_by_draws, 1, 0, f"{PADDED}6 of 9 samples are right, on 4 ranks: rank 0 says 0.5000, expected "
                                     "0.6667: a repeated sample counts twice"),
    (answers.takes_the_mean_of_accuracies, 0, 0, f"{UNPADDED}8 of 10 samples are right, on 3 ranks: rank 0 says "
                                                 "0.8333, expected 0.8000: that is the mean of the ranks' accuracies"),
    (answers.gives_its_own, 0, 0, "rank 1 says 0.5000, expected 0.6667: that is each rank's own"),
    (answers.takes_the_minimum, 0, None, "rank 0 says 0.0000, expected 0.6667"),
    (answers.forgets_to_reduce, 0, None, "rank 0 says 0.2222, expected 0.6667"),
    (answers.tells_rank_0_only, 0, None, "rank 1 returned None of type NoneType; a number is asked for"),
    (answers.reduces_to_rank_0, 0, None, "6 of 9 samples are right, on 4 ranks: rank 1 says "),
    (answers.gives_a_percentage, 0, None, "rank 0 says 66.6667, expected 0.6667"),
    (answers.gives_the_share_of_wrong_ones, 0, None, "rank 0 says 0.3333, expected 0.6667"),
    (answers.fails_without_samples, 2, 0, "ranks 3 and 4 of 5 raised RuntimeError: min(): Expected reduction dim"),
    (answers.knows_the_visible_cases, 2, 0, "rank 0 says 1.0000, expected 0.6667"),
    (answers.gives_a_number_of_its_own, 0, None, "rank 0 returned 0.5 of type EqualToAny; a number is asked for"),
]
WRONG = [(name, *case) for name, cases in (("sampler", SAMPLER), ("proof", PROOF), ("backward", BACKWARD),
                                           ("accuracy", ACCURACY)) for case in cases]
EVERYWHERE = [
    (answers.is_not_written_yet, "is not written yet"),
    (answers.exits_the_process, "ended with exit code 0 before the program returned"),
    (answers.divides_by_zero, "raised ZeroDivisionError: division by zero"),
    (answers.leaves_with_sys_exit, "raised SystemExit: enough"),
    (None, "a function is asked for, not None of type NoneType"),
    ((n for n in "").__next__, "the function cannot be sent to another process: "),
]


def seen_and_unseen(name: str, function: object) -> tuple[float, float, str]:
    """Points of both checks, and the words of both."""
    results = [outcome(check, function) for check in CHECKS[name]]
    return results[0][0], results[1][0], "\n".join(words for _, words in results)


@pytest.mark.parametrize(("name", "function"), [(name, function) for name, some in RIGHT.items() for function in some])
def test_a_right_answer_gets_all_points(name, function):
    """And what ranks print, and of what Python warns them, is not shown."""
    seen, unseen, words = seen_and_unseen(name, function)
    assert (seen, unseen) == (POINTS[name], 1), words
    assert PRAISE[name] in words
    assert "It holds anywhere." in words
    assert not re.search("WRONG|printed|warned", words)


@pytest.mark.parametrize(("name", "function", "points", "points_unseen", "says"), WRONG)
def test_a_wrong_answer_is_told_what_is_wrong(name, function, points, points_unseen, says):
    """Few are asked about unseen cases, too, for the time that this takes."""
    if points_unseen is None:
        seen, words = outcome(CHECKS[name][0], function)
        assert seen == points < POINTS[name], words
    else:
        seen, unseen, words = seen_and_unseen(name, function)
        assert (seen, unseen) == (points, points_unseen), words
        assert seen + unseen < POINTS[name] + 1
    assert says in words


@pytest.mark.parametrize(("name", "function", "says"), [
    (name, *case) for name in CHECKS for case in (EVERYWHERE[:2] if name in ("backward", "accuracy") else EVERYWHERE)])
def test_what_is_no_answer_gets_nothing_from_any_check(name, function, says):
    for check in CHECKS[name]:
        points, words = outcome(check, function)
        assert points == 0
        assert says in words


@pytest.mark.parametrize("name", CHECKS)
def test_an_answer_that_never_ends_is_ended(monkeypatch, name):
    for module in (other_process, real_ranks):
        monkeypatch.setattr(module, "DEADLINE_S", 0.5)
    seen, unseen, words = seen_and_unseen(name, answers.never_ends)
    assert (seen, unseen) == (0, 0)
    assert words.count("not done after 0.5 s") >= 2


@pytest.mark.parametrize("name", ["proof", "backward"])
def test_an_answer_that_prints_for_ever_is_ended(name):
    points, words = outcome(CHECKS[name][0], answers.floods_the_log)
    assert points == 0
    assert "printed more than 17 MB and was stopped" in words


@pytest.mark.parametrize(("check", "function", "points", "says"), [
    (evaluations.check_accuracy, answers.gathers_unequal_tensors, 1,
     "gave tensors of different sizes or dtypes to one call"),
    (evaluations.check_accuracy_unseen, answers.asks_ranks_with_samples_only, 0,
     "rank 0 waits in all_reduce (collective 1")])
def test_an_accuracy_for_which_ranks_wait_in_vain_is_ended(monkeypatch, check, function, points, says):
    """And no learner is shown a line of the check."""
    monkeypatch.setattr(real_ranks, "DEADLINE_S", 2.0)
    got, words = outcome(check, function)
    assert got == points
    assert says in words
    assert "means.py" not in words


@pytest.mark.parametrize("name", ["sampler", "backward", "accuracy"])
def test_a_learner_is_shown_his_own_lines_and_none_of_the_check(name):
    _, words = outcome(CHECKS[name][0], answers.divides_by_zero)
    assert 'File "data_sharding_answers.py", line ' in words
    assert not re.search(r"(sampler|means)\.py", words)


@pytest.mark.parametrize(("name", "code"), [
    ("backward", "def function(losses):\n    global_mean(losses.sum(), len(losses)).backward()"),
    ("sampler", "def function(**case):\n    return global_mean(1, 1)")])
def test_what_a_cell_has_imported_cannot_be_used_either(name, code):
    cell = {"__name__": "__main__"}
    exec(f"from helpers.run.data_sharding import global_mean\n{code}", cell)
    seen, unseen, words = seen_and_unseen(name, cell["function"])
    assert (seen, unseen) == (0, 0)
    assert "uses helpers.run.data_sharding, which this exercise asks you to do without" in words


# 3. which script is wrong? --------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def scripts():
    given = [cell for cell in cells.solved("04_data_sharding") if cell.name in ("setup", "given")]
    return cells.run([*given, cells.Cell("all", 0, "scripts")])["all"].value


@pytest.fixture(scope="module")
def never_drawn():
    """Script d, by hand: ranks cut the data with different seeds, and then share each its own cut."""
    drawn = set()
    with torch.random.fork_rng(devices=[]):
        for rank in range(4):
            torch.manual_seed(rank)
            train, _ = random_split(range(1003), [900, 103])
            drawn |= {train.indices[i] for i in DistributedSampler(train, 4, rank)}
    return 1003 - len(drawn)


@pytest.fixture
def as_given(scripts, monkeypatch):
    """The scripts, which the check need not run again for each answer."""
    monkeypatch.setattr(partition, "_found_in", lambda given: partition.SCRIPT)
    return scripts


def test_the_wrong_script_gets_all_points(scripts, never_drawn):
    points, words = outcome(partition.check_script, scripts, "d", "overlap", never_drawn)
    assert (points, "No message, no other loss curve, and it is wrong." in words) == (3, True)


@pytest.mark.parametrize("kind", [float, np.int64, torch.tensor])
def test_the_number_may_be_of_another_kind(as_given, never_drawn, kind):
    assert outcome(partition.check_script, as_given, np.str_("d"), np.str_("overlap"), kind(never_drawn))[0] == 3


@pytest.mark.parametrize(("wrong", "says"), [
    ("c", "WRONG  the script: not 'c' of type str: which report has a FAULT, with before_epoch=, the second thing"),
    ("D", "not 'D' of type str"), (["d"], "not ['d'] of type list"), (4, "not 4 of type int"),
    (None, "WRONG  the script: nothing here yet"), (..., "nothing here yet"), (ANY, "not <ANY> of type"),
    (answers.Odd(4), "of type Odd"), (np.array(["a", "d"]), "of type ndarray"), (np.array([]), "ndarray")])
def test_another_script_costs_a_point(as_given, never_drawn, wrong, says):
    got, words = outcome(partition.check_script, as_given, wrong, "overlap", never_drawn)
    assert got == 2
    assert says in words


@pytest.mark.parametrize(("kind", "says"), [
    ("missing", "WRONG  the kind of fault: not 'missing' of type str: as the report names it, between FAULT and the"),
    ("FAULT  overlap", "not 'FAULT  overlap' of type str"), ("Overlap", "not 'Overlap' of type str"),
    (None, "WRONG  the kind of fault: nothing here yet"), (ANY, "not <ANY> of type"), (True, "not True of type bool")])
def test_another_kind_of_fault_costs_a_point(as_given, never_drawn, kind, says):
    got, words = outcome(partition.check_script, as_given, "d", kind, never_drawn)
    assert got == 2
    assert says in words


@pytest.mark.parametrize(("number", "says"), [
    (248, "WRONG  never drawn: not 248 of type int: the report counts what no rank draws, of all 1003"),
    (103, "not 103 of type int"), (350, "not 350 of type int"), (351.5, "not 351.5 of type float"),
    ("351", "not '351' of type str"), (None, "nothing here yet"), (..., "nothing here yet"),
    (True, "not True of type bool"), (float("nan"), "not nan of type float"), (ANY, "not <ANY> of type"),
    (answers.Odd(9), "not 9 of type Odd"), ([351], "not [351] of type list")])
def test_another_number_of_samples_costs_a_point(as_given, number, says):
    got, words = outcome(partition.check_script, as_given, "d", "overlap", number)
    assert got == 2
    assert says in words


def test_no_answer_at_all_gets_nothing(as_given):
    assert outcome(partition.check_script, as_given, None, None, None) == (0, "nothing here yet")


@pytest.mark.parametrize("change", [
    lambda scripts: {}, lambda scripts: {"a": scripts["a"]}, lambda scripts: {**scripts, "a": scripts["d"]},
    lambda scripts: {**scripts, "a": 3}, lambda scripts: list(scripts), lambda scripts: None],
    ids=["none", "one", "two_wrong", "a_number", "names", "nothing"])
def test_other_scripts_than_those_given_get_nothing(scripts, never_drawn, change):
    """And no error of the check."""
    assert outcome(partition.check_script, change(scripts), "d", "overlap", never_drawn) == (
        0, "scripts, or samples, which they use, are not what they were: leave them as they were given")
