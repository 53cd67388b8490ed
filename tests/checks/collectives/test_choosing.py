"""Exercises 4 and 5 of set 02 accept every right answer, and say of a wrong one which mistake leads to it."""
from decimal import Decimal

import numpy as np
import pytest
import torch

from helpers.checks.collectives.choosing import check_algorithm_choice, check_choice_unseen, check_predicted
from helpers.facts.measured import Wire
from helpers.run.collectives import run_on_gloo
from tests.checks import answers, answers_odd
from tests.checks.answers import Generous, TrueForEverything
from tests.checks.collectives import answers_choosing
from tests.checks.collectives.answers_choosing import gather_and_add
from tests.checks.outcome import outcome

RIGHT = [answers_choosing.writes_out_the_formulas, answers_choosing.goes_step_by_step,
         answers_choosing.takes_the_ring_within_a_percent, answers_choosing.gives_a_text_of_numpy]
# points of 1 and 2, and what a learner reads
WRONG = [
    (answers_choosing.always_takes_the_ring, 0, 0,
     "8 ranks, 1,000 bytes, 5 us, 25 GB/s: ring takes 70.1 us, but recursive doubling 15.1"),
    (answers_choosing.always_takes_halving_doubling, 0, 0, "halving-doubling takes 30.1 us, but recursive doubling 15"),
    (answers_choosing.ignores_the_latency, 0, 0, "halving-doubling takes 30.1 us, but recursive doubling 15.1"),
    (answers_choosing.ignores_the_bytes, 0, 0, "8 ranks, 1,000,000,000 bytes, 5 us, 25 GB/s: recursive doubling takes "
                                               "120,015.0 us, but halving-doubling 70,030.0"),
    (answers_choosing.forgets_the_two_messages_more, 0, 0,
     "3 ranks, 1,000,000,000 bytes, 5 us, 25 GB/s: recursive doubling takes 120,015.0 us, but ring 53,353.3"),
    (answers_choosing.takes_every_number_for_a_power_of_two, 0, 0,
     "3 ranks, 1,000,000,000 bytes, 5 us, 25 GB/s: halving-doubling takes 120,020.0 us, but ring 53,353.3"),
    (answers_choosing.knows_two_algorithms, 0, 0, "64 ranks, 1,000,000 bytes, 1 us, 100 GB/s: recursive doubling takes "
                                                  "66.0 us, but halving-doubling 31.7"),
    (answers_choosing.has_a_threshold, 0, 0, "ring takes 145.7 us, but halving-doubling 31.7"),
    (answers_choosing.takes_the_slowest, 0, 0, "ring takes 70.1 us, but recursive doubling 15.1"),
    (answers_choosing.swaps_alpha_and_beta, 0, 0, "halving-doubling takes 30.1 us, but recursive doubling 15.1"),
    (answers_choosing.counts_one_round_of_the_ring, 1, 0, "1 of 1 points"),
    (answers_choosing.counts_one_message_more, 1, 1, "1 of 1 points"),
    (answers_choosing.knows_eight_ranks_only, 1, 0, "1 of 1 points"),
    (answers_choosing.misspells_a_name, 0, 0, "one of ring, recursive doubling, halving-doubling is asked for, not "
                                              "'Recursive Doubling' of type str"),
    (answers_choosing.returns_the_seconds, 0, 0, "halving-doubling is asked for, not 1.5120000000000001e-05 of type "),
    (answers_choosing.returns_all_seconds, 0, 0, "the function returned a dict; a name is asked for"),
    (answers_choosing.returns_what_equals_every_name, 0, 0, "returned a EqualsEveryName; a name is asked for"),
    (answers_choosing.uses_the_courses_formulas, 0, 0, "uses helpers.predict, which this exercise asks you to do "),
    (answers.is_not_written_yet, 0, 0, "is not written yet"),
    (answers.returns_nothing, 0, 0, "8 ranks, 1,000 bytes, 5 us, 25 GB/s: the function returned None: is there a "),
    (answers.yields_instead_of_returning, 0, 0, "the function returned a generator; a name is asked for"),
    (answers.true_for_everything, 0, 0, "the function returned a TrueForEverything; a name is asked for"),
    (answers.renames_its_arguments, 0, 0, "got an unexpected keyword argument 'num_bytes'"),
    (answers.divides_by_zero, 0, 0, "the function raised ZeroDivisionError: division by zero"),
    (answers.leaves_with_sys_exit, 0, 0, "the function raised SystemExit: enough"),
    (answers.exits_the_process, 0, 0, "the function ended its process: rank 0 of 1 ended with exit code 3"),
    (answers.makes_the_check_generous_over_there, 0, 0, "uses helpers.checks, which this exercise asks you"),
    (answers_odd.returns_ten_million_letters, 0, 0, "xxx... of type str"),
    (answers_odd.returns_what_cannot_be_printed, 0, 0, "returned a PrintsNothingOfItself; a name is asked for"),
    ("ring", 0, 0, "a function is asked for, not 'ring' of type str"),
    (None, 0, 0, "a function is asked for, not None of type NoneType"),
]
WRONG_BYTES = [
    (4000, "4000 is what a ring all-reduce sends; here whole tensors travel"),
    (14400, "14,400 counts a message to itself; there are N-1 others"),
    (3000, "3000 is the number of elements; bytes are asked for"),
    (2000, "2000 is one chunk in each step; here each message is the whole tensor"),
    (72000, "72,000 is the sum over all ranks; one rank's is asked for"),
    (2400, "2400 is too little"), (24000, "24,000 is too much"), ("12 kB", "a number is asked for, not '12 kB'"),
    ([12000] * 6, "a number is asked for, not [12000, 12000"), (True, "not True of type bool"),
    (Generous(12000), "of type Generous"), (TrueForEverything(), "of type TrueForEverything"),
    (None, "WRONG  bytes on 6 ranks: nothing here yet"), (..., "WRONG  bytes on 6 ranks: nothing here yet"),
]
WRONG_MESSAGES = [
    (30, "30 counts the messages of all ranks; at the same time they cost no time"),
    (10, "10 is a ring all-reduce's; here they go round once"), (6, "6 counts a message to itself"),
    (1, "1 is too little"), (12000, "12,000 is too much"), ("five", "a number is asked for, not 'five' of type str"),
    (None, "WRONG  messages one after another: nothing here yet"),
]
LIST = "a list of three numbers is asked for, one for each rank, not "
WRONG_MEASURED = {
    "takes_the_formula": ([8_000_000] * 3, "8,000,000 is the formula; the kernel's count has the headers, too"),
    "measures_6e5_elements": ([4_800_288] * 3, "bytes when it was run here, not 4,800,288"),
    "measures_float64": ([16_000_288] * 3, "bytes when it was run here, not 16,000,288"),
    "has_one_rank_right": ([8_000_288, 0, 0], "rank 1 sent 8,000,"),
    "gives_the_counters": ([Wire(sent=8_000_288)] * 3, "these are the counters; the numbers are in each one's .sent"),
    "gives_the_sum": (24_000_864, f"{LIST}24000864 of type int"),
    "measures_six_ranks": ([20_000_480] * 6, f"{LIST}[20000480, "),
    "forgets_to_list": ((8_000_288 for _ in range(3)), f"{LIST}<generator object"),
    "gives_an_array": (np.array([8_000_288] * 3), f"{LIST}array([8000288, 8000288, 8000288]) of type ndarray"),
    "gives_texts": (["8,000,288"] * 3, f"{LIST}['8,000,288', "),
    "gives_nan": ([float("nan")] * 3, f"{LIST}[nan, nan, nan] of type list"),
    "equals_all": ([Generous(8_000_288)] * 3, f"{LIST}[8000288.0, "),
    "is_not_started": (None, "WRONG  measured on 3 ranks: nothing here yet"),
    "is_dots": (..., "WRONG  measured on 3 ranks: nothing here yet"),
}
CHANGED = {
    "sends_nothing": (answers_choosing.sends_nothing, "gather_and_add sends 0 bytes when it is run here; leave it as"),
    "is_a_lambda": (lambda mesh, tensor: None, "gather_and_add sends 0 bytes when it is run here; leave it as it was"),
    "raises": (answers_choosing.divides_by_zero, "gather_and_add fails when it is run here; leave it as it was given. "
                                                 "ranks 0, 1 and 2 of 3 raised ZeroDivisionError: division by zero\n"),
    "is_gone": (None, "gather_and_add fails when it is run here; leave it as it was given. "),
    "cannot_be_sent": ((n for n in "").__next__, "gather_and_add fails when it is run here; leave it as it was given"),
}


@pytest.fixture(scope="module")
def measured():
    """As a learner measures."""
    return [wire.sent for wire in run_on_gloo(lambda mesh: gather_and_add(mesh, torch.ones(1_000_000)), 3).wire]


@pytest.mark.parametrize("function", RIGHT)
def test_a_right_choice_gets_all_points(function):
    for check, most in ((check_algorithm_choice, 1), (check_choice_unseen, 2)):
        points, words = outcome(check, function)
        assert (points, "The fastest each time." in words) == (most, True)


@pytest.mark.parametrize(("function", "points", "points_unseen", "says"), WRONG)
def test_a_wrong_choice_is_shown_a_network_where_another_is_faster(function, points, points_unseen, says):
    got, words = outcome(check_algorithm_choice, function)
    assert got == points
    assert says in words
    got, words = outcome(check_choice_unseen, function)
    assert got == points_unseen
    assert "WRONG" in words or words.startswith("unseen cases: ")


def test_a_choice_that_never_ends_is_ended(impatient):
    for check in (check_algorithm_choice, check_choice_unseen):
        points, words = outcome(check, answers.never_ends)
        assert points == 0
        assert "not done after 0.3 s: does a loop in it never end, or does it try too many cases?" in words


@pytest.mark.parametrize("kind", [
    list, tuple, lambda some: [float(one) for one in some], lambda some: [Decimal(one) for one in some],
    lambda some: [*np.array(some)], lambda some: [*torch.tensor(some)]])
def test_right_numbers_of_any_kind_get_all_points(measured, kind):
    points, words = outcome(check_predicted, gather_and_add, 12000.0, torch.tensor(5), kind(measured))
    assert (points, "Prediction and measurement agree: N-1 whole tensors." in words) == (3, True)


@pytest.mark.parametrize(("num_bytes", "says"), WRONG_BYTES)
def test_wrong_bytes_are_explained_and_cost_one_point(measured, num_bytes, says):
    points, words = outcome(check_predicted, gather_and_add, num_bytes, 5, measured)
    assert (points, says in words) == (2, True)


@pytest.mark.parametrize(("num_messages", "says"), WRONG_MESSAGES)
def test_a_wrong_number_of_messages_is_explained_and_costs_one_point(num_messages, says):
    points, words = outcome(check_predicted, gather_and_add, 12000, num_messages, None)
    assert (points, says in words) == (1, True)


@pytest.mark.parametrize(("value", "says"), WRONG_MEASURED.values(), ids=WRONG_MEASURED)
def test_what_was_not_measured_is_explained_and_costs_one_point(value, says):
    points, words = outcome(check_predicted, gather_and_add, 12000, 5, value)
    assert (points, says in words) == (2, True)


@pytest.mark.parametrize(("algorithm", "says"), CHANGED.values(), ids=CHANGED)
def test_another_algorithm_in_the_place_of_the_given_one_gets_no_point_for_its_bytes(algorithm, says):
    points, words = outcome(check_predicted, algorithm, 12000, 5, [0, 0, 0])
    assert (points, says in words) == (2, True)
    assert "choosing.py" not in words


def test_nothing_at_all_gets_nothing():
    points, words = outcome(check_predicted, gather_and_add, None, None, None)
    assert (points, words) == (0, "nothing here yet")
