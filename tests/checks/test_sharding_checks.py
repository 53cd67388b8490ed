"""Exercises 1 to 5 of set 04 accept every right answer, and say of a wrong one what is wrong."""
import functools
import re
from unittest.mock import ANY

import numpy as np
import pytest
import torch
from torch.utils.data import DistributedSampler, random_split

from helpers.checks import means, ranks, sharding
from tests.checks import cells
from tests.checks import sharding_answers as answers
from tests.checks.outcome import outcome

CHECKS = {"sampler": (sharding.check_sampler, sharding.check_sampler_unseen),
          "proof": (sharding.check_proof, sharding.check_proof_unseen),
          "backward": (means.check_backward, means.check_backward_unseen),
          "accuracy": (means.check_accuracy, means.check_accuracy_unseen)}
POINTS = {"sampler": 3, "proof": 1, "backward": 3, "accuracy": 2}               # and 1 each for the unseen cases
PRAISE = {"sampler": "A partition, in every epoch.", "proof": "An empty answer is the proof.",
          "backward": "Every sample weighs as much as every other.",
          "accuracy": "It does not depend on the number of ranks."}
RIGHT = {
    "sampler": [answers.deals_out_a_permutation, answers.cuts_a_permutation_into_blocks,
                answers.asks_a_generator_of_numpy, answers.asks_a_generator_of_python, answers.adds_seed_and_epoch,
                answers.gives_a_tensor, answers.yields_one_after_the_other, answers.gives_numbers_of_numpy,
                answers.puts_the_global_generator_back, answers.shuffles_each_rank_again,
                answers.shuffles_each_rank_for_itself, functools.partial(answers.deals_out_a_permutation)],
    "proof": [answers.adds_up_counters, answers.sorts_its_dict, answers.has_keys_of_numpy, answers.has_values_of_torch,
              answers.has_a_default, answers.empties_its_parts],
    "backward": [answers.weights_by_the_global_count, answers.weights_its_mean, answers.weights_an_empty_mean,
                 answers.gathers_the_counts, answers.gathers_counts_as_objects, answers.gives_backward_its_gradient,
                 answers.weights_by_the_mean_count],
    "accuracy": [answers.takes_the_maximum, answers.gathers_dicts, answers.adds_and_clamps,
                 answers.divides_by_how_often, answers.counts_at_rank_0_and_tells],
}
# the function, its points among those that a learner sees and among the grader's, and what is said
ORDER = "WRONG  an order for each epoch, the same when asked again: "
UNEVEN = "WRONG  as many on every rank: ranks have 251, 251, 251, 250 samples"
OWN_SAMPLER = "in this exercise you write what DistributedSampler does"
GLOBAL = "global generator"
SAMPLER = [
    (answers.seeds_with_the_rank, 0, 0, "24 samples on 4 ranks, epoch 0: sample 10 is never drawn, and so 8 in all. "
                                        "Do all ranks cut the same permutation?"),
    (answers.ignores_the_epoch, 2, 0, f"{ORDER}epoch 1 has the order of epoch 0"),
    (answers.ignores_the_seed, 2, 0, f"{ORDER}another seed gives the same order"),
    (answers.multiplies_seed_and_epoch, 2, 0, "unseen cases: another seed gives the same order"),
    (answers.multiplies_by_the_epoch_after_it, 2, 1, f"{ORDER}epoch 1 has the order of epoch 0"),
    (answers.does_not_shuffle, 2, 0, f"{ORDER}samples come in their own order: shuffle them"),
    (answers.does_not_shuffle_its_block, 2, 0, f"{ORDER}samples come in their own order: shuffle them"),
    (answers.rotates_instead_of_shuffling, 2, 0, ORDER),
    (answers.shuffles_the_first_epoch_only, 2, 0, ORDER),
    (answers.gives_all_samples_to_every_rank, 0, 0, "96 draws, so 72 repeat a sample; padding needs fewer"),
    (answers.drops_the_tail, 0, 0, "1003 samples on 4 ranks, epoch 0: sample 353 is never drawn, and so 3 in all"),
    (answers.pads_to_a_multiple_of_eight, 0, 0, "32 draws, so 8 repeat a sample; padding needs fewer"),
    (answers.pads_always, 0, 0, "28 draws, so 4 repeat a sample; padding needs fewer"),
    (answers.pads_with_its_own_last_sample, 3, 0, "unseen cases: ranks have 1, 1, 1, 0, 0 samples"),
    (answers.pads_once_only, 3, 0, "unseen cases: "),
    (answers.fails_with_fewer_samples_than_ranks, 3, 0, "unseen cases: raised AssertionError"),
    (answers.leaves_lengths_uneven, 2, 0, UNEVEN),
    (answers.leaves_the_last_rank_less, 2, 0, UNEVEN),
    (answers.seeds_the_global_generator, 0, 0, f"changes torch's {GLOBAL}: make one of your own, torch.Generator()"),
    (answers.draws_from_the_global_generator, 0, 0, f"changes torch's {GLOBAL}"),
    (answers.seeds_the_global_generator_and_yields, 0, 0, f"changes torch's {GLOBAL}"),
    (answers.seeds_pythons_global_generator, 0, 0, GLOBAL),
    (answers.seeds_numpys_global_generator, 0, 0, GLOBAL),
    (answers.draws_from_pythons_global_generator, 0, 0, ""),
    (answers.draws_once_and_remembers, 0, 0, ""),
    (answers.seeds_with_a_nanosecond, 0, 0, "Do all ranks cut the same permutation?"),
    (answers.counts_from_one, 0, 0, "24 samples on 4 ranks, epoch 0: 24 is no sample"),
    (answers.starts_at_the_next_rank, 0, 0, "24 samples on 4 ranks, epoch 0: sample 20 is never drawn, and so 1 in"),
    (answers.gives_floats, 0, 0, "returned [20.0, 7.0, 4.0, 9.0, 16.0, 15.0] of type list; whole numbers are asked"),
    (answers.gives_texts, 0, 0, "returned ['20', '7', '4', '9', '16', '15'] of type list; whole numbers are asked for"),
    (answers.gives_a_column, 0, 0, "returned [[20], [7], [4], [9], [16], [15]] of type list; whole numbers are asked"),
    (answers.gives_the_lists_of_all_ranks, 0, 0, "[3, 13, 19, 11, 0, 21], [12, 17, ... of type list; whole numbers"),
    (answers.gives_ints_of_its_own, 0, 0, "returned [0, 0, 0, 0, 0, 0] of type list; whole numbers are asked for"),
    (answers.gives_a_number, 0, 0, "returned 3"),
    (answers.gives_nothing_back, 0, 0, "returned None: is there a return?"),
    (answers.gives_an_empty_list, 0, 0, "sample 0 is never drawn, and so 24 in all"),
    (answers.wraps_a_distributed_sampler, 0, 0, OWN_SAMPLER),
    (answers.derives_from_distributed_sampler, 0, 0, OWN_SAMPLER),
    (answers.imports_the_courses_sampling, 0, 0, "uses helpers.run.sampling, which this exercise asks you to do"),
]
PROOF = [
    (answers.forgets_what_is_missing, 0, 0, "parts [[2], [0]] of 3 samples: {} of type dict, expected {1: 0}"),
    (answers.forgets_repeats, 0, 0, "parts [[0, 1], [1, 2]] of 3 samples: {} of type dict, expected {1: 2}"),
    (answers.forgets_what_is_no_sample, 1, 0, "parts [[0, 5], [1]] of 2 samples: {} of type dict, expected {5: 1}"),
    (answers.forgets_what_is_no_sample_and_drawn_once, 1, 0, "{} of type dict, expected {5: 1}"),
    (answers.forgets_negative_ones, 1, 0, "{} of type dict, expected {-1: 1}"),
    (answers.indexes_a_list, 1, 0, "unseen cases: raised IndexError: list index out of range"),
    (answers.counts_on_each_rank, 0, 0, "parts [[0, 1], [1, 2]] of 3 samples: {} of type dict, expected {1: 2}"),
    (answers.counts_ranks_not_draws, 0, 1, "parts [[0, 0], [2]] of 3 samples: {1: 0} of type dict, expected {0: 2, "),
    (answers.counts_draws_too_many, 0, 0, "parts [[2], [0]] of 3 samples: {1: 1} of type dict, expected {1: 0}"),
    (answers.gives_all_counts, 0, 0, "of 4 samples: {0: 1, 1: 1, 2: 1, 3: 1} of type dict, expected {}"),
    (answers.gives_keys_only, 0, 0, "returned [] of type list; a dict is asked for"),
    (answers.says_whether, 0, 0, "returned True of type bool; a dict is asked for"),
    (answers.gives_an_empty_dict, 0, 0, "parts [[2], [0]] of 3 samples: {} of type dict, expected {1: 0}"),
    (answers.has_keys_of_text, 0, 0, "{'1': 0} of type dict, expected {1: 0}"),
    (answers.gives_a_dict_of_its_own, 0, 0, "parts [[2], [0]] of 3 samples: {} of type dict, expected {1: 0}"),
    (answers.is_equal_to_any_count, 0, 0, "parts [[2], [0]] of 3 samples: "),
    (answers.holds_anything_for_equal, 0, 0, "parts [[2], [0]] of 3 samples: "),
    (answers.has_values_of_several_numbers, 0, 0, "parts [[2], [0]] of 3 samples: "),
]
NOT_THE_MEAN = "the gradient is not that of the mean over all samples"
NO_GRADIENT = "rank 0 has no gradient: is backward called?"
DEAR = "bytes more than DDP's are sent"
BACKWARD = [
    (answers.takes_the_mean_of_means, 1, 0, f"8, 8, 3 and 1: {NOT_THE_MEAN}: that is the mean of the ranks' means"),
    (answers.takes_the_sum, 0, 0, f"ranks with as many samples: {NOT_THE_MEAN}: it is 4 times too large"),
    (answers.forgets_that_ddp_divides, 0, 0, f"ranks with as many samples: {NOT_THE_MEAN}: it is 0.5 times"),
    (answers.weights_the_wrong_way_round, 1, 0, f"ranks with 8, 8, 3 and 1: {NOT_THE_MEAN}, nor a multiple of it"),
    (answers.weights_by_its_own_count, 0, 0, f"ranks with as many samples: {NOT_THE_MEAN}: it is 0.5 times"),
    (answers.takes_the_largest_count, 1, 0, f"ranks with 8, 8, 3 and 1: {NOT_THE_MEAN}: it is 0.625 times"),
    (answers.drops_samples_to_be_even, 1, 0, f"ranks with 8, 8, 3 and 1: {NOT_THE_MEAN}, nor a multiple of it"),
    (answers.leaves_when_it_has_none, 3, 0, "on real ranks: rank 0 of 2 waited for a rank that had already returned"),
    (answers.goes_backward_twice, 0, 0, "raised RuntimeError: Trying to backward through the graph a second time"),
    (answers.goes_backward_twice_and_keeps_the_graph, 0, 0, NOT_THE_MEAN),
    (answers.forgets_backward, 0, 0, NO_GRADIENT),
    (answers.uses_the_courses_mean, 0, 0, "uses helpers.run.data, which this exercise asks you to do without"),
    (answers.reduces_the_losses, 0, 0, f"ranks with 8, 8, 3 and 1: {NOT_THE_MEAN}: it is 0.25 times"),
    (answers.detaches_the_loss, 0, 0, "element 0 of tensors does not require grad and does not have a grad_fn"),
    (answers.gathers_all_losses, 2, 1, DEAR),
    (answers.gathers_losses_as_objects, 2, 1, DEAR),
    (answers.sends_kilobytes, 2, 1, f"8,144 {DEAR}: the counts are enough"),
    (answers.reduces_the_gradients_again, 2, 1, DEAR),
    (answers.leaves_ones_everywhere, 0, 0, NOT_THE_MEAN),
    (answers.lets_the_weights_overflow, 0, 0, NOT_THE_MEAN),
    (answers.has_no_gradient_at_all, 0, 0, NOT_THE_MEAN),
    (answers.gives_nothing, 0, 0, NO_GRADIENT),
]
ACCURACY = [
    (answers.adds_counts, 1, 0, "WRONG  padded by a DistributedSampler: 8 of 10 samples are right, on 3 ranks: rank 0 "
                                "says 0.9000, expected 0.8000"),
    (answers.divides_by_draws, 1, 0, "WRONG  padded by a DistributedSampler: 6 of 9 samples are right, on 4 ranks: "
                                     "rank 0 says 0.5000, expected 0.6667"),
    (answers.takes_the_mean_of_accuracies, 0, 0, "WRONG  not padded: 8 of 10 samples are right, on 3 ranks: rank 0 "
                                                 "says 0.8333, expected 0.8000"),
    (answers.gives_its_own, 0, 0, "rank 1 says 0.5000, expected 0.6667: that is its own accuracy"),
    (answers.adds_without_clamping, 1, 0, "rank 0 says 0.9000, expected 0.8000"),
    (answers.takes_the_minimum, 0, 0, "rank 0 says 0.0000, expected 0.6667"),
    (answers.tells_rank_0_only, 0, 0, "rank 1 returned None of type NoneType; a number is asked for"),
    (answers.reduces_to_rank_0, 0, 0, "6 of 9 samples are right, on 4 ranks: rank 1 says "),
    (answers.gives_a_percentage, 0, 0, "rank 0 says 66.6667, expected 0.6667"),
    (answers.gives_the_share_of_wrong_ones, 0, 0, "rank 0 says 0.3333, expected 0.6667"),
    (answers.fails_without_samples, 2, 0, "ranks 3 and 4 of 5 raised RuntimeError: min(): Expected reduction dim"),
    (answers.knows_the_visible_cases, 2, 0, "rank 0 says 1.0000, expected 0.6667"),
    (answers.gives_a_number_of_its_own, 0, 0, "rank 0 returned 0.5 of type EqualToAny; a number is asked for"),
    (answers.gives_nothing, 0, 0, "rank 0 returned None of type NoneType; a number is asked for"),
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
    seen, unseen, words = seen_and_unseen(name, function)
    assert (seen, unseen) == (POINTS[name], 1), words
    assert PRAISE[name] in words
    assert "It holds anywhere." in words
    assert "WRONG" not in words


@pytest.mark.parametrize(("name", "function", "points", "points_unseen", "says"), WRONG)
def test_a_wrong_answer_is_told_what_is_wrong(name, function, points, points_unseen, says):
    seen, unseen, words = seen_and_unseen(name, function)
    assert (seen, unseen) == (points, points_unseen), words
    assert says in words
    assert seen + unseen < POINTS[name] + 1


@pytest.mark.parametrize(("name", "function", "says"), [
    (name, *case) for name in CHECKS for case in (EVERYWHERE[:2] if name in ("backward", "accuracy") else EVERYWHERE)])
def test_what_is_no_answer_gets_nothing_from_any_check(name, function, says):
    for check in CHECKS[name]:
        points, words = outcome(check, function)
        assert points == 0
        assert says in words


@pytest.mark.parametrize("name", CHECKS)
def test_an_answer_that_never_ends_is_ended(impatient, monkeypatch, name):
    monkeypatch.setattr(ranks, "DEADLINE_S", 1.0)
    seen, unseen, words = seen_and_unseen(name, answers.never_ends)
    assert (seen, unseen) == (0, 0)
    assert words.count("not done after 1 s") >= 2


@pytest.mark.parametrize("name", ["proof", "accuracy"])
def test_an_answer_that_prints_for_ever_is_ended(name):
    points, words = outcome(CHECKS[name][0], answers.floods_the_log)
    assert points == 0
    assert "printed more than 17 MB and was stopped" in words


@pytest.mark.parametrize(("function", "points", "says"), [
    (answers.gathers_unequal_tensors, 1, "The ranks gave tensors of different sizes or dtypes to one call."),
    (answers.asks_ranks_with_samples_only, 2, "rank 0 waits in all_reduce (collective 1)")])
def test_an_accuracy_for_which_ranks_wait_in_vain_is_ended(monkeypatch, function, points, says):
    """And no learner is shown a line of the check."""
    monkeypatch.setattr(ranks, "DEADLINE_S", 2.0)
    seen, unseen, words = seen_and_unseen("accuracy", function)
    assert (seen, unseen) == (points, 0)
    assert says in words
    assert "means.py" not in words


@pytest.mark.parametrize("name", ["backward", "accuracy"])
def test_a_learner_is_shown_his_own_lines_and_none_of_the_check(name):
    _, words = outcome(CHECKS[name][0], answers.divides_by_zero)
    assert 'File "sharding_answers.py", line ' in words
    assert "means.py" not in words


def test_a_gradient_that_is_too_small_is_not_called_too_large():
    assert "0.5 times too large" not in outcome(means.check_backward, answers.forgets_that_ddp_divides)[1]


@pytest.mark.parametrize(("name", "code"), [
    ("backward", "def function(losses):\n    global_mean(losses.sum(), len(losses)).backward()"),
    ("sampler", "def function(**case):\n    return global_mean(1, 1)")])
def test_what_a_cell_has_imported_cannot_be_used_either(name, code):
    cell = {"__name__": "__main__"}
    exec(f"from helpers.run.data import global_mean\n{code}", cell)
    seen, unseen, words = seen_and_unseen(name, cell["function"])
    assert (seen, unseen) == (0, 0)
    assert "uses helpers.run.data, which this exercise asks you to do without" in words


def test_torch_in_the_notebook_is_not_asked_whether_a_gradient_is_right(monkeypatch):
    monkeypatch.setattr(torch.Tensor, "norm", lambda self: torch.zeros(()))
    assert outcome(means.check_backward, answers.takes_the_sum)[0] == 0


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


@pytest.mark.parametrize("kind", [int, float, np.int64, torch.tensor])
def test_the_wrong_script_gets_all_points(scripts, never_drawn, kind):
    points, words = outcome(sharding.check_script, scripts, "d", np.str_("overlap"), kind(never_drawn))
    assert (points, "No message, no other loss curve, and it is wrong." in words) == (3, True)


@pytest.mark.parametrize(("wrong", "points", "says"), [
    ("c", 2, "WRONG  the script: not 'c' of type str: run check_sampling on it and look for FAULT"),
    ("D", 2, "not 'D' of type str"), (["d"], 2, "not ['d'] of type list"), (4, 2, "not 4 of type int"),
    (None, 2, "WRONG  the script: nothing here yet"), (..., 2, "nothing here yet"), (ANY, 2, "not <ANY> of type"),
    (answers.Odd(4), 2, "of type Odd"), (np.array(["a", "d"]), 2, "of type ndarray"), (np.array([]), 2, "ndarray")])
def test_another_script_costs_a_point(scripts, never_drawn, wrong, points, says):
    got, words = outcome(sharding.check_script, scripts, wrong, "overlap", never_drawn)
    assert got == points
    assert says in words


@pytest.mark.parametrize(("kind", "says"), [
    ("missing", "WRONG  the kind of fault: not 'missing' of type str: as the report names it, after FAULT"),
    ("FAULT  overlap", "not 'FAULT  overlap' of type str"), ("Overlap", "not 'Overlap' of type str"),
    (None, "WRONG  the kind of fault: nothing here yet"), (ANY, "not <ANY> of type"), (True, "not True of type bool")])
def test_another_kind_of_fault_costs_a_point(scripts, never_drawn, kind, says):
    got, words = outcome(sharding.check_script, scripts, "d", kind, never_drawn)
    assert got == 2
    assert says in words


@pytest.mark.parametrize(("number", "says"), [
    (0, "0 is too little"), (103, "103 is too little"), (1003, "1003 is too much"), (248, "is the number of repeats"),
    (900, "900 is the number of draws"), (652, "652 is what is drawn, not what is not"),
    ("351", "a number is asked for, not '351' of type str"), (None, "nothing here yet"), (..., "nothing here yet"),
    (True, "not True of type bool"), (float("nan"), "not nan of type float"), (ANY, "a number is asked for, not <ANY>"),
    (answers.Odd(9), "not 9 of type Odd"), ([351], "not [351] of type list")])
def test_another_number_of_samples_is_explained_and_costs_a_point(scripts, number, says):
    got, words = outcome(sharding.check_script, scripts, "d", "overlap", number)
    assert got == 2
    assert says in words


def test_no_answer_at_all_gets_nothing(scripts):
    assert outcome(sharding.check_script, scripts, None, None, None) == (0, "nothing here yet")


@pytest.mark.parametrize("change", [
    lambda scripts: {}, lambda scripts: {"a": scripts["a"]}, lambda scripts: {**scripts, "a": scripts["d"]},
    lambda scripts: {**scripts, "a": 3}, lambda scripts: {**scripts, "a": []}, lambda scripts: list(scripts),
    lambda scripts: None], ids=["none", "one", "two_wrong", "a_number", "a_list", "names", "nothing"])
def test_other_scripts_than_those_given_get_nothing(scripts, never_drawn, change):
    """And no error of the check."""
    points, words = outcome(sharding.check_script, change(scripts), "d", "overlap", never_drawn)
    assert points == 0
    assert re.search("scripts", words)
    assert "sharding.py" not in words
