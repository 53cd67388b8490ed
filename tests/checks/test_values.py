"""Exercises 1, 2 and 4 accept right numbers and names however they are written, and name what is wrong with others."""
import math

import numpy as np
import pytest
import torch

from helpers.checks.memory import check_mistake, check_smallest, check_table
from tests.checks.answers import Generous, GenerousInt, TrueForEverything
from tests.checks.outcome import outcome

STAGES = ("DDP", "ZeRO-1", "ZeRO-2", "ZeRO-3")
RECIPES = ("mixed", "mixed, fp32 gradients", "mixed, no master")
GB_PER_RANK, SMALLEST = (208, 71.5, 48.75, 26), (9, 10, 7)           # 16 * 13, (4 + 12/8) * 13, (2 + 14/8) * 13, 2 * 13


def named(cases: dict) -> list:
    """Parameters of a test, each with the name of the answer as its id."""
    return [pytest.param(*case, id=name) for name, case in cases.items()]


def table(*values) -> dict:
    return dict(zip(STAGES, values, strict=True))


def smallest(*values) -> dict:
    return dict(zip(RECIPES, values, strict=True))


def each(change, values=GB_PER_RANK) -> list:
    return [change(v) for v in values]


@pytest.mark.parametrize("answer", named({
    "ints_and_floats": [table(*GB_PER_RANK)],
    "numbers_of_numpy": [table(*each(np.float64))],
    "float32_of_numpy": [table(*each(np.float32))],
    "tensors": [table(*each(torch.tensor))],
    "tensors_that_need_gradients": [table(*each(lambda v: torch.tensor([float(v)], requires_grad=True)))],
    "arrays_of_one_number": [table(*each(lambda v: np.array([[v]])))],
    "three_digits": [table(208, 71.5, 48.8, 26.0)],
    "another_order_and_one_key_more": [{"pure": 1, **dict(reversed(table(*GB_PER_RANK).items()))}],
}))
def test_the_table_takes_right_numbers(answer):
    points, words = outcome(check_table, answer)
    assert (points, "WRONG" in words) == (4.0, False)
    assert "4 of 4 points. Each stage shards more" in words


@pytest.mark.parametrize(("values", "points", "says"), named({
    "answers_in_gib": (each(lambda v: v * 1e9 / 2**30), 0, "GiB; GB are asked for"),
    "answers_in_bytes": (each(lambda v: v * 1e9), 0, "is the number of bytes; GB are asked for"),
    "sums_over_ranks": (each(lambda v: v * 8), 0, "sum over all ranks; one rank's share is asked for"),
    "divides_everything": ((26, 26, 26, 26), 1, "ZeRO-1: 26 divides everything by 8; this stage keeps some"),
    "shards_nothing": ((208,) * 4, 1, "ZeRO-2: 208 is DDP's size; this stage shards something"),
    "forgets_the_master": ((156, 65, 42.25, 19.5), 0, "65 leaves out the fp32 master copy"),
    "has_fp32_gradients": ((234, 97.5, 52, 29.25), 0, "97.5 has fp32 gradients; here they are bf16"),
    "shards_parameters_at_stage_2": ((208, 71.5, 26, 26), 3, "ZeRO-2: 26 divides everything by 8"),
    "shards_gradients_at_stage_1": ((208, 48.75, 48.75, 26), 3, "ZeRO-1: 48.75 is stage 2's size"),
    "keeps_gradients_whole_at_stage_2": ((208, 71.5, 71.5, 26), 3, "ZeRO-2: 71.5 is stage 1's size"),
    "keeps_parameters_whole_at_stage_3": ((208, 71.5, 48.75, 48.75), 3, "ZeRO-3: 48.75 is stage 2's size"),
    "swaps_two_stages": ((208, 48.75, 71.5, 26), 2, "ZeRO-1: 48.75 is stage 2's size"),
    "has_half_the_parameters": (each(lambda v: v / 2), 0, "ZeRO-1: 35.75 is too little"),
    "has_ten_times_the_parameters": (each(lambda v: v * 10), 0, "ZeRO-1: 715 is too much"),
    "negates": (each(lambda v: -v), 0, "DDP: -208 is too little"),
    "is_off_by_one_percent": (each(lambda v: 1.01 * v), 0, "is too much"),
    "answers_zero": ((0, 0, 0, 0), 0, "DDP: 0 is too little"),
    "writes_text": (("208 GB", 71.5, 48.75, 26), 3, "DDP: a number is asked for, not '208 GB' of type str"),
    "answers_nan": ((math.nan,) * 4, 0, "a number is asked for, not 'nan' of type float"),
    "answers_infinity": ((math.inf, 71.5, 48.75, 26), 3, "a number is asked for, not 'inf' of type float"),
    "answers_true": ((True,) * 4, 0, "a number is asked for, not 'True' of type bool"),
    "answers_a_complex_number": ((208 + 0j, 71.5, 48.75, 26), 3, "of type complex"),
    "gives_a_list": (([208], 71.5, 48.75, 26), 3, "a number is asked for, not '[208]' of type list"),
    "gives_an_array_of_two": ((np.array([208, 208]), 71.5, 48.75, 26), 3, "of type ndarray"),
    "gives_a_true_tensor": ((torch.tensor(True), 71.5, 48.75, 26), 3, "of type bool"),
    "true_for_everything": ((TrueForEverything(),) * 4, 0, "of type TrueForEverything"),
    "a_float_that_equals_all": ((Generous(1),) * 4, 0, "of type Generous"),
    "is_half_done": ((208, 71.5, None, ...), 2, "ZeRO-3: nothing here yet"),
    "is_not_started": ((None,) * 4, 0, "nothing here yet"),
}))
def test_the_table_names_the_mistake(values, points, says):
    got, words = outcome(check_table, table(*values))
    assert got == points
    assert says in words
    assert ("nothing is right yet" in words) == (points == 0)


@pytest.mark.parametrize("check", [check_table, check_smallest])
@pytest.mark.parametrize(("answer", "says"), named({
    "gives_none": (None, "not a NoneType"),
    "gives_a_list": (list(GB_PER_RANK), "not a list"),
    "gives_a_number": (208, "not a int"),
    "gives_true_for_everything": (TrueForEverything(), "not a TrueForEverything"),
    "gives_an_empty_dict": ({}, "the dict lacks"),
    "lower_cases_the_keys": ({k.lower(): 9 for k in STAGES} | {k.upper(): 9 for k in RECIPES}, "the dict lacks"),
    "has_a_key_that_equals_all": ({TrueForEverything(): 208}, "the dict lacks"),
}))
def test_what_is_no_dict_of_the_cell_gets_nothing(check, answer, says):
    points, words = outcome(check, answer)
    assert points == 0
    assert says in words
    assert ("'ZeRO-3'" if check is check_table else "'mixed, no master'") in words


@pytest.mark.parametrize("answer", named({
    "ints": [smallest(*SMALLEST)],
    "whole_floats": [smallest(9.0, 10.0, 7.0)],
    "numbers_of_numpy": [smallest(np.int64(9), np.float64(10), np.array([7]))],
    "tensors": [smallest(*each(torch.tensor, SMALLEST))],
    "another_order": [dict(reversed(smallest(*SMALLEST).items()))],
}))
def test_the_smallest_numbers_may_be_written_in_any_way(answer):
    points, words = outcome(check_smallest, answer)
    assert (points, "WRONG" in words) == (3.0, False)
    assert "3 of 3 points. The same card, the same model" in words


@pytest.mark.parametrize(("values", "points", "says"), named({
    "floors_the_division": ((8, 9, 6), 0, "on 8 ranks each holds 26.00 GB, which is not below 24"),
    "rounds_to_the_nearest": ((9, 10, 6), 2, "on 6 ranks each holds 26.00 GB, which is not below 24"),
    "leaves_the_fraction": ((26 / 3, 9.75, 6.5), 0, "9.75 is not a whole number"),
    "takes_powers_of_two": ((16, 16, 8), 0, "16 ranks are enough with 13.00 GB each, but fewer are, too"),
    "adds_one_for_safety": ((10, 11, 8), 0, "8 ranks are enough with 19.50 GB each, but fewer are, too"),
    "ignores_the_recipe": ((9, 9, 9), 1, '"mixed, fp32 gradients", 18P: on 9 ranks each holds 26.00 GB'),
    "swaps_two_recipes": ((9, 7, 10), 1, '"mixed, no master", 12P: 10 ranks are enough'),
    "answers_one": ((1, 1, 1), 0, "on 1 ranks each holds 208.00 GB"),
    "answers_zero": ((0, 0, 0), 0, "0 ranks cannot hold anything"),
    "negates": ((-9, -10, -7), 0, "-9 ranks cannot hold anything"),
    "answers_true": ((True, 10, 7), 2, "True is not a whole number"),
    "answers_nan": ((math.nan, 10, 7), 2, "nan is not a whole number"),
    "answers_infinity": ((math.inf, 10, 7), 2, "inf is not a whole number"),
    "answers_a_million": ((10**6, 10, 7), 2, "1000000 ranks are enough"),
    "gives_a_list": (([9], 10, 7), 2, "[9] is not a whole number"),
    "true_for_everything": ((TrueForEverything(),) * 3, 0, "is not a whole number"),
    "an_int_that_equals_all": ((GenerousInt(1),) * 3, 0, "is not a whole number"),
    "is_half_done": ((9, None, ...), 1, "nothing here yet"),
    "is_not_started": ((None,) * 3, 0, "nothing here yet"),
}))
def test_the_smallest_number_says_what_each_rank_would_hold(values, points, says):
    got, words = outcome(check_smallest, smallest(*values))
    assert got == points
    assert says in words
    assert ("nothing is right yet" in words) == (points == 0)


@pytest.mark.parametrize("term", ["master", " Master ", "fp32 master", "master copy", "FP32 master weights",
                                  "master_copy", "fp32 master copy"])
@pytest.mark.parametrize("right_gb", [140, 140.0, np.float64(140), torch.tensor(140)])
def test_the_missing_term_may_be_written_in_any_way(term, right_gb):
    points, words = outcome(check_mistake, term, right_gb)
    assert (points, "WRONG" in words) == (2.0, False)
    assert "2 of 2 points. 12 bytes a parameter is training without an fp32 master copy" in words


@pytest.mark.parametrize(("term", "says"), named({
    "names_the_gradient": ("Gradient", "gradient stands in the ledger"),
    "names_the_variance": ("variance", "variance stands in the ledger"),
    "names_activations": ("activations", "activations are not model state"),
    "names_buffers": ("gradient buckets", "buffers come on top of the model state"),
    "names_what_is_none": ("dropout", "'dropout' is no term of the lesson's ledger"),
    "names_all_terms": ("parameter, gradient, momentum, variance, master", "is no term of the lesson's ledger"),
    "denies_it": ("not master", "'not master' is no term of the lesson's ledger"),
    "gives_a_number": (4, "the name of a term is asked for, not '4'"),
    "gives_a_list": (["master"], "the name of a term is asked for"),
    "true_for_everything": (TrueForEverything(), "the name of a term is asked for"),
    "is_empty": ("", "is no term"),
    "is_not_started": (None, "the missing term: nothing here yet"),
}))
def test_a_wrong_term_keeps_the_point_of_the_sum(term, says):
    points, words = outcome(check_mistake, term, 140)
    assert points == 1
    assert says in words
    assert "ok     the right sum" in words


@pytest.mark.parametrize(("right_gb", "says"), named({
    "repeats_the_ledger": (105, "105 is what the ledger says, and it is wrong"),
    "answers_in_gib": (130.385, "GiB; GB are asked for"),
    "sums_over_ranks": (1120, "sum over all ranks; one rank's share is asked for"),
    "has_fp32_gradients": (157.5, "has fp32 gradients; those of the ledger are bf16"),
    "gives_the_missing_term_alone": (35, "is the missing term alone; the sum with it is asked for"),
    "has_the_master_on_every_rank_whole": (385, "stage 3 shards it"),
    "has_a_bf16_master": (122.5, "122.5 is too little"),
    "answers_in_bytes": (140e9, "is too much"),
    "writes_text": ("140 GB", "a number is asked for, not '140 GB' of type str"),
    "answers_true": (True, "of type bool"),
    "answers_nan": (math.nan, "a number is asked for, not 'nan'"),
    "true_for_everything": (TrueForEverything(), "of type TrueForEverything"),
    "is_not_started": (None, "the right sum: nothing here yet"),
}))
def test_a_wrong_sum_keeps_the_point_of_the_term(right_gb, says):
    points, words = outcome(check_mistake, "master", right_gb)
    assert points == 1
    assert says in words
    assert "ok     the missing term" in words


@pytest.mark.parametrize(("answer", "says"), named({
    "is_not_started": ((None, None), "the missing term: nothing here yet"),
    "swaps_its_two_answers": ((140, "master"), "a number is asked for, not 'master' of type str"),
    "believes_the_ledger": (("variance", 105), "it is wrong"),
}))
def test_both_wrong_gets_nothing(answer, says):
    points, words = outcome(check_mistake, *answer)
    assert points == 0
    assert says in words
    assert "nothing is right yet" in words
