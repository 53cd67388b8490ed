"""Exercise 3 accepts every right `bytes_per_rank` and says of a wrong one which term it mistreats."""
import functools
import re

import pytest

from helpers.checks.judge.verdict import shown
from helpers.checks.memory.functions import check_bytes_per_rank, check_bytes_per_rank_unseen
from tests.checks import answers, answers_odd
from tests.checks.memory import answers_bytes
from tests.checks.outcome import outcome

RIGHT = [answers_bytes.adds_term_by_term, answers_bytes.subtracts_what_others_hold, answers_bytes.asks_stage_by_stage,
         answers_bytes.gives_a_number_of_numpy, answers_bytes.gives_a_tensor, answers_bytes.gives_an_array_of_one,
         answers_bytes.gives_a_fraction, answers_bytes.gives_a_decimal, answers_bytes.empties_its_recipe]
NOT_NAMED = {"is_an_object_with_call": answers_bytes.IsAnObjectWithCall(),
             "is_a_partial": functools.partial(answers_bytes.adds_term_by_term),
             "is_a_lambda": lambda **case: answers_bytes.adds_term_by_term(**case)}
ALIKE = [                                           # wrong in the same way, whatever the cases
    (answers.is_not_written_yet, "is not written yet"),
    (answers.returns_nothing, "the function returned None: is there a return?"),
    (answers.returns_text, "got '22222' of type str"),
    (answers.returns_nan, "got nan"),
    (answers.returns_true, "got True of type bool"),
    (answers.returns_infinity, "got inf"),
    (answers.returns_a_complex_number, "returned a complex; a number is asked for"),
    (answers.returns_a_list, "returned a list; a number is asked for"),
    (answers.returns_itself, "returned a function"),
    (answers.yields_instead_of_returning, "returned a generator"),
    (answers.true_for_everything, "returned a TrueForEverything"),
    (answers.returns_a_float_of_its_own, "returned a Generous"),
    (answers.renames_its_arguments, "unexpected keyword argument 'params'"),
    (answers.takes_positions_only, "positional-only arguments passed as keyword arguments"),
    (answers.divides_by_zero, "raised ZeroDivisionError: division by zero"),
    (answers.calls_itself_for_ever, "raised RecursionError"),
    (answers.exits_the_process, "the function ended its process: rank 0 of 1 ended with exit code 3"),
    (answers.leaves_with_sys_exit, "the function raised SystemExit: enough"),
    (answers.is_killed, "killed by SIGKILL"),
    (answers_bytes.uses_helpers_predict, "uses helpers.predict, which this exercise asks you to do without"),
    (answers_bytes.uses_what_imports_helpers_predict, "uses helpers.checks, which this exercise asks you"),
    (answers.makes_the_check_generous_over_there, "uses helpers.checks, which this exercise asks you"),
    (answers_odd.returns_400_digits, "... of type int"),
    (answers_odd.returns_5000_digits, "got something of type int"),
    (answers_odd.returns_a_size, "the function returned a Size; a number is asked for"),
    (answers_odd.returns_a_meta_tensor, "the function returned a Tensor; a number is asked for"),
    (answers_odd.returns_what_cannot_be_printed, "the function returned a PrintsNothingOfItself; a number is asked"),
    (answers_odd.returns_what_has_no_module, "the function returned a HasNoModule; a number is asked for"),
    (answers_odd.returns_a_huge_fraction, "the function r"),            # returned or raised
    (answers_odd.returns_ten_million_letters, "xxx... of type str"),
    (answers_odd.raises_ten_million_letters, "the function raised ValueError: xxx"),
    (answers_odd.raises_what_cannot_be_printed, "no text"),
    (answers_odd.prints_17_mb_of_blanks, "printed more than 17 MB and was stopped"),
    (answers_odd.HasNoSignature(), "got 1"),
]
SEEN = [
    (answers_bytes.shards_parameters_at_stage_2, 1.5, "expected 11112, got 11111"),
    (answers_bytes.shards_gradients_at_stage_1, 1.5, "expected 11122, got 11112"),
    (answers_bytes.shards_one_stage_too_late, 0.5, "expected 11111, got 11112"),
    (answers_bytes.divides_everything, 0.5, "expected 22222, got 11111"),
    (answers_bytes.shards_nothing, 0.5, "expected 11111, got 22222"),
    (answers_bytes.multiplies_by_ranks, 0, "expected 22222, got 44444. Digits from the right are parameter, gradient"),
    (answers_bytes.forgets_the_master, 0, "expected 22222, got 22022"),
    (answers_bytes.forgets_params, 0, "expected 22222, got 11111"),
    (answers_bytes.ignores_the_recipe, 0, "expected 22222, got 32"),
    (answers_bytes.answers_in_gib, 0, "expected 22222, got 2.0"),
    (answers_bytes.answers_in_gb, 0, "expected 22222, got 2.2222e-05: bytes are asked for, not GB"),
    (answers_bytes.is_off_by_one_percent, 0, "expected 22222, got 22444.2"),
    (answers.prints_that_it_is_right, 0, "expected 22222, got 0"),
    (answers_bytes.needs_every_term, 2, "2 of 2 points"),                     # its mistake shows in the unseen cases
    (answers_bytes.floors_the_shares, 2, "2 of 2 points"),
    (answers_bytes.knows_the_visible_cases_only, 2, "2 of 2 points"),
    (answers_bytes.knows_the_five_terms_only, 2, "2 of 2 points"),
]
UNSEEN = [
    (answers_bytes.floors_the_shares, 1, "WRONG  other recipes: 5 parameters on"),
    (answers_bytes.needs_every_term, 1, "the function raised KeyError: 'master'"),
    (answers_bytes.knows_the_five_terms_only, 1, "'average': 4}: expected 50 bytes, got "),
    (answers_bytes.keeps_other_terms_whole, 1, "'average': 4}: expected 50 bytes, got "),
    (answers_bytes.ignores_the_recipe, 1, "WRONG  other recipes: 5 parameters on"),
    (answers_bytes.knows_the_visible_cases_only, 0, "stage 0: expected 1.2e+11 bytes, got 22,222"),
    (answers_bytes.shards_parameters_at_stage_2, 0, "stage 2: expected 1.66e+10 bytes, got 1.875e+09"),
    (answers_bytes.shards_gradients_at_stage_1, 0, "stage 1: expected 3.14e+10 bytes, got 1.66406e+10"),
    (answers_bytes.divides_everything, 0, "stage 0: expected 1.2e+11 bytes, got 1.875e+09"),
    (answers_bytes.shards_nothing, 0, "stage 1: expected 3.14e+10 bytes, got 1.2e+11"),
    (answers_bytes.multiplies_by_ranks, 0, "stage 0: expected 1.2e+11 bytes, got 7.68e+12"),
    (answers_bytes.forgets_params, 0, "stage 0: expected 1.2e+11 bytes, got 16"),
    (answers_bytes.answers_in_gb, 0, "stage 0: expected 1.2e+11 bytes, got 120"),
    (answers_bytes.answers_in_gib, 0, "stage 0: expected 1.2e+11 bytes, got 111.759"),
    (answers_bytes.is_off_by_one_percent, 0, "stage 0: expected 1.2e+11 bytes, got 1.212e+11"),
    (answers.makes_the_check_generous_over_there, 0, "uses helpers.checks, which this exercise asks you"),
]


@pytest.mark.parametrize("function", [*RIGHT, *(pytest.param(f, id=name) for name, f in NOT_NAMED.items())])
def test_a_right_function_gets_all_points(function):
    points, words = outcome(check_bytes_per_rank, function)
    assert (points, "WRONG" in words) == (2.0, False)
    assert "whole before its stage and sharded from it on" in words
    points, words = outcome(check_bytes_per_rank_unseen, function)
    assert (points, "WRONG" in words) == (2.0, False)
    assert "figures of the ZeRO paper" in words


@pytest.mark.parametrize(("function", "points", "says"), SEEN)
def test_the_digits_say_which_term_is_mistreated(function, points, says):
    got, words = outcome(check_bytes_per_rank, function)
    assert got == points
    assert says in words
    assert ("expected " in words) == (points < 2)


@pytest.mark.parametrize(("function", "points", "says"), UNSEEN)
def test_unseen_cases_find_what_the_visible_ones_do_not(function, points, says):
    got, words = outcome(check_bytes_per_rank_unseen, function)
    assert got == points
    assert says in words


@pytest.mark.parametrize(("function", "says"), ALIKE)
def test_what_is_no_number_gets_nothing_and_is_named(function, says):
    for check in (check_bytes_per_rank, check_bytes_per_rank_unseen):
        points, words = outcome(check, function)
        assert points == 0
        assert says in words
        assert len(re.sub(" +", " ", words)) < 3000


def test_an_endless_loop_is_suspected(impatient):
    for check in (check_bytes_per_rank, check_bytes_per_rank_unseen):
        points, words = outcome(check, answers.never_ends)
        assert points == 0
        assert "not done after 0.3 s: does a loop in it never end, or does it try too many cases?" in words


def test_the_same_words_for_all_stages_are_said_once():
    assert outcome(check_bytes_per_rank, answers.is_not_written_yet) == (0, "the function is not written yet")
    assert outcome(check_bytes_per_rank, answers.returns_nothing) == (
        0, "the function returned None: is there a return?")


@pytest.mark.parametrize("answer", [None, ..., 22222, "bytes_per_rank", {}, answers.TrueForEverything(),
                                    *(v for v in answers_odd.VALUES.values() if not callable(v))], ids=shown)
def test_what_is_no_function_gets_nothing(answer):
    for check in (check_bytes_per_rank, check_bytes_per_rank_unseen):
        points, words = outcome(check, answer)
        assert points == 0
        assert f"a function is asked for, not {shown(answer)}" in words
