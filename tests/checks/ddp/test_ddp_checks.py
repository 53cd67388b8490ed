"""The checks of set 03 accept every right answer, and say of a wrong one what is wrong."""
import functools
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from helpers.checks.ddp import accumulation, buckets, divergence, rates, step_numbers
from helpers.checks.judge import real_ranks
from helpers.checks.judge.verdict import CheckFailed
from helpers.run.launch import launch
from helpers.run.measure.meters import wire
from helpers.run.models import perceptron
from tests.checks import answers, answers_odd, cells
from tests.checks.answers import Generous, GenerousInt, TrueForEverything
from tests.checks.ddp import ddp_answers as ddp
from tests.checks.outcome import outcome

CHECKS = {      # both checks of an exercise, and the points of each
    "buckets": (buckets.check_buckets, 3, buckets.check_buckets_unseen, 1),
    "accumulation": (accumulation.check_accumulation, 3, accumulation.check_accumulation_unseen, 1),
    "rate": (rates.check_rate, 1, rates.check_rate_unseen, 2),
}
RIGHT = {
    "buckets": [ddp.divides_before_the_sum, ddp.starts_all_and_waits_at_the_end, ddp.lets_gloo_average,
                ddp.flattens_with_torchs_own, ddp.copies_into_a_buffer, ddp.leaves_a_thread_behind,
                ddp.turns_the_list_around, functools.partial(ddp.divides_before_the_sum)],
    "accumulation": [ddp.enters_no_sync_for_each, ddp.sums_losses_and_divides, ddp.divides_the_gradients_at_last,
                     ddp.averages_one_flat_tensor_by_itself, ddp.averages_each_gradient_by_itself,
                     ddp.goes_through_ddp_for_the_last_only, ddp.switches_by_the_attribute,
                     ddp.has_no_sync_around_forward_only, ddp.names_the_input, ddp.looks_at_the_losses_without_graphs,
                     ddp.takes_gradients_without_backward, lambda *answer: ddp.enters_no_sync_for_each(*answer)],
    "rate": [ddp.goes_by_way_of_one_sample, ddp.counts_what_a_sum_needs, ddp.gives_a_fraction,
             ddp.gives_a_number_of_numpy, ddp.gives_a_tensor, ddp.changes_its_arguments,
             lambda **case: ddp.goes_by_way_of_one_sample(**case)],
}
PRAISE = {"buckets": ("Buckets leave in the order in which backward fills them.", "It holds anywhere."),
          "accumulation": ("Four microbatches, one message.", "Samples count, not microbatches."),
          "rate": ("Same steps, whatever the number of ranks.", "It holds for all of them.")}
FIRST = "every gradient is the mean: gradient 0 [3] on rank"
IS = ", expected 277.75 everywhere (rank r had 1 times 10**r): that is "
OWN = f"{IS}its own"
LATER = "judged once the means are right"
CALLS = "WRONG  one all_reduce for each bucket: "
ORDER = "WRONG  each message a bucket, the last gradients first: messages of"
SIZES = "all_reduces for gradients of 12, 48, 16, 32, 8 bytes and buckets of 40 bytes, expected 3\n"
LARGE = "all_reduces for gradients of 131,072, 2,048, 131,072, 2,048, 131,072, 2,048, ... bytes and buckets of 262,144 "
SENT_ARE = "bytes, expected 40, 64, 12"
EMPTY = "all_reduces for gradients of 40, 0, 4, 28 bytes and buckets of 0 bytes, expected 4\n"
# The answer, its points, those of the unseen cases (None: they are not run, to save time), and what a learner reads: of
# the cases that he sees, or if these are right, of the unseen ones.
BUCKETS = [
    (ddp.sums_only, 0, 0, f"{FIRST} 0 of 4 has 1111{IS}the sum\n{CALLS}{LATER}"),
    (ddp.divides_twice, 0, 0, f"{FIRST} 0 of 4 has 69.4375{IS}divided twice"),
    (ddp.divides_on_rank_0_only, 0, 0, f"{FIRST} 1 of 4 has 1111{IS}the sum"),
    (ddp.divides_without_summing, 0, 0, f"{FIRST} 0 of 4 has 0.25{OWN}, divided"),
    (ddp.returns_a_new_list, 0, None, f"{FIRST} 0 of 4 has 1{OWN}, not the mean. Was its bucket sent, and is"),
    (ddp.puts_new_tensors_into_the_list, 0, 0, f"{FIRST} 0 of 4 has 1{OWN}, not the mean. Was its bucket sent, and is"),
    (ddp.forgets_to_copy_back, 0, None, f"{FIRST} 0 of 4 has 1{OWN}, not the mean. Was its bucket sent, and is"),
    (ddp.forgets_the_last_bucket, 0, 0, f"{FIRST} 0 of 4 has 1{OWN}"),
    (ddp.copies_back_from_the_end, 0, None, "gradient 1 [4, 3] on rank 0 of 4 has 555.5, 833.25, expected 555.5 every"),
    (ddp.copies_back_before_waiting, 0, None, " everywhere (rank r had "),
    (ddp.flattens_the_gradients_themselves, 0, 0, "gradient 1 [4, 3] on rank 0 of 4 has another shape, [12], exp"),
    (ddp.reduces_each_gradient, 1, 0, f"{CALLS}5 {SIZES}{ORDER} 8, 32, 16, 48, 12 {SENT_ARE}\n1 of 3 points"),
    (ddp.reduces_everything_at_once, 1, 0, f"{CALLS}1 {SIZES}{ORDER} 116 {SENT_ARE}\n"),
    (ddp.closes_before_the_limit_is_passed, 1, 0, f"{CALLS}4 {SIZES}{ORDER} 40, 16, 48, 12 {SENT_ARE}\n"),
    (ddp.counts_elements, 1, 0, f"{CALLS}1 {SIZES}{ORDER} 116 {SENT_ARE}\n"),
    (ddp.fills_from_the_first, 1, 0, f"{CALLS}5 {LARGE}bytes, expected 4\n"
                                     f"{ORDER} 60, 48, 8 {SENT_ARE}: start with the last gradient"),
    (ddp.sends_a_bucket_with_nothing_in_it, 1, 0, f"{CALLS}5 {LARGE}bytes, expected 4\n"),
    (ddp.sends_the_last_bucket_first, 2, 0, f"{ORDER} 12, 64, 40 {SENT_ARE}: start with the last gradient"),
    (ddp.closes_above_the_limit_only, 2, 0, f"{ORDER} 56, 48, 12 {SENT_ARE}\n"),
    (ddp.gathers_and_adds, 1, 0, f"{CALLS}all_gather is called; all_reduce is enough"),
    (ddp.reduces_and_broadcasts, 1, 0, f"{CALLS}reduce is called; all_reduce is enough"),
    (ddp.waits_at_a_barrier, 2, 0, f"{CALLS}barrier is called; all_reduce is enough"),
    (ddp.sends_everything_once_more, 2, None, f"{CALLS}rank 0 sends 3,"),
    (ddp.stops_early_on_rank_0, 0, None, "on real ranks: ranks 1, 2 and 3 of 4 waited for a rank that had already "
                                         "returned\n  rank 0 has returned, and is past all_reduce (collective 1)\n"),
    (ddp.stacks_the_gradients, 0, None, "raised RuntimeError: stack expects each tensor to be equal size, but got [10] "
                                        'at entry 0 and [3] at entry 1\n  File "ddp_answers.py", line '),
    (ddp.divides_by_zero, 0, 0, "ranks 0, 1, 2 and 3 of 4 raised ZeroDivisionError: division by zero\n"),
    (ddp.exits_the_process, 0, None, "ranks 0, 1, 2 and 3 of 4 ended with exit code 0 before the program returned\n"),
    (ddp.is_not_written_yet, 0, 0, f"every gradient is the mean: is not written yet\n{CALLS}{LATER}"),
    (ddp.takes_four_ranks_for_granted, 3, 0, "unseen cases: gradient 0 [2, 2] on rank 0 of 3 has 3.96"),
    (ddp.takes_every_element_for_4_bytes, 3, 0, "unseen cases: messages of 72, 32 bytes, expected 48, 56\n"),
    (ddp.skips_a_bucket_without_elements, 3, 0, f"unseen cases: 3 {EMPTY}"),
    (ddp.has_buffers_of_float32, 3, 0, "unseen cases: gradient 0 [2, 2] on rank 0 of 3 has "),
    (None, 0, 0, "a function is asked for, not None of type NoneType"),
]
STEP = "a step equal to the big batch's: "
ONE = "that of one process on all samples"
OF = f"as {ONE}"
AWAY = f"% away from {ONE}: does every sample count as much?"
APART = f"{STEP}the ranks are no longer one model"
DEAR = "WRONG  gradients are sent once: "
TWICE = f"{DEAR}2.0 times the bytes of one reduction are sent, expected once"
EACH = f"{DEAR}4.0 times the bytes of one reduction are sent, expected once: every backward reduces. Use no_sync, "
ACCUMULATION = [
    (ddp.does_not_divide, 0, 0, "the gradients of microbatches add up"),
    (ddp.weighs_against_the_average_size, 0, 0, f"{STEP}the step is 4 times as long {OF}: does something add up"),
    (ddp.adds_up_the_losses_of_samples, 0, 0, f"{STEP}the step is 14 times as long {OF}: does something add up"),
    (ddp.counts_samples_of_all_ranks, 0, 0, f"{STEP}the step is 0.5 times as long {OF}"),
    (ddp.divides_by_the_ranks_again, 0, None, f"{STEP}the step is 0.5 times as long {OF}"),
    (ddp.sums_over_ranks, 0, None, f"{STEP}the step is 2 times as long {OF}"),
    (ddp.divides_by_the_number_of_microbatches, 0, 0, AWAY),
    (ddp.weighs_with_the_first_size, 0, 0, AWAY),
    (ddp.uses_the_first_only, 0, 0, AWAY),
    (ddp.leaves_out_the_last, 0, None, AWAY),
    (ddp.clears_in_between, 0, None, AWAY),
    (ddp.keeps_the_last_one_inside_no_sync, 0, 0, f"{APART}, and nothing was sent: was the last microbatch inside "),
    (ddp.goes_around_ddp, 0, None, f"{APART}, and nothing was sent"),
    (ddp.sends_the_first_only, 0, None, f"{APART}: has every rank sent, and stepped?\n"),
    (ddp.steps_on_rank_0_only, 0, None, f"{APART}: has every rank sent, and stepped?\n"),
    (ddp.forgets_zero_grad, 0, 0, f"{STEP}the gradients from before are in the step, too\n"),
    (ddp.clears_at_the_end_only, 0, None, f"{STEP}the gradients from before are in the step, too\n"),
    (ddp.clears_before_the_step, 0, None, f"{STEP}no step was taken\n"),
    (ddp.forgets_the_step, 0, 0, f"{STEP}no step was taken\n"),
    (ddp.stops_torch_from_training, 0, None, f"{STEP}no step was taken\n"),
    (ddp.steps_twice, 0, None, f"{STEP}the step is 2.9 times as long {OF}"),
    (ddp.steps_after_each, 0, None, f"{STEP}the step is "),
    (ddp.has_an_optimizer_of_its_own, 2, 0, "ok     a step equal to the big batch's\n"
                                            "WRONG  and so is the next step: the step is "),
    (ddp.puts_all_together, 0, 0, f"{STEP}a forward has 14 samples; no more than 4 fit into memory\n"),
    (ddp.keeps_all_graphs, 0, 0, f"{STEP}a forward begins before the backward of the one before; both do not fit"),
    (ddp.sends_each_microbatch, 2, 1, EACH),
    (ddp.has_no_sync_around_backward_only, 2, 1, EACH),
    (ddp.sends_the_last_two, 2, 1, TWICE),
    (ddp.averages_once_more, 2, 1, f"{TWICE}: is something averaged that DDP has averaged already?"),
    (ddp.takes_the_number_of_samples_for_granted, 3, 0, "unseen cases: microbatches of 5 and 3 and 1 samples: the step "
                                                        f"is 0.64 times as long {OF}"),
    (ddp.never_sends_the_first, 3, 0, "unseen cases: microbatches of 6 samples: the ranks are no longer one model"),
    (ddp.takes_two_ranks_for_granted, 3, 0, "microbatches of 5 and 3 and 1 samples: the step is 1.5 times as long "
                                            f"{OF}"),
    (ddp.divides_by_zero, 0, 0, "on real ranks: ranks 0 and 1 of 2 raised ZeroDivisionError: division by zero\n  File"),
    (ddp.returns_at_once_on_rank_0, 0, None, "on real ranks: rank 1 of 2 waited for a rank that had already returned"),
    (ddp.exits_the_process, 0, None, "on real ranks: ranks 0 and 1 of 2 ended with exit code 0 before the program "),
    (ddp.writes_without_end, 0, None, "printed more than 17 MB and was stopped"),
    (ddp.is_not_written_yet, 0, 0, "is not written yet"),
    (..., 0, 0, "a function is asked for, not Ellipsis of type ellipsis"),
]
SUM = ". By what factor is the sum over ranks larger than their mean?"
SAMPLES = ". How many samples does a step of all ranks have, before and after?"
RULE = ". What counts is the batch of all ranks, before and after"
GROWS = "rate 0.1, from 1 x 8 samples, mean to 4 x 8 samples, mean: "
RATE = [
    (ddp.never_scales, 0, 0, f"{GROWS}0.1, expected 0.4{SAMPLES}"),
    (ddp.scales_by_the_ranks_only, 0, 0, f"1 x 32 samples, mean to 4 x 8 samples, mean: 0.4, expected 0.1{RULE}"),
    (ddp.scales_by_the_batch_of_a_rank_only, 0, 0, f"mean: 0.025, expected 0.1{RULE}"),
    (ddp.forgets_the_sum, 0, 1, f"rate 0.1, from 1 x 32 samples, mean to 4 x 8 samples, sum: 0.1, expected 0.025{SUM}"),
    (ddp.forgets_the_sum_before, 0, 1, f"from 4 x 8 samples, sum to 4 x 8 samples, mean: 0.1, expected 0.4{SUM}"),
    (ddp.forgets_the_sum_after, 0, 1, f"mean to 4 x 8 samples, sum: 0.1, expected 0.025{SUM}"),
    (ddp.divides_by_the_ranks_before, 0, 1, "mean to 4 x 8 samples, sum: 0.1, expected 0.025"),
    (ddp.multiplies_for_a_sum, 0, 1, "mean to 4 x 8 samples, sum: 0.4, expected 0.025"),
    (ddp.is_inverted, 0, 0, f"{GROWS}0.025, expected 0.4. A larger batch takes a larger rate"),
    (ddp.takes_the_square_root, 0, 0, f"{GROWS}0.2, expected 0.4{RULE}"),
    (ddp.divides_whole_numbers, 0, 1, "rate 0.4, from 8 x 16 samples, mean to 2 x 16 samples, mean: 0, expected 0.1"),
    (ddp.never_scales_down, 0, 1, "sum: 0.1, expected 0.025"),
    (ddp.rounds_to_a_hundredth, 0, 1, "sum: 0.03, expected 0.025"),
    (ddp.returns_the_factor, 0, 0, "mean: 1, expected 0.1"),
    (ddp.returns_a_text, 0, 0, "a rate is asked for, not '0.1' of type str"),
    (ddp.returns_both_rates, 0, 0, "returned a tuple; a number is asked for"),
    (ddp.has_no_branch_for_a_sum, 0, 1, "returned None: is there a return?"),
    (ddp.misspells_a_key, 0, 0, "raised KeyError: 'batchsize'"),
    (ddp.uses_the_courses_answer, 0, 0, "uses helpers.checks, which this exercise asks you to do without"),
    (ddp.changes_nothing_between_sums, 1, 1, f"16 x 2 samples, sum to 2 x 16 samples, sum: 0.5, expected 4{SUM}"),
    (ddp.takes_two_sums_for_means, 1, 1, f"2 x 8 samples, sum to 4 x 8 samples, sum: 0.6, expected 0.3{SUM}"),
    (ddp.knows_the_seen_changes, 1, 0, f"8 x 4 samples, mean to 8 x 16 samples, mean: 0.2, expected 0.8{SAMPLES}"),
    (answers.is_not_written_yet, 0, 0, "is not written yet"),
    (answers.returns_nan, 0, 0, "a rate is asked for, not nan of type float"),
    (answers.returns_true, 0, 0, "a rate is asked for, not True of type bool"),
    (answers.returns_a_float_of_its_own, 0, 0, "returned a Generous; a number is asked for"),
    (answers.renames_its_arguments, 0, 0, "got an unexpected keyword argument 'rate'"),
    (answers.exits_the_process, 0, 0, "the function ended its process: rank 0 of 1 ended with exit code 3"),
    (answers.makes_the_check_generous_over_there, 0, 0,
     "uses helpers.checks, which this exercise asks you to do without"),
    (answers_odd.returns_5000_digits, 0, 0, "a rate is asked for, not something of type int"),
    (0.1, 0, 0, "a function is asked for, not 0.1 of type float"),
]
WRONG = [(name, *case) for name, cases in (("buckets", BUCKETS), ("accumulation", ACCUMULATION), ("rate", RATE))
         for case in cases]


@pytest.mark.parametrize(("name", "function"), [(name, function) for name, some in RIGHT.items() for function in some])
def test_a_right_answer_gets_all_points(name, function):
    seen, most, unseen, most_unseen = CHECKS[name]
    for check, points, praise in zip((seen, unseen), (most, most_unseen), PRAISE[name], strict=True):
        got, words = outcome(check, function)
        assert (got, praise in words, "WRONG" in words) == (points, True, False), words


@pytest.mark.parametrize(("name", "function", "points", "points_unseen", "says"), WRONG)
def test_a_wrong_answer_is_told_what_is_wrong(name, function, points, points_unseen, says):
    seen, most, unseen, _most_unseen = CHECKS[name]
    got, words = outcome(seen, function)
    got_unseen, words_unseen = (None, "") if points_unseen is None else outcome(unseen, function)
    assert (got, got_unseen) == (points, points_unseen)
    assert says in (words if points < most else words_unseen)


@pytest.mark.parametrize(("check", "function", "words"), [
    (buckets.check_buckets_unseen, ddp.has_buffers_of_float32, "has 5.28571, expected 5.28571"),
    (accumulation.check_accumulation, ddp.has_a_loss_that_is_no_number, "no longer one model"),
    (accumulation.check_accumulation_unseen, ddp.steps_twice, "microbatches add up"),
])
def test_no_cause_is_named_that_is_none(check, function, words):
    points, said = outcome(check, function)
    assert points == 0
    assert words not in said


@pytest.mark.parametrize(("check", "code"), [
    (buckets.check_buckets, "from helpers.run.ddp import NaiveDDP\n\n\ndef function(*answer):\n    NaiveDDP"),
    (buckets.check_buckets, "def function(*answer):\n    from helpers.run import ddp"),
    (accumulation.check_accumulation, "def function(*answer):\n    import helpers.run.ddp"),
])
def test_the_courses_own_ddp_is_named_as_what_the_exercise_forbids(check, code):
    cell = {"__name__": "__main__"}
    exec(compile(code, "<cell>", "exec"), cell)
    points, words = outcome(check, cell["function"])
    assert points == 0
    assert "uses helpers.run.ddp, which this exercise asks you to do without" in words


@pytest.mark.parametrize(("check", "file"), [(buckets.check_buckets, "buckets.py"),
                                             (accumulation.check_accumulation, "accumulation.py")])
def test_no_line_of_a_check_is_shown(check, file):
    points, words = outcome(check, ddp.takes_no_arguments)
    assert points == 0
    assert "raised TypeError: takes_no_arguments() takes 0 positional arguments but " in words
    assert file not in words


@pytest.mark.parametrize("check", [buckets.check_buckets, accumulation.check_accumulation_unseen])
def test_an_answer_that_never_ends_is_shown_where_it_is_after_one_deadline(monkeypatch, check):
    runs, launch = [], real_ranks.launch
    monkeypatch.setattr(real_ranks, "DEADLINE_S", 1.0)
    monkeypatch.setattr(real_ranks, "launch", lambda *case, **options: runs.append(1) or launch(*case, **options))
    points, words = outcome(check, ddp.never_ends)
    assert points == 0
    assert "on real ranks: not done after 1 s\n" in words
    assert "in never_ends: " in words
    assert len(runs) == 1


def test_one_number_that_is_none_among_right_ones_is_seen():
    gradient = torch.full((5,), 2.0)
    assert buckets._extremes(gradient) == [2.0]
    for place in range(5):
        odd = gradient.clone()
        odd[place] = float("nan")
        assert not buckets._all_are(buckets._extremes(odd), 2.0, 1e-5)
        odd[place] = 2.1
        assert not buckets._all_are(buckets._extremes(odd), 2.0, 1e-5)


def test_a_rate_that_is_never_found_is_ended(impatient):
    points, words = outcome(rates.check_rate, answers.never_ends)
    assert points == 0
    assert "not done after 0.3 s: does a loop in it never end, or does it try too many cases?" in words


# 4. predict, then measure ---------------------------------------------------------------------------------------------
def kind(value):
    """The id of a case; some values have 5000 digits."""
    return f"{value:.40}" if isinstance(value, str) else type(value).__name__


WIDTHS = 64, 8192, 64, 8192, 32


def one_step(rank, world_size, num_steps=1, with_construction=False):
    with wire() as all_sent:
        model = DistributedDataParallel(perceptron(*WIDTHS))
        with wire() as sent:
            for _ in range(num_steps):
                model(torch.randn(4, WIDTHS[0])).sum().backward()
    return all_sent.sent if with_construction else sent.sent


@pytest.fixture(scope="module")
def measured():
    """As a learner measures."""
    return launch(one_step, 3).results


PARAMETERS = [*perceptron(*WIDTHS).parameters()]
NUM_PARAMETERS = sum(parameter.numel() for parameter in PARAMETERS)
SENT = 2 * 2 / 3 * 4 * NUM_PARAMETERS
ALL_REDUCES = len(dist._compute_bucket_assignment_by_size(PARAMETERS[::-1], [2**20, 4 * 2**20])[0])
ASKED = "a number is asked for, not "
WRONG_BYTES = [
    (4 * NUM_PARAMETERS, "7,405,952 is the size of the gradients"),
    (NUM_PARAMETERS, "1,851,488 is the number of parameters"),
    (SENT / 4, "2,468,651 is the number of elements sent; a float32 has 4 bytes"),
    (SENT / 2, "4,937,301 is half of an all_reduce"),
    (3 * SENT, "29,623,808 is what all ranks send together"),
    (2 * SENT, "19,749,205 is too much"), (0, "0 is too little"), (-SENT, "-9,874,603 is too little"),
    (SENT / 2**20, "9.417 is too little"), ("10 MB", f"{ASKED}'10 MB' of type str"),
    ([SENT] * 3, f"{ASKED}[9874602.6"), (np.array([SENT, SENT]), f"{ASKED}array([9874602.6"),
    (True, f"{ASKED}True of type bool"), (float("nan"), f"{ASKED}nan of type float"),
    (10**5000, f"{ASKED}something of type int"), (Generous(SENT), "of type Generous"),
    (TrueForEverything(), "of type TrueForEverything"),
]
WRONG_CALLS = [
    (8, "8 is one for each parameter"), (4, "4 is one for each layer; count bytes"),
    (2, "2 would be right if the first bucket had 4 MiB, too"), (1, "1 is too little"), (5, "5 is too much"),
    (True, f"{ASKED}True of type bool"), ("3", f"{ASKED}'3' of type str"), ([3], f"{ASKED}[3] of type list"),
    (10**5000, f"{ASKED}something of type int"), (float("nan"), f"{ASKED}nan of type float"),
]
LIST = "a list of 3 numbers is asked for, one for each rank, not "
NOT_ONE = ", which is not one step of DDP and some headers"
WRONG_MEASURED = {
    "is_too_little": ([0.99 * SENT] * 3, f"rank 0 has 9,775,857{NOT_ONE}\n"),
    "is_the_size_of_the_gradients": ([4 * NUM_PARAMETERS] * 3, f"rank 0 has 7,405,952{NOT_ONE}\n"),
    "has_one_rank_right": ([1.001 * SENT, 0, 1.001 * SENT], f"rank 1 has 0{NOT_ONE}\n"),
    "has_two_ranks": ([1.001 * SENT] * 2, LIST), "gives_the_sum": (3 * SENT, f"{LIST}29623808.0 of type float"),
    "gives_an_array": (np.array([1.001 * SENT] * 3), f"{LIST}array("),
    "gives_a_tensor": (torch.tensor([1.001 * SENT] * 3), f"{LIST}tensor("),
    "forgets_to_list": ((SENT for _ in range(3)), f"{LIST}<generator object"),
    "gives_texts": (["9,876,332"] * 3, "rank 0 has '9,876,332' of type str; a number of bytes is asked for"),
    "gives_nothing": ([None] * 3, "rank 0 has None of type NoneType; a number of bytes is asked for"),
    "gives_truths": ([True] * 3, "rank 0 has True of type bool; a number of bytes is asked for"),
    "gives_nan": ([float("nan")] * 3, "rank 0 has nan of type float; a number of bytes is asked for"),
    "gives_400_digits": ([10**400] * 3, "of type int; a number of bytes is asked for"),
    "gives_lists": ([[1.001 * SENT]] * 3, "of type list; a number of bytes is asked for"),
    "equals_all": ([Generous(1.001 * SENT)] * 3, "of type Generous; a number of bytes is asked for"),
    "gives_the_formula": ([SENT] * 3, "9,874,603 is the formula; what the kernel has counted has headers, too"),
    "rounds_the_formula": ([round(SENT)] * 3, "9,874,603 is the formula; what the kernel has counted has headers, too"),
    "cuts_the_formula": ([int(SENT)] * 3, "9,874,60"),
}


@pytest.mark.parametrize(("kind", "one"), [
    (list, float), (tuple, int), (lambda some: [*map(float, some)], Decimal),
    (lambda some: [*map(Decimal, some)], Fraction),
    (lambda some: [*np.array(some)], np.float64), (lambda some: [*torch.tensor(some)], torch.tensor)])
def test_right_numbers_of_any_kind_get_all_points(measured, kind, one):
    points, words = outcome(step_numbers.check_ddp_step, one(SENT), one(ALL_REDUCES), kind(measured))
    assert (points, "Predicted and measured agree." in words) == (3, True)


@pytest.mark.parametrize(("value", "says"), WRONG_BYTES, ids=kind)
def test_wrong_bytes_are_explained_and_cost_one_point(measured, value, says):
    points, words = outcome(step_numbers.check_ddp_step, value, ALL_REDUCES, measured)
    assert (points, says in words) == (2, True)


@pytest.mark.parametrize(("value", "says"), WRONG_CALLS, ids=kind)
def test_a_wrong_number_of_all_reduces_is_explained_and_costs_one_point(measured, value, says):
    points, words = outcome(step_numbers.check_ddp_step, SENT, value, measured)
    assert (points, says in words) == (2, True)


@pytest.mark.parametrize(("value", "says"), WRONG_MEASURED.values(), ids=WRONG_MEASURED)
def test_what_was_not_measured_is_explained_and_costs_one_point(value, says):
    points, words = outcome(step_numbers.check_ddp_step, SENT, ALL_REDUCES, value)
    assert (points, says in words) == (2, True)


def test_a_single_part_that_is_not_there_costs_one_point(measured):
    for place in range(3):
        for nothing in (None, ...):
            answer = [SENT, ALL_REDUCES, measured]
            answer[place] = nothing
            points, words = outcome(step_numbers.check_ddp_step, *answer)
            assert (points, words.count("WRONG"), "nothing here yet" in words) == (2, 1, True)


@pytest.mark.parametrize(("settings", "says"), [
    ({"num_steps": 2}, f"{NOT_ONE}: that is 2 steps\n"), ({"num_steps": 10}, f"{NOT_ONE}: that is 10 steps\n"),
    ({"with_construction": True}, f"{NOT_ONE}. Is the broadcast at construction counted, too?\n")])
def test_what_was_measured_too_much_is_named(settings, says):
    points, words = outcome(step_numbers.check_ddp_step, SENT, ALL_REDUCES, launch(one_step, 3, **settings).results)
    assert points == 2
    assert says in words


def test_counters_are_not_the_numbers_in_them():
    points, words = outcome(step_numbers.check_ddp_step, SENT, ALL_REDUCES, launch(one_step, 3).wire)
    assert (points, "these are the counters; the numbers are in each one's .sent" in words) == (2, True)


@pytest.mark.parametrize("value", [pytest.param(value, id=name) for name, value in answers_odd.VALUES.items()])
def test_an_odd_value_is_no_number(value):
    points, words = outcome(step_numbers.check_ddp_step, value, value, [value] * 3)
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
def expected_divergence():
    """Step, rank and tensor, without a fingerprint: by comparing the weights of all ranks here."""
    results = launch(weights, 4, careless()).results
    for step, models in enumerate(zip(*results, strict=True)):
        for name in models[0]:
            alike = [sum(torch.equal(one[name], other[name]) for other in models) for one in models]
            if min(alike) < 4:
                return step, alike.index(1), name


@pytest.fixture
def as_given(monkeypatch):
    """The program is; it need not be run for every value."""
    monkeypatch.setattr(divergence, "_divergence", lambda program: divergence.EXPECTED)


STEP_HINT = "call first_difference after each step, and count from 0"
RANK_HINT = "who is alone in the message?"
NAME_HINT = "the name only, as the message has it after 'parameter'"
WRONG_STEP = [4, 6, -5, True, "5", [5], float("nan"), 10**5000, TrueForEverything(), GenerousInt(5), 5.5]
WRONG_RANK = [0, 2, 4, (3,), True, "rank 3", float("nan"), 10**5000, GenerousInt(3)]
WRONG_TENSOR = ["0.weight", "2.bias", "weight", "", b"2.weight", True, 2, ["2.weight"], "x" * 10**6,
                "parameter 2.weight: rank 3 differs from ranks 0, 1, 2", TrueForEverything()]


def test_a_right_parting_gets_all_points(expected_divergence):
    assert expected_divergence == divergence.EXPECTED
    points, words = outcome(divergence.check_divergence, careless(), *expected_divergence)
    assert (points, "Found before any loss curve would show it." in words) == (3, True)


@pytest.mark.parametrize("kind", [np.array, lambda part: np.array([part])])
def test_right_parts_may_be_of_numpy(expected_divergence, as_given, kind):
    assert outcome(divergence.check_divergence, careless(), *map(kind, expected_divergence))[0] == 3


@pytest.mark.parametrize("kind", [torch.tensor, np.int64, float])
@pytest.mark.parametrize("before", ["", "parameter "])
def test_a_right_step_and_rank_may_be_tensors_or_floats_and_the_name_as_the_message_has_it(
        expected_divergence, as_given, kind, before):
    step, rank, tensor = expected_divergence
    assert outcome(divergence.check_divergence, careless(), kind(step), kind(rank), f"{before}{tensor}")[0] == 3


@pytest.mark.parametrize(("place", "value", "says"), [
    *((0, step, STEP_HINT) for step in WRONG_STEP), *((1, rank, RANK_HINT) for rank in WRONG_RANK),
    *((2, tensor, NAME_HINT) for tensor in WRONG_TENSOR),
    *((place, value, "nothing here yet") for place in range(3) for value in (None, ...))], ids=kind)
def test_a_wrong_part_is_explained_and_costs_one_point(expected_divergence, as_given, place, value, says):
    points, words = outcome(divergence.check_divergence, careless(), *expected_divergence[:place], value,
                            *expected_divergence[place + 1:])
    assert (points, says in words, words.count("WRONG")) == (2, True, 1)


def test_nothing_at_all_gets_nothing(as_given):
    for nothing in (None, ...):
        assert outcome(divergence.check_divergence, careless(), nothing, nothing, nothing) == (0, "nothing here yet")
        assert outcome(step_numbers.check_ddp_step, nothing, nothing, nothing) == (0, "nothing here yet")


class RaisesWhenCompared:
    def __eq__(self, other):
        raise RuntimeError("equal to what?")

    __hash__ = None


@pytest.mark.parametrize("value", [
    pytest.param(value, id=name) for name, value in {
        **answers_odd.VALUES, "raises_when_compared": RaisesWhenCompared(), "an_array": np.array([5, 5]),
        "a_tensor": torch.tensor([5, 5]), "an_empty_tensor": torch.empty(0)}.items()])
def test_an_odd_part_is_wrong_and_nothing_worse(as_given, value):
    points, words = outcome(divergence.check_divergence, careless(), value, value, value)
    assert points == 0
    assert words.count("WRONG") == 3


def parts_at_once(rank, world_size):
    torch.manual_seed(rank == 0)
    yield torch.nn.Linear(1, 1)


def never_parts(rank, world_size):
    torch.manual_seed(0)
    yield torch.nn.Linear(1, 1)


def changed(old, new):
    """The given program, with other text in one place."""
    code = next(cell.code for cell in cells.solved("03_ddp") if cell.name == "given")
    assert old in code
    namespace = {"torch": torch, "perceptron": perceptron, "mse_loss": torch.nn.functional.mse_loss, "dist": dist,
                 "__name__": "__main__"}
    exec(compile(code.replace(old, new), "<cell>", "exec"), namespace)
    return namespace["careless"]


@pytest.mark.parametrize("program", [
    changed(" or loss < 1.6", " or True"), changed("loss < 1.6", "loss < 1.5"), changed("seed(23)", "seed(24)"),
    parts_at_once, never_parts, ddp.divides_by_zero, None, lambda rank, world_size: None])
def test_a_program_that_is_not_the_given_one_is_named_and_gets_no_point(program):
    """Else a learner may write one that parts wherever he likes."""
    with pytest.raises(CheckFailed, match="careless is not what it was: leave it as it was given"):
        divergence.check_divergence(program, *divergence.EXPECTED)
