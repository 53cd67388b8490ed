"""Exercise 5 accepts every right `most_layers` and shows a wrong one the smallest case that it fails."""
import functools

import pytest

from helpers.checks.memory.functions import check_most_layers, check_most_layers_unseen
from tests.checks import answers, answers_odd
from tests.checks.memory import answers_layers
from tests.checks.outcome import outcome

RIGHT = [answers_layers.solves_the_inequality, answers_layers.tries_one_number_after_the_other,
         answers_layers.uses_fractions, answers_layers.gives_an_int_of_numpy, answers_layers.gives_an_int_tensor,
         answers_layers.empties_its_arguments]
ONE, SHARDED = "nothing but layers: 16 L + 4 <= 99", "the state is sharded, the gathered layer is not"
OTHER, RESERVE = "other parameters are sharded, too", "the reserve is not sharded"
EXACT, NONE = "an exact fit fits", "not even one layer fits"
ALIKE = [
    (answers.is_not_written_yet, "the function is not written yet"),
    (answers.returns_nothing, "the function returned None: is there a return?"),
    (answers.returns_text, "got      '22222' of type str; a whole number (int) is asked for"),
    (answers_layers.returns_a_whole_float, "of type float; a whole number (int) is asked for"),
    (answers.returns_nan, "got      nan of type float"),
    (answers.returns_infinity, "got      inf of type float"),
    (answers.returns_true, "got      True of type bool; a whole number (int) is asked for"),
    (answers.returns_a_list, "the function returned a list; a number is asked for"),
    (answers.yields_instead_of_returning, "the function returned a generator"),
    (answers.divides_by_zero, "the function raised ZeroDivisionError"),
    (answers.calls_itself_for_ever, "the function raised RecursionError"),
    (answers.exits_the_process, "ended with exit code 3"),
    (answers.makes_the_check_generous_over_there, "uses helpers.checks, which this exercise asks you"),
    (answers_layers.counts_one_layer_too_many, "expected "),
    (answers_layers.has_half_the_state, "expected "),
    (answers.leaves_with_sys_exit, "the function raised SystemExit: enough"),
    (answers_odd.returns_400_digits, "000... of type int"),
    (answers_odd.returns_5000_digits, "got      something of type int"),
    (answers_odd.returns_a_size, "the function returned a Size"),
    (answers_odd.returns_a_meta_tensor, "the function returned a Tensor"),
    (answers_odd.returns_what_cannot_be_printed, "the function returned a PrintsNothingOfItself"),
    (answers_odd.returns_what_has_no_module, "the function returned a HasNoModule"),
    (answers_odd.returns_a_huge_fraction, "the function r"),            # returned or raised
    (answers_odd.returns_ten_million_letters, "xxx... of type str"),
    (answers_odd.raises_ten_million_letters, "the function raised ValueError: xxx"),
    (answers_odd.raises_what_cannot_be_printed, "no text"),
    (answers_odd.prints_17_mb_of_blanks, "printed more than 17 MB and was stopped"),
    (answers_odd.HasNoSignature(), "got      1 of type int"),
]
SEEN = [
    (answers_layers.counts_one_layer_too_many, ONE, 5, 6),
    (answers_layers.has_half_the_state, ONE, 5, 11),
    (answers_layers.rounds_up, ONE, 5, 6),
    (answers_layers.forgets_the_gathered_layer, ONE, 5, 6),
    (answers_layers.has_half_the_gathered_layer, ONE, 5, 6),
    (answers_layers.returns_a_whole_float, ONE, 5, 5.0),
    (answers_layers.shares_nothing, SHARDED, 11, 5),
    (answers_layers.shares_the_gathered_layer, SHARDED, 11, 12),
    (answers_layers.forgets_the_embeddings, OTHER, 9, 11),
    (answers_layers.keeps_the_embeddings_whole, OTHER, 9, 7),
    (answers_layers.forgets_the_reserve, RESERVE, 6, 11),
    (answers_layers.shares_the_reserve, RESERVE, 6, 9),
    (answers_layers.leaves_no_exact_fit, EXACT, 2, 1),
    (answers_layers.goes_below_zero, NONE, 0, -3),
]
UNSEEN = [
    (answers_layers.forgets_the_reserve, "got      383"),
    (answers_layers.forgets_the_embeddings, "got      285"),
    (answers_layers.shares_nothing, "got      1"),
    (answers_layers.rounds_up, "got      283"),
    (answers_layers.forgets_the_gathered_layer, "got      298"),
    (answers_layers.shares_the_gathered_layer, "got      298"),
    (answers_layers.keeps_the_embeddings_whole, "got      127"),
    (answers_layers.shares_the_reserve, "got      381"),
    (answers_layers.knows_small_cards_only, "got      0"),
]


PARTIAL = pytest.param(functools.partial(answers_layers.uses_fractions), id="is_a_partial")


@pytest.mark.parametrize("function", [*RIGHT, PARTIAL])
def test_a_right_function_gets_all_points(function):
    points, words = outcome(check_most_layers, function)
    assert (points, "Buffers and reserve do not shrink with more ranks" in words) == (1.0, True)
    points, words = outcome(check_most_layers_unseen, function)
    assert (points, "Right for cards and models of real size" in words) == (1.0, True)


@pytest.mark.parametrize(("function", "case", "expected", "got"), SEEN)
def test_the_first_case_that_fails_names_what_was_forgotten(function, case, expected, got):
    points, words = outcome(check_most_layers, function)
    assert points == 0
    assert words.startswith(case)
    assert "called with {" in words
    assert f"expected {expected}\n  got      {got} of type" in words


@pytest.mark.parametrize(("function", "says"), UNSEEN)
def test_models_of_real_size_find_what_small_cases_may_not(function, says):
    points, words = outcome(check_most_layers_unseen, function)
    assert points == 0
    assert "80 GiB, 64 ranks, Llama 3.1 70B's blocks" in words
    assert "expected 282" in words
    assert says in words


@pytest.mark.parametrize(("function", "says"), ALIKE)
def test_what_is_no_right_whole_number_gets_nothing(function, says):
    for check in (check_most_layers, check_most_layers_unseen):
        points, words = outcome(check, function)
        assert points == 0
        assert says in words


def test_an_endless_loop_is_suspected(impatient):
    for check in (check_most_layers, check_most_layers_unseen):
        points, words = outcome(check, answers.never_ends)
        assert points == 0
        assert "not done after 0.3 s: does a loop in it never end, or does it try too many cases?" in words


def test_right_functions_agree_that_llama_fits_on_64_cards():
    """Llama 3.1 70B has 80 layers; on 64 cards of 80 GiB, 20 of them reserved, 282 would fit."""
    case = {"card_bytes": 80 * 2**30, "ranks": 64, "layer_params": 855_654_400, "other_params": 2_101_346_304,
            "reserve_bytes": 20 * 2**30}
    assert [function(**case) for function in RIGHT] == [282] * len(RIGHT)
