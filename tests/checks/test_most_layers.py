"""Exercise 5 accepts every right `most_layers` and shows a wrong one the smallest case that it fails."""
import functools

import pytest

from helpers.checks.memory_functions import check_most_layers, check_most_layers_unseen
from tests.checks import answers, answers_layers
from tests.checks.outcome import outcome

RIGHT = [answers_layers.solves_the_inequality, answers_layers.tries_one_number_after_the_other,
         answers_layers.uses_fractions, answers_layers.gives_an_int_of_numpy, answers_layers.gives_an_int_tensor]
ALIKE = [
    (answers.is_not_written_yet, "the function is not written yet"),
    (answers.returns_nothing, "got      None"),
    (answers.returns_text, "got      '22222' of type str; a whole number (int) is asked for"),
    (answers_layers.returns_a_whole_float, "of type float; a whole number (int) is asked for"),
    (answers.returns_nan, "got      nan of type float"),
    (answers.returns_infinity, "got      inf of type float"),
    (answers.returns_true, "got      True of type bool; a whole number (int) is asked for"),
    (answers.returns_a_list, "the function returned a list"),
    (answers.yields_instead_of_returning, "the function returned a generator"),
    (answers.true_for_everything, "the function returned a TrueForEverything"),
    (answers.returns_an_int_of_its_own, "the function returned a GenerousInt"),
    (answers.renames_its_arguments, "unexpected keyword argument"),
    (answers.divides_by_zero, "the function raised ZeroDivisionError"),
    (answers.calls_itself_for_ever, "the function raised RecursionError"),
    (answers.exits_the_process, "ended with exit code 3"),
    (answers.makes_the_check_generous_over_there, "got      -1"),
    (answers_layers.counts_one_layer_too_many, "expected "),
    (answers_layers.has_half_the_state, "expected "),
]
SEEN = [
    (answers_layers.forgets_the_reserve, "the reserve stays free"),
    (answers_layers.forgets_the_embeddings, "other parameters count"),
    (answers_layers.shares_nothing, "the state is shared"),
    (answers_layers.leaves_no_exact_fit, "expected "),
    (answers_layers.rounds_up, "expected "),
    (answers_layers.counts_one_layer_too_many, "nothing but layers"),
    (answers_layers.has_half_the_state, "nothing but layers"),
    (answers_layers.returns_a_whole_float, "nothing but layers"),
    (answers.is_not_written_yet, "nothing but layers"),
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


@pytest.mark.parametrize(("function", "says"), SEEN)
def test_the_first_case_that_fails_names_what_was_forgotten(function, says):
    points, words = outcome(check_most_layers, function)
    assert points == 0
    assert says in words
    assert "called with {" in words


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
        assert "not done after 1 s: does a loop in it never end?" in words


def test_right_functions_agree_that_llama_fits_on_64_cards():
    """Llama 3.1 70B has 80 layers; on 64 cards of 80 GiB, 20 of them reserved, 282 would fit."""
    case = {"card_bytes": 80 * 2**30, "ranks": 64, "layer_params": 855_654_400, "other_params": 2_101_346_304,
            "reserve_bytes": 20 * 2**30}
    assert [function(**case) for function in RIGHT] == [282] * len(RIGHT)
