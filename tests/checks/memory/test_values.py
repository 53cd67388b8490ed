"""Exercises 1 and 2 accept right numbers however they are written, and name what is wrong with others."""
import math
from collections import OrderedDict, UserDict, defaultdict
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
import torch

from helpers.checks.memory.values import check_smallest, check_table
from tests.checks import answers_odd
from tests.checks.answers import Generous, GenerousInt, TrueForEverything
from tests.checks.outcome import named, outcome

STAGES = ("DDP", "ZeRO-1", "ZeRO-2", "ZeRO-3")
RECIPES = ("mixed", "mixed, fp32 gradients", "mixed, no master")
GB_PER_RANK, SMALLEST = (208, 71.5, 48.75, 26), (9, 10, 7)           # 16 * 13, (4 + 12/8) * 13, (2 + 14/8) * 13, 2 * 13


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
    "fractions": [table(*each(Fraction))],
    "decimals": [table(*each(lambda v: Decimal(str(v))))],
    "a_default_dict": [defaultdict(float, table(*GB_PER_RANK))],
    "an_ordered_dict": [OrderedDict(table(*GB_PER_RANK))],
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
    "divides_ddp_too": ((26, 71.5, 48.75, 26), 3, "DDP: 26 is divided by 8; DDP shards nothing"),
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
    "answers_zero": ((0, 0, 0, 0), 0, "0 is too little"),
    "writes_text": (("208 GB", 71.5, 48.75, 26), 3, "DDP: a number is asked for, not '208 GB' of type str"),
    "answers_nan": ((math.nan,) * 4, 0, "a number is asked for, not nan of type float"),
    "answers_infinity": ((math.inf, 71.5, 48.75, 26), 3, "a number is asked for, not inf of type float"),
    "answers_true": ((True,) * 4, 0, "a number is asked for, not True of type bool"),
    "answers_a_complex_number": ((208 + 0j, 71.5, 48.75, 26), 3, "of type complex"),
    "gives_a_list": (([208], 71.5, 48.75, 26), 3, "a number is asked for, not [208] of type list"),
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
    assert ("points." in words) == (points > 0)


@pytest.mark.parametrize("check", [check_table, check_smallest])
@pytest.mark.parametrize(("answer", "says"), named({
    "gives_none": (None, "not None of type NoneType"),
    "gives_a_list": (list(GB_PER_RANK), "not [208, 71.5, 48.75, 26] of type list"),
    "gives_a_number": (208, "not 208 of type int"),
    "gives_true_for_everything": (TrueForEverything(), "of type TrueForEverything"),
    "gives_a_set_of_the_keys": ({*STAGES, *RECIPES}, "of type set"),
    "gives_a_dict_of_its_own": (UserDict(DDP=208, mixed=9), "of type UserDict"),
    "gives_an_empty_dict": ({}, "not {} of type dict"),
    "lower_cases_the_keys": ({k.lower(): 9 for k in STAGES} | {k.upper(): 9 for k in RECIPES}, "of type dict"),
}))
def test_what_is_no_dict_of_the_cell_gets_nothing(check, answer, says):
    points, words = outcome(check, answer)
    assert points == 0
    assert "is asked for" in words
    assert says in words
    assert ("'ZeRO-3'" if check is check_table else "'mixed, no master'") in words


@pytest.mark.parametrize("answer", named({
    "ints": [smallest(*SMALLEST)],
    "whole_floats": [smallest(9.0, 10.0, 7.0)],
    "numbers_of_numpy": [smallest(np.int64(9), np.float64(10), np.array([7]))],
    "tensors": [smallest(*each(torch.tensor, SMALLEST))],
    "fractions_and_decimals": [smallest(Fraction(9), Decimal(10), 7)],
    "a_default_dict": [defaultdict(int, smallest(*SMALLEST))],
    "one_key_more": [{"mixed, guessed": 1, **smallest(*SMALLEST)}],
    "another_order": [dict(reversed(smallest(*SMALLEST).items()))],
}))
def test_the_smallest_numbers_may_be_written_in_any_way(answer):
    points, words = outcome(check_smallest, answer)
    assert (points, "WRONG" in words) == (3.0, False)
    assert "3 of 3 points. The same card, the same model" in words


@pytest.mark.parametrize(("values", "points", "says"), named({
    "floors_the_division": ((8, 9, 6), 0, "on 8 ranks each holds 26.00 GB, which is not below 24"),
    "rounds_to_the_nearest": ((9, 10, 6), 2, "on 6 ranks each holds 26.00 GB, which is not below 24"),
    "leaves_the_fraction": ((26 / 3, 9.75, 6.5), 0, "ranks come whole and from 1 on, not 9.75"),
    "takes_powers_of_two": ((16, 16, 8), 0, "16 ranks are enough with 13.00 GB each, but fewer are, too"),
    "adds_one_for_safety": ((10, 11, 8), 0, "8 ranks are enough with 19.50 GB each, but fewer are, too"),
    "ignores_the_recipe": ((9, 9, 9), 1, '"mixed, fp32 gradients", 18P: on 9 ranks each holds 26.00 GB'),
    "swaps_two_recipes": ((9, 7, 10), 1, '"mixed, no master", 12P: 10 ranks are enough'),
    "answers_one": ((1, 1, 1), 0, "on 1 ranks each holds 208.00 GB"),
    "answers_zero": ((0, 0, 0), 0, "ranks come whole and from 1 on, not 0"),
    "negates": ((-9, -10, -7), 0, "ranks come whole and from 1 on, not -9"),
    "answers_true": ((True, 10, 7), 2, "a whole number is asked for, not True of type bool"),
    "answers_nan": ((math.nan, 10, 7), 2, "a whole number is asked for, not nan"),
    "answers_infinity": ((math.inf, 10, 7), 2, "a whole number is asked for, not inf"),
    "answers_a_million": ((10**6, 10, 7), 2, "1000000 ranks are enough"),
    "gives_a_list": (([9], 10, 7), 2, "a whole number is asked for, not [9] of type list"),
    "true_for_everything": ((TrueForEverything(),) * 3, 0, "of type TrueForEverything"),
    "an_int_that_equals_all": ((GenerousInt(1),) * 3, 0, "of type GenerousInt"),
    "is_half_done": ((9, None, ...), 1, "nothing here yet"),
    "is_not_started": ((None,) * 3, 0, "nothing here yet"),
}))
def test_the_smallest_number_says_what_each_rank_would_hold(values, points, says):
    got, words = outcome(check_smallest, smallest(*values))
    assert got == points
    assert says in words
    assert ("points." in words) == (points > 0)


@pytest.mark.parametrize("value", [pytest.param(value, id=name) for name, value in answers_odd.VALUES.items()])
def test_an_odd_value_keeps_the_points_of_the_others(value):
    points, words = outcome(check_table, table(value, 71.5, 48.75, 26))
    assert (points, "WRONG  DDP: a number is asked for, not " in words) == (3, True)
    points, words = outcome(check_smallest, smallest(value, 10, 7))
    assert (points, '"mixed", 16P: a whole number is asked for, not ' in words) == (2, True)
    for check in (check_table, check_smallest):
        points, words = outcome(check, value)
        assert (points, words.startswith("a dict with the keys ")) == (0, True)


@pytest.mark.parametrize("check", [check_table, check_smallest])
def test_missing_keys_count_as_nothing_here_yet(check):
    points, words = outcome(check, {"DDP": 208, "mixed": 9})
    assert points == 1
    assert words.count("nothing here yet") == (3 if check is check_table else 2)


def test_each_line_has_its_own_words_unless_all_are_alike():
    assert outcome(check_table, table(*(None,) * 4)) == (0, "nothing here yet")
    points, words = outcome(check_table, table(None, 1, None, 1))
    assert points == 0
    assert words.startswith("nothing is right yet\nWRONG  DDP: nothing here yet\nWRONG  ZeRO-1: 1 is too little\n")


def test_a_key_that_equals_all_gets_no_more_than_its_value_deserves():
    assert outcome(check_table, {TrueForEverything(): 208})[0] <= 1
    assert outcome(check_table, {TrueForEverything(): 1})[0] == 0


def test_methods_of_a_dict_of_ones_own_are_not_asked():
    class Mine(dict):
        def __getitem__(self, key):
            return GB_PER_RANK[STAGES.index(key)]

        get = __missing__ = __getitem__

    assert outcome(check_table, Mine(table(208, 1, 1, 1)))[0] == 1
