"""What `check_sampling` foretells is what the loaders then give, and nothing has moved in between."""
import pytest
import torch

from helpers.run.launch import RankFailed, launch
from tests.run.data_sharding import sampler_programs as programs

FOUND = {                       # of a case: the kinds of its findings
    "one_seed": ["same batches"],
    "a_seed_a_rank": ["not split"],
    "sampler_with_set_epoch": ["padding"],
    "sampler_without_set_epoch": ["same order"],
    "sampler_at_epoch_5": ["padding"],
    "sampler_not_shuffled": ["not shuffled"],
    "sampler_with_a_seed_a_rank": ["overlap"],
    "drop_last_in_loader": ["left out"],
    "drop_last_in_sampler": ["left out"],
    "subset_for_each_rank": [],
    "uneven_subsets": ["uneven batches"],
    "empty_subset": ["uneven steps", "not shuffled"],
    "subset_of_subset": [],
    "split_twice": ["missing"],
    "training_split": [],                           # the other split is for validation: no rank should draw it
    "training_split_then_a_subset": [],
    "own_batch_sampler": [],
    "own_batch_sampler_that_drops": [],
    "batch_sampler_around_a_distributed": ["left out"],
    "batch_sampler_around_a_generator": ["not split"],
    "sampler_around_a_sampler": ["not shuffled"],
    "no_batches": [],
    "no_batches_and_an_eager_sampler": [],
    "with_a_generator": ["same batches"],
    "with_two_generators": ["not split"],
    "subset_random_sampler": [],
    "two_workers": ["same batches"],
    "persistent_workers": ["same batches"],
    "weighted_with_one_seed": ["same batches"],
    "python_random": [],
    "numpy_random": [],
    "numpy_generator_of_its_own": [],
    "python_generator_of_its_own": [],
    "list_shuffled_in_place": [],
    "batches_that_lose_more_than_the_last": ["missing", "not shuffled"],
    "plain_list": ["not shuffled"],
    "plain_range_of_batches": ["missing", "not shuffled"],
    "augmented": [],
    "stream": [],
    "stream_with_two_workers": [],
    "stream_with_persistent_workers": [],
    "stream_that_counts_its_epochs": [],
    "stream_that_is_not_split": ["same batches"],
    "stream_of_unknown_length": [],
    "cut_by_hand": [],
    "items_of_each_sample": ["not shuffled", "uneven batches"],
    "other_numbers_of_epochs": [],
}


@pytest.fixture(scope="module")
def outcomes():
    """Of a case: the ranks' reports, what their loaders really gave, and whether randomness was left alone."""
    by_rank = launch(programs.foretold_and_given, 3, timeout_s=60).results

    def of(name):
        together = [outcome[name] for outcome in by_rank]
        assert not any(isinstance(outcome, str) for outcome in together), together[0]
        return zip(*together, strict=True)

    return of


@pytest.mark.parametrize("name", programs.CASES)
def test_what_is_foretold_is_what_the_loaders_give(name, outcomes):
    reports, given, _ = outcomes(name)
    assert reports[0].draws == given
    assert all(report == reports[0] for report in reports)


@pytest.mark.parametrize("name", programs.CASES)
def test_asking_moves_no_generator_and_no_epoch(name, outcomes):
    _, _, left_alone = outcomes(name)
    assert left_alone == (True, True, True)


@pytest.mark.parametrize(("name", "kinds"), FOUND.items(), ids=FOUND)
def test_findings_are_those_of_the_mistake(name, kinds, outcomes):
    (report, *_), *_ = outcomes(name)
    assert [finding.kind for finding in report.findings] == kinds


def test_what_no_rank_draws_is_told_when_all_say_that_they_are_rank_0(outcomes):
    (report, *_), *_ = outcomes("sampler_that_is_rank_0_everywhere")
    assert report.num_missing == 12
    assert "never drawn" in str(report)


def test_a_rank_that_alone_calls_set_epoch_is_found(outcomes):
    """Epoch 0 is right; in epoch 1 rank 0 goes by another permutation than the others, so samples repeat."""
    (report, *_), given, _ = outcomes("set_epoch_on_rank_0_only")
    assert len({index for rank in given for step in rank[1] for index in step}) < 18
    assert report.faults != []


@pytest.mark.parametrize("name", ["weighted_with_a_seed_a_rank", "replacement_with_a_seed_a_rank"])
def test_who_draws_with_replacement_is_not_told_to_give_all_ranks_one_seed(name, outcomes):
    """With one seed all ranks would draw the same batches: `weighted_with_one_seed`."""
    (report, *_), *_ = outcomes(name)
    assert "same seed" not in str(report)


def test_items_are_counted_in_the_whole_data_set(outcomes):
    """A sample has as many items as its number says; rank r of 3 has r, r + 3, r + 6, ... in order."""
    (report, *_), *_ = outcomes("items_of_each_sample")
    assert report.items == ([18, 27], [22, 29], [26, 31])


@pytest.fixture(scope="module")
def row_a12():
    return launch(programs.row_a12, 4).results


#        way            steps   draws    unique share
A12 = [("one seed",       126, 4 * 1003, 0.25, 0.25),
       ("a seed a rank",  126, 4 * 1003, 0.98, 0.995),
       ("sampler",         32,     1004, 1.0, 1.0)]


@pytest.mark.parametrize(("way", "steps", "draws", "least", "most"), A12)
def test_a12_unique_share_steps_and_draws_of_1003_samples_on_4_ranks(way, steps, draws, least, most, row_a12):
    reports, given = zip(*[outcome[way] for outcome in row_a12], strict=True)
    assert reports[0].steps == [steps] * 4
    assert reports[0].num_draws == draws
    assert least <= reports[0].unique_share <= most
    batches = [[index for batch in together for index in batch] for together in zip(*given, strict=True)]
    assert (len(batches), sum(map(len, batches))) == (steps, draws)
    assert reports[0].unique_share == pytest.approx(sum(len(set(b)) / len(b) for b in batches) / steps)


def test_one_rank_needs_no_sampler():
    def program(rank, world_size):
        from helpers.run.data_sharding import check_sampling

        return check_sampling(torch.utils.data.DataLoader(list(range(10)), 3, shuffle=True))

    report, = launch(program, 1).results
    assert (report.findings, report.steps, report.unique_share) == ([], [4], 1.0)


def test_a_sampler_that_raises_leaves_everything_as_it_was():
    assert launch(programs.raising, 2).results == [("the list of files ends here", True, 0)] * 2


@pytest.mark.parametrize(("program", "says"), [
    (programs.raising_on_one_rank, "rank 1 of 2 raised RuntimeError: the list of files ends here"),
    (programs.stream_without_identify, "an IterableDataset has no indices: pass identify="),
    (programs.no_epochs, "num_epochs is 1 or more, not 0"),
], ids=lambda x: getattr(x, "__name__", ""))
def test_what_cannot_be_asked_is_refused(program, says):
    with pytest.raises(RankFailed) as raised:
        launch(program, 2)
    assert says in str(raised.value)
