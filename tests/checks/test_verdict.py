"""Points are plain floats, and nothing but a number of Python, numpy or torch passes for a number."""
import math
from fractions import Fraction

import numpy as np
import pytest
import torch

from helpers.checks.verdict import CheckFailed, Verdict, is_number, number_verdict, plain, score, unseen
from helpers.facts.errors import CourseError
from tests.checks.answers import Generous, GenerousInt, TrueForEverything


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


def test_unseen_cases_leave_the_points_given_before(capsys):
    @unseen
    def check(answer):
        raise CheckFailed("not on four ranks")

    got = check("answer")
    assert (type(got), got) == (float, 0.0)
    assert capsys.readouterr().out == "unseen cases: not on four ranks\n"


@pytest.mark.parametrize("value", [0, -0.0, 1, 1.5, -3, 1e300, 10**18])
def test_numbers_are_numbers(value):
    assert is_number(value)


@pytest.mark.parametrize("value", [True, None, "1", 1j, math.nan, math.inf, -math.inf, Generous(1), GenerousInt(1),
                                   TrueForEverything(), [1], np.float64(1), torch.tensor(1)], ids=repr)
def test_what_only_looks_like_a_number_is_none(value):
    assert not is_number(value)


@pytest.mark.parametrize("value", [np.float64(3), np.float16(3), np.int8(3), np.array(3), np.array([[3.0]]),
                                   torch.tensor(3), torch.tensor([3.0], requires_grad=True),
                                   torch.nn.Parameter(torch.tensor(3.0)), torch.tensor([3], dtype=torch.bfloat16)],
                         ids=repr)
def test_a_single_number_of_numpy_or_torch_becomes_pythons_own(value):
    assert type(plain(value)) in (int, float)
    assert plain(value) == 3


@pytest.mark.parametrize("value", [np.array([1, 2]), np.array([]), torch.tensor([1, 2]), torch.tensor([]), np.float64,
                                   torch.tensor, torch.float32, torch.nn.ReLU(), "3", None, Fraction(3), Generous(3)],
                         ids=repr)
def test_all_else_stays_as_it_is(value):
    assert plain(value) is value


@pytest.mark.parametrize(("value", "wrong"), [
    (100, ""), (100.49, ""), (99.51, ""), (100.6, "100.6 is too much"), (99.4, "99.4 is too little"),
    (200, "200 is twice as much"), (200.5, "200.5 is twice as much"), (-100, "-100 is too little"),
    (None, "nothing here yet"), (..., "nothing here yet"), (True, "a number is asked for, not 'True' of type bool")])
def test_a_number_is_right_to_three_digits(value, wrong):
    assert number_verdict(1, "size", value, 100, {"is twice as much": 200}).wrong == wrong


def test_the_first_of_two_mistakes_with_one_number_is_named():
    assert number_verdict(1, "size", 200, 100, {"is a": 200, "is b": 200}).wrong == "200 is a"
