"""Points for each property of an answer, and words for each mistake."""
from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

from helpers.facts.errors import CourseError

CLOSE = 0.005                   # relative: three significant digits are enough


class CheckFailed(CourseError, AssertionError):
    """Nothing of the answer is right yet; says why."""


@dataclass(frozen=True)
class Verdict:
    """One property: what it is worth, and what is wrong with it, if anything."""

    points: float
    what: str
    wrong: str = ""


def score(verdicts: list[Verdict], established: str) -> float:
    """Print a line for each property and return the points; raise `CheckFailed` when there are none.

    The last expression of a graded cell must be a plain float: nbgrader gives full
    marks for anything that it cannot read as a number.
    """
    lines = [f"WRONG  {v.what}: {v.wrong}" if v.wrong else f"ok     {v.what}" for v in verdicts]
    got, most = (math.fsum(v.points for v in verdicts if keep(v)) for keep in (lambda v: not v.wrong, lambda v: True))
    if not got:
        raise CheckFailed("\n".join(["nothing is right yet", *lines]))
    print("\n".join([*lines, f"{got:g} of {most:g} points. " + (established if got == most else "")]).rstrip())
    return float(got)


def unseen(check: Callable[..., float]) -> Callable[..., float]:
    """For the grader's own cases: print what is wrong and give 0, so that points given before still count."""
    @functools.wraps(check)
    def softly(*answer) -> float:
        try:
            return check(*answer)
        except CheckFailed as failure:
            print(f"unseen cases: {failure}")
            return 0.0

    return softly


def number_verdict(points: float, what: str, value: object, right: float, mistakes: dict[str, float]) -> Verdict:
    """Whether a number is right; if not, which of the known mistakes gives it.

    `mistakes` has the words for each mistake and the number that it leads to.
    """
    value = plain(value)
    if value is None or value is ...:
        return Verdict(points, what, "nothing here yet")
    if not is_number(value):
        return Verdict(points, what, f"a number is asked for, not {str(value)[:60]!r} of type {type(value).__name__}")
    if math.isclose(value, right, rel_tol=CLOSE):
        return Verdict(points, what)
    named = [words for words, wrong in mistakes.items() if math.isclose(value, wrong, rel_tol=CLOSE)]
    direction = "too much" if value > right else "too little"
    return Verdict(points, what, f"{float(value):.4g} {named[0] if named else f'is {direction}'}")


def is_number(value: object) -> bool:
    """A finite int or float; bool is none.

    By exact type, since an object of the learner's own could claim to equal anything.
    """
    return type(value) in (int, float) and math.isfinite(value)


def plain(value: object) -> object:
    """A single number of numpy or torch as Python's own; all else as it is."""
    if type(value).__module__.split(".")[0] not in ("numpy", "torch"):
        return value
    count = value.numel() if hasattr(value, "numel") else getattr(value, "size", 0)
    return value.item() if count == 1 else value
