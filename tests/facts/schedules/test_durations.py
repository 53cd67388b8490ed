"""Durations by kind, by stage, and by what is left out."""
from fractions import Fraction

import numpy
import pytest

from helpers.facts.errors import BadValue
from helpers.facts.schedules import parse
from helpers.facts.schedules.durations import duration_of


@pytest.mark.parametrize(("durations", "step", "expected"), [
    ({"F": 2}, "1F0", 2),
    ({"F": [1, 5, 3]}, "1F0", 5),
    ({"F": 1, "B": 4}, "2B7", 4),
    ({"I": 1, "W": 2}, "0B0", 3),                                           # B is I + W
    ({"I": [1, 2, 3], "W": 10}, "2B0", 13),
    ({"I": 1, "W": 2, "B": 7}, "0B0", 7),                                   # unless it is given
    ({"F": 1, "B": 2}, "(0F1;2B0)OVERLAP_F_B", 3),                          # an overlap that saves nothing
    ({"F": [1, 0, 0], "B": [0, 0, 5]}, "(0F1;2B0)OVERLAP_F_B", 6),          # each part that of its own stage
    ({"F": 1, "I": 1, "W": 1, "F&B": 2.5}, "(0F1;2B0)OVERLAP_F_B", 2.5),
    ({"F": 0}, "0F0", 0),
    ({"F": numpy.int64(3)}, "0F0", 3),
    ({"F": numpy.array([1.0, 2.0, 4.0])}, "2F0", 4),
    ({"F": Fraction(1, 3)}, "0F0", Fraction(1, 3)),
])
def test_a_step_takes_what_its_kind_takes_in_its_stage(durations, step, expected):
    assert duration_of(durations, 3)(parse(step)) == expected


@pytest.mark.parametrize(("durations", "says"), [
    ({"F": 1, "X": 2, "b": 3}, "durations are by kind, F, B, I, W or F&B; 'X', 'b' is none"),
    ({"F": [1, 2]}, r"the duration of F is a number of at least 0, or one for each of the 3 stages; not \[1, 2\]"),
    ({"B": -1}, "the duration of B is a number of at least 0"),
    ({"B": [1, -1, 1]}, "the duration of B is a number of at least 0"),
    ({"W": float("nan")}, "the duration of W is a number of at least 0"),
    ({"F": None}, "the duration of F is a number of at least 0"),
    ({"F": float("inf")}, "the duration of F is a number of at least 0"),
    ({"F": "1.0"}, "the duration of F is a number of at least 0"),
])
def test_durations_that_cannot_be_meant_are_refused(durations, says):
    with pytest.raises(BadValue, match=says):
        duration_of(durations, 3)


@pytest.mark.parametrize(("step", "kind"), [("0B0", "B"), ("0W0", "W"), ("(0F1;2B0)OVERLAP_F_B", "B")])
def test_a_kind_without_a_duration_is_asked_for(step, kind):
    duration = duration_of({"F": 1, "I": 2}, 3)
    with pytest.raises(BadValue, match=f"the schedule has {kind} actions: give their duration, too; given are F, I"):
        duration(parse(step))
