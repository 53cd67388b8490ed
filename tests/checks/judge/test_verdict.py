"""Points are plain floats, and nothing but a number of Python, numpy or torch passes for a number."""
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
import torch

from helpers.checks.judge.verdict import (
    MOST_SHOWN,
    CheckFailed,
    Verdict,
    is_number,
    number_verdict,
    plain,
    score,
    shown,
    unseen,
)
from helpers.facts.errors import CourseError
from tests.checks import answers_odd
from tests.checks.answers import Generous, GenerousInt, TrueForEverything
from tests.checks.answers_odd import HasNoModule, PrintsNothingOfItself


@pytest.mark.parametrize(("points", "total"), [((1, 1), 2.0), ((0.5, 0.5, 0.5, 0.5), 2.0), ((0.1,) * 10, 1.0)])
def test_points_are_a_plain_float(points, total, capsys):
    got = score([Verdict(p, f"property {p}") for p in points], "Well done.")
    assert (type(got), got) == (float, total)
    assert capsys.readouterr().out.endswith(f"{total:g} of {total:g} points. Well done.\n")


def test_a_line_for_each_property(capsys):
    assert score([Verdict(1, "first"), Verdict(2, "second", "too small")], "Well done.") == 1.0
    assert capsys.readouterr().out == "ok     first\nWRONG  second: too small\n1 of 3 points.\n"


def test_nothing_right_raises_with_every_line(capsys):
    with pytest.raises(CheckFailed) as failed:
        score([Verdict(1, "first", "no"), Verdict(2, "second", "nor this")], "Well done.")
    assert str(failed.value) == "nothing is right yet\nWRONG  first: no\nWRONG  second: nor this"
    assert capsys.readouterr().out == ""
    assert isinstance(failed.value, CourseError)
    assert failed.value._render_traceback_()[0] == "CheckFailed: nothing is right yet"


def test_the_same_words_for_all_are_said_once(capsys):
    with pytest.raises(CheckFailed) as failed:
        score([Verdict(1, "first", "is not written yet"), Verdict(2, "second", "is not written yet")], "Well done.")
    assert str(failed.value) == "is not written yet"
    assert capsys.readouterr().out == ""


def test_an_empty_string_is_wrong_and_none_is_right(capsys):
    assert score([Verdict(1, "first", ""), Verdict(2, "second", None)], "Well done.") == 2.0
    assert capsys.readouterr().out == "WRONG  first: \nok     second\n2 of 3 points.\n"
    with pytest.raises(CheckFailed):
        score([Verdict(1, "first", "")], "Well done.")


def test_unseen_cases_leave_the_points_given_before(capsys):
    @unseen
    def check(answer):
        raise CheckFailed("not on four ranks")

    got = check("answer")
    assert (type(got), got) == (float, 0.0)
    assert capsys.readouterr().out == "unseen cases: not on four ranks\n"


@pytest.mark.parametrize("value", [0, -0.0, 1, 1.5, -3, 9.9e29, -9.9e29, 10**18])
def test_numbers_are_numbers(value):
    assert is_number(value)


@pytest.mark.parametrize("value", [True, None, "1", 1j, 1e30, -1e300, 10**400, -10**400, math.nan,
                                   math.inf, -math.inf, Generous(1), GenerousInt(1),
                                   TrueForEverything(), [1], np.float64(1), torch.tensor(1), Fraction(1),
                                   Decimal(1)], ids=repr)
def test_what_only_looks_like_a_number_is_none(value):
    assert not is_number(value)


@pytest.mark.parametrize("value", [np.float64(3), np.float16(3), np.int8(3), np.array(3), np.array([[3.0]]),
                                   torch.tensor(3), torch.tensor([3.0], requires_grad=True),
                                   torch.nn.Parameter(torch.tensor(3.0)), torch.tensor([3], dtype=torch.bfloat16),
                                   np.longdouble(3), Fraction(3), Decimal("3.0"), Fraction(6, 2)],
                         ids=repr)
def test_a_single_number_becomes_pythons_own(value):
    assert type(plain(value)) in (int, float)
    assert plain(value) == 3


@pytest.mark.parametrize("value", [np.array([1, 2]), np.array([]), torch.tensor([1, 2]), torch.tensor([]), np.float64,
                                   torch.tensor, torch.float32, torch.nn.ReLU(), "3", None, ..., Generous(3),
                                   GenerousInt(3), True, [3],
                                   torch.Size([1]), np.array([PrintsNothingOfItself()]), HasNoModule()],
                         ids=shown)
def test_all_else_stays_as_it_is(value):
    assert plain(value) is value


@pytest.mark.parametrize(("value", "wrong"), [
    (100, None), (100.49, None), (99.51, None), (Fraction(200, 2), None), (Decimal("100.4"), None),
    (100.6, "100.6 is too much"), (99.4, "99.4 is too little"),
    (200, "200 is twice as much"), (200.5, "200.5 is twice as much"), (-100, "-100 is too little"),
    (None, "nothing here yet"), (..., "nothing here yet"), (True, "a number is asked for, not True of type bool")])
def test_a_number_is_right_to_three_digits(value, wrong):
    assert number_verdict(1, "size", value, 100, {"is twice as much": 200}).wrong == wrong


@pytest.mark.parametrize("value", [pytest.param(value, id=name) for name, value in answers_odd.VALUES.items()])
def test_an_odd_value_is_no_number_and_is_shown_shortly(value):
    wrong = number_verdict(1, "size", value, 100, {}).wrong
    assert wrong.startswith("a number is asked for, not ")
    assert len(wrong) < 150


@pytest.mark.parametrize("value", [pytest.param(value, id=name) for name, value in answers_odd.VALUES.items()])
def test_plain_and_shown_take_any_value(value):
    plain(value)
    text = shown(value)
    assert text.endswith(f" of type {type(value).__name__}")
    assert len(text) <= MOST_SHOWN + len(f"... of type {type(value).__name__}")


def test_short_values_are_shown_as_python_writes_them():
    assert shown("24 GB") == "'24 GB' of type str"
    assert shown([1, 2]) == "[1, 2] of type list"
    assert shown("x" * 100) == "'" + "x" * 79 + "... of type str"
    assert shown(PrintsNothingOfItself()) == "something of type PrintsNothingOfItself"
    assert shown(10**5000) == "something of type int"


def test_the_first_of_two_mistakes_with_one_number_is_named():
    assert number_verdict(1, "size", 200, 100, {"is a": 200, "is b": 200}).wrong == "200 is a"
