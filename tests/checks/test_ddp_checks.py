"""The checks of set 03 accept every right answer, and say of a wrong one what is wrong."""
import functools
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from helpers.checks import accumulation, buckets, ranks, rates
from helpers.checks.verdict import CheckFailed
from helpers.run.launch import launch
from helpers.run.meters import wire
from helpers.run.models import perceptron
from tests.checks import answers, answers_odd, cells
from tests.checks import ddp_answers as ddp
from tests.checks.answers import Generous, GenerousInt, TrueForEverything
from tests.checks.outcome import outcome

CHECKS = {      # both checks of an exercise, and the points of each
    "buckets": (buckets.check_buckets, 3, buckets.check_buckets_unseen, 1),
    "accumulation": (accumulation.check_accumulation, 3, accumulation.check_accumulation_unseen, 1),
    "rate": (rates.check_rate, 1, rates.check_rate_unseen, 2),
}
RIGHT = {
    "buckets": [ddp.divides_before_the_sum, ddp.starts_all_and_waits_at_the_end, ddp.lets_gloo_average,
                ddp.flattens_with_torchs_own, ddp.copies_into_a_buffer, ddp.leaves_a_thread_behind,
                functools.partial(ddp.divides_before_the_sum),
                lambda gradients, bucket_bytes: ddp.copies_into_a_buffer(gradients, bucket_bytes)],
    "accumulation": [ddp.enters_no_sync_for_each, ddp.sums_losses_and_divides, ddp.divides_the_gradients_at_last,
                     ddp.averages_one_flat_tensor_by_itself, ddp.has_no_sync_around_forward_only,
                     lambda *answer: ddp.enters_no_sync_for_each(*answer)],
    "rate": [ddp.goes_by_way_of_one_sample, ddp.counts_what_a_sum_needs, ddp.gives_a_fraction,
             ddp.gives_a_number_of_numpy, ddp.gives_a_tensor, ddp.changes_its_arguments,
             lambda **case: ddp.goes_by_way_of_one_sample(**case)],
}
PRAISE = {"buckets": ("Buckets leave in the order in which backward fills them.", "It holds anywhere."),
          "accumulation": ("Four microbatches, one message.", "Samples count, not microbatches."),
          "rate": ("Same steps, whatever the number of ranks.", "It holds for all of them.")}
FIRST = "every gradient is the mean: gradient 0 [4, 3] on rank"
IS = ", expected 277.75 everywhere (rank r had 1 times 10**r): that is "
OWN = f"{IS}its own"
CALLS = "WRONG  one all_reduce for each bucket: "
ORDER = "WRONG  filled from the last gradient: messages of"
SIZES = "all_reduces for gradients of 48, 16, 32, 8 bytes and buckets of 24 bytes, expected 2\n"
EMPTY = "all_reduces for gradients of 40, 0, 4, 28 bytes and buckets of 0 bytes, expected 4\n"
# The answer, its points, those of the unseen cases (None: they are not run, to save time), and what a learner reads: of
# the cases that he sees, or if these are right, of the unseen ones.
BUCKETS = [
    (ddp.sums_only, 0, 0, f"{FIRST} 0 of 4 has 1111{IS}the sum\n{CALLS}judged once the means are right"),
    (ddp.divides_twice, 0, 0, f"{FIRST} 0 of 4 has 69.4375{IS}divided twice"),
    (ddp.divides_on_rank_0_only, 0, 0, f"{FIRST} 1 of 4 has 1111{IS}the sum"),
    (ddp.divides_without_summing, 0, 0, f"{FIRST} 0 of 4 has 0.25{OWN}, divided"),
    (ddp.makes_all_reduce_do_nothing, 0, 0, f"{FIRST} 0 of 4 has 0.25{OWN}, divided"),
    (ddp.returns_a_new_list, 0, 0, f"{FIRST} 0 of 4 has 1{OWN}, not the mean. Is it filled in place?"),
    (ddp.puts_new_tensors_into_the_list, 0, 0, f"{FIRST} 0 of 4 has 1{OWN}, not the mean. Is it filled in place?"),
    (ddp.forgets_to_copy_back, 0, 0, f"{FIRST} 0 of 4 has 1{OWN}, not the mean. Is it filled in place?"),
    (ddp.copies_back_from_the_end, 0, 0, f"{FIRST} 0 of 4 has 277.75, 555.5, expected 277.75 everywhere"),
    (ddp.copies_back_before_waiting, 0, 0, "expected 277.75 everywhere"),
    (ddp.flattens_the_gradients_themselves, 0, 0, f"{FIRST} 0 of 4 has tensor([277.7500, "),
    (ddp.reduces_each_gradient, 1, 0, f"{CALLS}4 {SIZES}{ORDER} 8, 32, 16, 48 bytes, expected 40, 64\n1 of 3 points"),
    (ddp.reduces_everything_at_once, 1, 0, f"{CALLS}1 {SIZES}{ORDER} 104 bytes, expected 40, 64"),
    (ddp.sends_the_last_bucket_first, 2, 1, f"{ORDER} 64, 40 bytes, expected 40, 64: start with the last gradient"),
    (ddp.gathers_and_adds, 1, 0, f"{CALLS}all_gather is called; all_reduce is enough"),
    (ddp.reduces_and_broadcasts, 1, 0, f"{CALLS}reduce is called; all_reduce is enough"),
    (ddp.waits_at_a_barrier, 2, 0, f"{CALLS}barrier is called; all_reduce is enough"),
    (ddp.stops_early_on_rank_0, 0, 0, "on real ranks: ranks 1, 2 and 3 of 4 waited for a rank that had already returned"
                                      "\n  rank 0 has returned, and is past all_reduce (collective 1)\n"),
    (ddp.stacks_the_gradients, 0, 0, "raised RuntimeError: stack expects each tensor to be equal size, but got [10] at "
                                     'entry 0 and [4, 3] at entry 1\n  File "ddp_answers.py", line '),
    (ddp.divides_by_zero, 0, 0, "ranks 0, 1, 2 and 3 of 4 raised ZeroDivisionError: division by zero\n"),
    (ddp.exits_the_process, 0, 0, "ranks 0, 1, 2 and 3 of 4 ended with exit code 0 before the program returned\n"),
    (ddp.is_not_written_yet, 0, 0, f"every gradient is the mean: is not written yet\n{CALLS}judged once the means are"),
    (ddp.takes_four_ranks_for_granted, 3, 0, "unseen cases: gradient 0 [3] on rank 0 of 3 has 27.75, expected 37 "),
    (ddp.forgets_the_last_bucket, 3, 0, "unseen cases: 0 all_reduces for gradients of 32, 24, 8 bytes and buckets of "),
    (ddp.closes_above_the_limit_only, 3, 0, f"unseen cases: 3 {EMPTY}"),
    (ddp.skips_a_bucket_without_elements, 3, 0, f"unseen cases: 3 {EMPTY}"),
    (None, 0, 0, "a function is asked for, not None of type NoneType"),
]
# right means, but other buckets
FILLED_OTHERWISE = [
    (ddp.fills_from_the_first, f"3 {SIZES}{ORDER} 48, 48, 8 bytes, expected 40, 64"),
    (ddp.closes_before_the_limit_is_passed, f"4 {SIZES}{ORDER} 8, 32, 16, 48 bytes, expected 40, 64"),
    (ddp.counts_elements, f"1 {SIZES}{ORDER} 104 bytes, expected 40, 64"),
]
AWAY = "away, relatively, from a step of one process on all samples\n"
LATER = f"{AWAY}WRONG  gradients are sent once: judged once the step is right"
UNLIKE = "unseen cases: microbatches of (5, 3, 1): 0.weight is "
DEAR = "WRONG  gradients are sent once: "
EACH = f"{DEAR}3.7 times the bytes of one reduction are sent, expected once: each backward reduces; is no_sync "
ACCUMULATION = [
    (ddp.does_not_divide, 0, 0, LATER),
    (ddp.counts_samples_of_all_ranks, 0, None, LATER),
    (ddp.divides_by_the_ranks_again, 0, None, LATER),
    (ddp.keeps_the_last_one_inside_no_sync, 0, 0, LATER),
    (ddp.goes_around_ddp, 0, None, LATER),
    (ddp.forgets_zero_grad, 0, 0, LATER),
    (ddp.clears_at_the_end_only, 0, None, LATER),
    (ddp.clears_in_between, 0, None, LATER),
    (ddp.forgets_the_step, 0, 0, LATER),
    (ddp.steps_twice, 0, None, LATER),
    (ddp.steps_after_each, 0, None, LATER),
    (ddp.uses_the_first_only, 0, None, LATER),
    (ddp.leaves_out_the_last, 0, None, LATER),
    (ddp.steps_on_rank_0_only, 2, 0, "and so is the next step: the first step is right, but in the second 0."),
    (ddp.sends_each_microbatch, 2, 1, EACH),
    (ddp.has_no_sync_around_backward_only, 2, 1, EACH),
    (ddp.sends_the_last_two, 2, 1, f"{DEAR}1.9 times the bytes of one reduction are sent, expected once\n"),
    (ddp.averages_once_more, 2, 1, f"{DEAR}1.9 times the bytes of one reduction are sent, expected once\n"),
    (ddp.averages_parameters_too, 2, 1, f"{DEAR}1.9 times the bytes of one reduction are sent, expected once\n"),
    (ddp.divides_by_the_number_of_microbatches, 3, 0, UNLIKE),
    (ddp.takes_four_microbatches_for_granted, 3, 0, UNLIKE),
    (ddp.weighs_with_the_first_size, 3, 0, UNLIKE),
    (ddp.divides_by_zero, 0, 0, "on real ranks: ranks 0 and 1 of 2 raised ZeroDivisionError: division by zero\n  File"),
    (ddp.returns_at_once_on_rank_0, 0, 0, "on real ranks: "),
    (ddp.exits_the_process, 0, 0, "on real ranks: ranks 0 and 1 of 2 ended with exit code 0 before the program "),
    (ddp.writes_without_end, 0, None, "printed more than 17 MB and was stopped"),
    (ddp.is_not_written_yet, 0, 0, "is not written yet"),
    (..., 0, 0, "a function is asked for, not Ellipsis of type ellipsis"),
]
SUM = ". By what factor is a sum longer than a mean?"
SAMPLES = ". How many samples does a step have, before and after?"
ALL = ". Is it the batch of a rank or of all ranks that counts?"
GROWS = "rate 0.1, from 1 x 8 samples, mean to 4 x 8 samples, mean: "
RATE = [
    (ddp.never_scales, 0, 0, f"{GROWS}0.1, expected 0.4{SAMPLES}"),
    (ddp.scales_by_the_ranks_only, 0, 0, f"1 x 32 samples, mean to 4 x 8 samples, mean: 0.4, expected 0.1{ALL}"),
    (ddp.scales_by_the_batch_of_a_rank_only, 0, 0, f"mean: 0.025, expected 0.1{ALL}"),
    (ddp.forgets_the_sum, 0, 1, f"rate 0.1, from 1 x 32 samples, mean to 4 x 8 samples, sum: 0.1, expected 0.025{SUM}"),
    (ddp.forgets_the_sum_before, 0, 1, f"from 4 x 8 samples, sum to 4 x 8 samples, mean: 0.1, expected 0.4{SUM}"),
    (ddp.forgets_the_sum_after, 0, 1, f"mean to 4 x 8 samples, sum: 0.1, expected 0.025{SUM}"),
    (ddp.divides_by_the_ranks_before, 0, 1, f"mean to 4 x 8 samples, sum: 0.1, expected 0.025{SUM}"),
    (ddp.multiplies_for_a_sum, 0, 1, f"mean to 4 x 8 samples, sum: 0.4, expected 0.025{SUM}"),
    (ddp.is_inverted, 0, 0, f"{GROWS}0.025, expected 0.4"),
    (ddp.takes_the_square_root, 0, 0, f"{GROWS}0.2, expected 0.4"),
    (ddp.divides_whole_numbers, 0, 1, "rate 0.4, from 8 x 16 samples, mean to 2 x 16 samples, mean: 0, expected 0.1"),
    (ddp.never_scales_down, 0, 1, f"sum: 0.1, expected 0.025{SUM}"),
    (ddp.rounds_to_a_hundredth, 0, 1, "sum: 0.03, expected 0.025"),
    (ddp.returns_the_factor, 0, 0, "mean: 1, expected 0.1"),
    (ddp.returns_a_text, 0, 0, "a rate is asked for, not '0.1' of type str"),
    (ddp.returns_both_rates, 0, 0, "returned a tuple; a number is asked for"),
    (ddp.has_no_branch_for_a_sum, 0, 1, "returned None: is there a return?"),
    (ddp.misspells_a_key, 0, 0, "raised KeyError: 'batchsize'"),
    (ddp.uses_the_courses_answer, 0, 0, "uses helpers.predict, which this exercise asks you to do without"),
    (ddp.changes_nothing_between_sums, 1, 1, f"16 x 2 samples, sum to 2 x 16 samples, sum: 0.5, expected 4{SUM}"),
    (ddp.takes_two_sums_for_means, 1, 1, f"2 x 8 samples, sum to 4 x 8 samples, sum: 0.6, expected 0.3{SUM}"),
    (ddp.knows_the_seen_changes, 1, 0, f"8 x 4 samples, mean to 8 x 16 samples, mean: 0.2, expected 0.8{SAMPLES}"),
    (answers.is_not_written_yet, 0, 0, "is not written yet"),
    (answers.returns_nothing, 0, 0, "returned None: is there a return?"),
    (answers.returns_nan, 0, 0, "a rate is asked for, not nan of type float"),
    (answers.returns_infinity, 0, 0, "a rate is asked for, not inf of type float"),
    (answers.returns_true, 0, 0, "a rate is asked for, not True of type bool"),
    (answers.returns_a_complex_number, 0, 0, "returned a complex; a number is asked for"),
    (answers.yields_instead_of_returning, 0, 0, "returned a generator; a number is asked for"),
    (answers.true_for_everything, 0, 0, "returned a TrueForEverything; a number is asked for"),
    (answers.returns_a_float_of_its_own, 0, 0, "returned a Generous; a number is asked for"),
    (answers.renames_its_arguments, 0, 0, "got an unexpected keyword argument 'rate'"),
    (answers.divides_by_zero, 0, 0, "raised ZeroDivisionError: division by zero"),
    (answers.leaves_with_sys_exit, 0, 0, "raised SystemExit: enough"),
    (answers.exits_the_process, 0, 0, "the function ended its process: rank 0 of 1 ended with exit code 3"),
    (answers.prints_that_it_is_right, 0, 0, "samples, mean: 0, expected 0.1"),
    (answers.makes_the_check_generous_over_there, 0, 0, "samples, mean: -1, expected 0.1"),
    (answers_odd.returns_5000_digits, 0, 0, "a rate is asked for, not something of type int"),
    (answers_odd.returns_a_meta_tensor, 0, 0, "returned a Tensor; a number is asked for"),
    (0.1, 0, 0, "a function is asked for, not 0.1 of type float"),
]
WRONG = [(name, *case) for name, cases in (("buckets", BUCKETS), ("accumulation", ACCUMULATION), ("rate", RATE))
         for case in cases]


@pytest.mark.parametrize(("name", "function"), [(name, function) for name, some in RIGHT.items() for function in some])
def test_a_right_answer_gets_all_points(name, function):
    seen, most, unseen, most_unseen = CHECKS[name]
    for check, points, praise in zip((seen, unseen), (most, most_unseen), PRAISE[name], strict=True):
        got, words = outcome(check, function)
        assert (got, praise in words, "WRONG" in words) == (points, True, False)


@pytest.mark.parametrize(("name", "function", "points", "points_unseen", "says"), WRONG)
def test_a_wrong_answer_is_told_what_is_wrong(name, function, points, points_unseen, says):
    seen, most, unseen, _most_unseen = CHECKS[name]
    got, words = outcome(seen, function)
    got_unseen, words_unseen = (None, "") if points_unseen is None else outcome(unseen, function)
    assert (got, got_unseen) == (points, points_unseen)
    assert says in (words if points < most else words_unseen)


@pytest.mark.parametrize(("function", "says"), FILLED_OTHERWISE)
def test_other_buckets_keep_the_point_of_the_mean(function, says):
    points, words = outcome(buckets.check_buckets, function)
    assert (points, says in words) == (1, True)


@pytest.mark.parametrize("function", [ddp.fills_from_the_first, ddp.closes_before_the_limit_is_passed,
                                      ddp.counts_elements, ddp.takes_every_element_for_4_bytes,
                                      ddp.has_buffers_of_float32])
def test_unseen_cases_see_which_gradients_a_bucket_has_and_of_what_dtype(function):
    points, words = outcome(buckets.check_buckets_unseen, function)
    assert points == 0
    assert words.startswith("unseen cases: ")


def test_the_courses_own_ddp_is_named_as_what_the_exercise_forbids():
    for check in (buckets.check_buckets, buckets.check_buckets_unseen):
        assert "uses helpers.run.ddp, which this exercise asks you to do without" in outcome(
            check, ddp.uses_the_courses_ddp)[1]


@pytest.mark.parametrize(("check", "file"), [(buckets.check_buckets, "buckets.py"),
                                             (accumulation.check_accumulation, "accumulation.py")])
def test_no_line_of_a_check_is_shown(check, file):
    points, words = outcome(check, ddp.takes_no_arguments)
    assert points == 0
    assert "raised TypeError: takes_no_arguments() takes 0 positional arguments but " in words
    assert file not in words


def test_microbatches_put_together_are_accepted_though_they_would_not_fit():
    """So is one backward pass of the sum of all losses; nothing looks at how many samples are there at once."""
    for function in (ddp.puts_all_together, ddp.keeps_all_graphs, ddp.averages_parameters_instead):
        assert [outcome(check, function)[0] for check in CHECKS["accumulation"][::2]] == [3, 1]


def test_models_that_do_not_move_have_not_taken_a_step():
    assert [outcome(check, ddp.stops_torch_from_training)[0] for check in CHECKS["accumulation"][::2]] == [0, 0]


@pytest.mark.parametrize(("module", "check"), [(buckets, buckets.check_buckets),
                                               (accumulation, accumulation.check_accumulation_unseen)])
def test_an_answer_that_never_ends_is_shown_where_it_is_after_one_deadline(monkeypatch, module, check):
    runs, on_ranks = [], module.on_ranks
    monkeypatch.setattr(ranks, "DEADLINE_S", 3.0)
    monkeypatch.setattr(module, "on_ranks", lambda *case: runs.append(on_ranks(*case)) or runs[-1])
    points, words = outcome(check, ddp.never_ends)
    assert points == 0
    assert "on real ranks: not done after 3 s\n" in words
    assert "in never_ends: " in words
    assert len(runs) == 1


def test_a_rate_that_is_never_found_is_ended(impatient):
    for check in (rates.check_rate, rates.check_rate_unseen):
        points, words = outcome(check, answers.never_ends)
        assert (points, "not done after 1 s: does a loop in it never end?" in words) == (0, True)


# 4. predict, then measure ---------------------------------------------------------------------------------------------
def kind(value):
    """The id of a case; some values have 5000 digits."""
    return f"{value:.40}" if isinstance(value, str) else type(value).__name__


def one_step(rank, world_size, num_steps=1, with_construction=False):
    with wire() as all_sent:
        model = DistributedDataParallel(perceptron(512, 1024, 1024, 512, 256))
        with wire() as sent:
            for _ in range(num_steps):
                model(torch.randn(4, 512)).sum().backward()
    return all_sent.sent if with_construction else sent.sent


@pytest.fixture(scope="module")
def measured():
    """As a learner measures."""
    return launch(one_step, 3).results


PARAMETERS = [*perceptron(512, 1024, 1024, 512, 256).parameters()]
NUM_PARAMETERS = sum(parameter.numel() for parameter in PARAMETERS)
SENT = 2 * 2 / 3 * 4 * NUM_PARAMETERS
ALL_REDUCES = len(dist._compute_bucket_assignment_by_size(PARAMETERS[::-1], [2**20, 4 * 2**20])[0])
WRONG_BYTES = [
    (4 * NUM_PARAMETERS, "8,924,160 is the size of the gradients"),
    (NUM_PARAMETERS, "2,231,040 is the number of parameters"),
    (SENT / 4, "2,974,720 is the number of elements sent; a float32 has 4 bytes"),
    (SENT / 2, "5,949,440 is half of an all_reduce"),
    (3 * SENT, "35,696,640 is what all ranks send together"),
    (2 * SENT, "23,797,760 is too much"), (0, "0 is too little"), (-SENT, "-11,898,880 is too little"),
    (SENT / 2**20, "11.35 is too little"), ("12 MB", "a number is asked for, not '12 MB' of type str"),
    ([SENT] * 3, "a number is asked for, not [11898880.0, 11898880.0, 11898880.0] of type list"),
    (np.array([SENT, SENT]), "a number is asked for, not array([11898880., 11898880.]) of type ndarray"),
    (True, "not True of type bool"), (float("nan"), "not nan of type float"), (float("inf"), "not inf of type float"),
    (10**400, "... of type int"), (10**5000, "not something of type int"), (Generous(SENT), "of type Generous"),
    (TrueForEverything(), "of type TrueForEverything"), (None, "nothing here yet"), (..., "nothing here yet"),
]
WRONG_CALLS = [
    (8, "8 is one for each parameter"), (4, "4 is one for each layer; count bytes"),
    (2, "2 would be right if the first bucket had 4 MiB, too"), (1, "1 is too little"), (5, "5 is too much"),
    (True, "a number is asked for, not True of type bool"), ("3", "a number is asked for, not '3' of type str"),
    ([3], "a number is asked for, not [3] of type list"), (10**5000, "not something of type int"),
    (float("nan"), "not nan of type float"), (None, "nothing here yet"), (..., "nothing here yet"),
]
LIST = "a list of 3 numbers is asked for, one for each rank, not "
HEADERS = "one step of DDP sends 11,898,880 and some headers."
WRONG_MEASURED = {
    "is_too_little": ([0.99 * SENT] * 3, f"rank 0 has 11,779,891; {HEADERS}\n"),
    "has_one_rank_right": ([1.001 * SENT, 0, 1.001 * SENT], f"rank 1 has 0; {HEADERS}\n"),
    "has_two_ranks": ([1.001 * SENT] * 2, LIST), "gives_the_sum": (3 * SENT, f"{LIST}35696640.0 of type float"),
    "gives_an_array": (np.array([SENT] * 3), f"{LIST}array([11898880., 11898880., 11898880.]) of type ndarray"),
    "gives_a_tensor": (torch.tensor([SENT] * 3), f"{LIST}tensor([11898880., 11898880., 11898880.]) of type Tensor"),
    "forgets_to_list": ((SENT for _ in range(3)), f"{LIST}<generator object"),
    "gives_a_text": ("abc", f"{LIST}'abc' of type str"),
    "gives_texts": (["11,900,616"] * 3, "rank 0 has '11,900,616' of type str; a number of bytes is asked for"),
    "gives_nothing": ([None] * 3, "rank 0 has None of type NoneType; a number of bytes is asked for"),
    "gives_truths": ([True] * 3, "rank 0 has True of type bool; a number of bytes is asked for"),
    "gives_nan": ([float("nan")] * 3, "rank 0 has nan of type float; a number of bytes is asked for"),
    "gives_infinity": ([float("inf")] * 3, "rank 0 has inf of type float; a number of bytes is asked for"),
    "gives_400_digits": ([10**400] * 3, "of type int; a number of bytes is asked for"),
    "gives_lists": ([[SENT]] * 3, "rank 0 has [11898880.0] of type list; a number of bytes is asked for"),
    "equals_all": ([Generous(1.001 * SENT)] * 3, "of type Generous; a number of bytes is asked for"),
    "is_not_started": (None, "WRONG  bytes measured: nothing here yet"),
    "is_dots": (..., "WRONG  bytes measured: nothing here yet"),
}


@pytest.mark.parametrize(("kind", "one"), [
    (list, float), (tuple, int), (lambda some: [*map(float, some)], Decimal),
    (lambda some: [*map(Decimal, some)], Fraction),
    (lambda some: [*np.array(some)], np.float64), (lambda some: [*torch.tensor(some)], torch.tensor)])
def test_right_numbers_of_any_kind_get_all_points(measured, kind, one):
    points, words = outcome(rates.check_step, one(SENT), one(ALL_REDUCES), kind(measured))
    assert (points, "Predicted and measured agree." in words) == (3, True)


@pytest.mark.parametrize(("value", "says"), WRONG_BYTES, ids=kind)
def test_wrong_bytes_are_explained_and_cost_one_point(measured, value, says):
    points, words = outcome(rates.check_step, value, ALL_REDUCES, measured)
    assert (points, f"WRONG  bytes predicted: {says}" in words or says in words) == (2, True)


def test_forgotten_biases_are_explained():
    _points, words = outcome(rates.check_step, 2 * 2 / 3 * 4 * sum(p.numel() for p in PARAMETERS[::2]), None, None)
    assert "11,885,227 counts weights only; there are biases, too" in words


@pytest.mark.parametrize(("value", "says"), WRONG_CALLS, ids=kind)
def test_a_wrong_number_of_all_reduces_is_explained_and_costs_one_point(measured, value, says):
    points, words = outcome(rates.check_step, SENT, value, measured)
    assert (points, says in words) == (2, True)


@pytest.mark.parametrize(("value", "says"), WRONG_MEASURED.values(), ids=WRONG_MEASURED)
def test_what_was_not_measured_is_explained_and_costs_one_point(value, says):
    points, words = outcome(rates.check_step, SENT, ALL_REDUCES, value)
    assert (points, says in words) == (2, True)


def test_a_broadcast_that_is_counted_too_is_named():
    for wrong in (launch(functools.partial(one_step, with_construction=True), 3).results, launch(one_step, 3).wire):
        points, _words = outcome(rates.check_step, SENT, ALL_REDUCES, wrong)
        assert points == 2
    _points, words = outcome(rates.check_step, SENT, ALL_REDUCES,
                             launch(functools.partial(one_step, with_construction=True), 3).results)
    assert f"{HEADERS} Is the broadcast at construction counted, too?" in words


def test_the_formula_is_not_taken_for_a_measurement():
    points, _words = outcome(rates.check_step, SENT, ALL_REDUCES, [SENT] * 3)
    assert points == 2


@pytest.mark.parametrize("value", [pytest.param(value, id=name) for name, value in answers_odd.VALUES.items()])
def test_an_odd_value_is_no_number(value):
    points, words = outcome(rates.check_step, value, value, [value] * 3)
    assert points == 0
    assert words.count("WRONG") == 3


# 5. where do they part? -----------------------------------------------------------------------------------------------
@functools.cache
def careless():
    """As the exercise gives it."""
    namespace = {"__name__": "__main__"}
    for cell in cells.solved("03_ddp"):
        if cell.name in ("setup", "given"):
            exec(compile(cell.code, "<cell>", "exec"), namespace)
    return namespace["careless"]


def weights(rank, world_size, program):
    """After each step, a copy of each parameter by name."""
    return [{name: one.detach().clone() for name, one in model.named_parameters()}
            for model in program(rank, world_size)]


@pytest.fixture(scope="module")
def parting():
    """Step, rank and tensor, without a fingerprint: by comparing the weights of all ranks here."""
    results = launch(weights, 4, careless()).results
    for step, models in enumerate(zip(*results, strict=True)):
        for name in models[0]:
            alike = [sum(torch.equal(one[name], other[name]) for other in models) for one in models]
            if min(alike) < 4:
                return step, alike.index(1), name


STEP_HINT = "call first_difference after each step, and count from 0"
WRONG_STEP = [1, 3, -8, 10, True, "2", [2], float("nan"), float("inf"), 10**400, 10**5000, TrueForEverything(),
              GenerousInt(2), 2.5]
WRONG_RANK = [0, 1, 3, (2,), True, "rank 2", float("nan"), 10**5000, GenerousInt(2)]
WRONG_TENSOR = ["0.bias", "2.weight", "weight", "", b"0.weight", True, 0, ["0.weight"], "x" * 10**6,
                TrueForEverything()]


@pytest.mark.parametrize("kind", [lambda part: part, np.array, lambda part: np.array([part])])
def test_a_right_parting_gets_all_points(parting, kind):
    points, words = outcome(rates.check_parting, careless(), *map(kind, parting))
    assert (points, "Found before any loss curve would show it." in words) == (3, True)


def test_a_right_step_and_rank_may_be_tensors_or_floats(parting):
    step, rank, tensor = parting
    for kind in (torch.tensor, np.int64, float):
        assert outcome(rates.check_parting, careless(), kind(step), kind(rank), tensor)[0] == 3


@pytest.mark.parametrize(("place", "value", "says"), [
    *((0, step, STEP_HINT) for step in WRONG_STEP), *((1, rank, "who is alone in the message?") for rank in WRONG_RANK),
    *((2, tensor, "such as '0.weight'") for tensor in WRONG_TENSOR),
    *((place, value, "nothing here yet") for place in range(3) for value in (None, ...))], ids=kind)
def test_a_wrong_part_is_explained_and_costs_one_point(parting, place, value, says):
    points, words = outcome(rates.check_parting, careless(), *parting[:place], value, *parting[place + 1:])
    assert (points, says in words, words.count("WRONG")) == (2, True, 1)


def test_nothing_at_all_gets_nothing():
    for nothing in (None, ...):
        assert outcome(rates.check_parting, careless(), nothing, nothing, nothing) == (0, "nothing here yet")
        assert outcome(rates.check_step, nothing, nothing, nothing) == (0, "nothing here yet")


class RaisesWhenCompared:
    def __eq__(self, other):
        raise RuntimeError("equal to what?")

    __hash__ = None


@pytest.mark.parametrize("value", [
    pytest.param(value, id=name) for name, value in {
        **answers_odd.VALUES, "raises_when_compared": RaisesWhenCompared(), "an_array": np.array([2, 2]),
        "a_tensor": torch.tensor([2, 2]), "an_empty_tensor": torch.empty(0)}.items()])
def test_an_odd_part_is_wrong_and_nothing_worse(value):
    points, words = outcome(rates.check_parting, careless(), value, value, value)
    assert points == 0
    assert words.count("WRONG") == 3


def parts_at_once(rank, world_size):
    torch.manual_seed(rank == 0)
    yield torch.nn.Linear(1, 1)


def never_parts(rank, world_size):
    torch.manual_seed(0)
    yield torch.nn.Linear(1, 1)


def test_another_program_in_the_place_of_the_given_one_gets_no_point():
    """Else a learner may write one that parts wherever he likes."""
    assert outcome(rates.check_parting, parts_at_once, 0, 0, "weight")[0] == 0


@pytest.mark.parametrize("program", [never_parts, ddp.divides_by_zero, None, [], lambda rank, world_size: None])
def test_a_program_that_was_broken_is_named_as_such(program):
    with pytest.raises(CheckFailed, match="leave it as it was given"):
        rates.check_parting(program, 0, 0, "weight")
