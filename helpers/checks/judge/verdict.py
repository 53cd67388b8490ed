"""Points for each property of an answer, and words for each mistake."""
from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from helpers.facts.errors import CourseError

NOT_WRITTEN = "is not written yet"        # of a function that is still the stub
CLOSE = 0.005                   # relative: three significant digits are enough
MOST_SHOWN = 80                 # characters of a learner's own value in a message

_noted: list = []               # verdicts, for a report


class CheckFailed(CourseError, AssertionError):
    """Nothing of the answer is right yet; says why."""


@dataclass(frozen=True)
class Verdict:
    """One property: what it is worth, and what is wrong with it; None if it is right."""

    points: float
    what: str
    wrong: str | None = None


@contextlib.contextmanager
def noted() -> Iterator[list[Verdict]]:
    """Inside the block, verdicts of all checks are noted, for a report; they are in the list that it gives."""
    global _noted
    before, _noted = _noted, []
    try:
        yield _noted
    finally:
        _noted = before


def score(verdicts: list[Verdict], established: str) -> float:
    """Print a line for each property and return the points; raise `CheckFailed` when there are none.

    The last expression of a graded cell must be a plain float: nbgrader gives full
    marks for anything that it cannot read as a number.
    """
    _noted.extend(verdicts)
    right = [v for v in verdicts if v.wrong is None]
    got, most = (math.fsum(v.points for v in some) for some in (right, verdicts))
    lines = [f"ok     {v.what}" if v.wrong is None else f"WRONG  {v.what}: {v.wrong}" for v in verdicts]
    if not got:
        alike = len({v.wrong for v in verdicts}) == 1
        raise CheckFailed(verdicts[0].wrong if alike else "\n".join(["nothing is right yet", *lines]))
    print("\n".join([*lines, f"{got:g} of {most:g} points. {established if got == most else ''}".rstrip()]))
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


def first_wrong(wrongs: Iterable[str | None]) -> str | None:
    """The first words that are not None; None if nothing is wrong."""
    return next((wrong for wrong in wrongs if wrong is not None), None)


def number_verdict(points: float, what: str, value: object, right: float, mistakes: dict[str, float]) -> Verdict:
    """Whether a number is right; if not, which of the known mistakes gives it.

    `mistakes` has the words for each mistake and the number that it leads to.
    """
    value = plain(value)
    if value is None or value is ...:
        return Verdict(points, what, "nothing here yet")
    if not is_number(value):
        return Verdict(points, what, f"a number is asked for, not {shown(value)}")
    if math.isclose(value, right, rel_tol=CLOSE):
        return Verdict(points, what)
    named = [words for words, wrong in mistakes.items() if math.isclose(value, wrong, rel_tol=CLOSE)]
    direction = "too much" if value > right else "too little"
    given = f"{value:,.0f}" if 1e4 <= abs(value) < 1e15 else f"{float(value):.4g}"
    return Verdict(points, what, f"{given} {named[0] if named else f'is {direction}'}")


def same_verdict(what: str, value: object, right: str | int, hint: str) -> Verdict:
    """One point for exactly this word or number."""
    value = plain(value)
    if value is None or value is ...:
        return Verdict(1, what, "nothing here yet")
    comparable = type(value) is str if type(right) is str else is_number(value)
    return Verdict(1, what, None if comparable and value == right else f"not {shown(value)}: {hint}")


def is_number(value: object) -> bool:
    """A finite int or float of a size that things have; bool is none.

    By exact type, since an object of the learner's own could claim to equal anything.
    """
    return type(value) in (int, float) and -1e30 < value < 1e30


def plain(value: object) -> object:
    """A single number of numpy or torch, a Fraction or a Decimal, as Python's own; all else as it is."""
    try:
        if type(value) in (Fraction, Decimal):
            return float(value)
        if type(value).__module__.split(".")[0] not in ("numpy", "torch"):
            return value
        single = value.item()
        return single if type(single) in (int, float, bool, str) else float(single)
    except Exception:                   # several numbers, none, too large a one, or a type of an odd kind
        return value


def shown(value: object) -> str:
    """A value as a message can show it: short, with its type, and whatever its own `__repr__` does."""
    try:
        text = repr(value)
    except Exception:                   # more digits than Python prints, or a __repr__ that raises
        text = "something"
    text = text if len(text) <= MOST_SHOWN else text[:MOST_SHOWN] + "..."
    return f"{text} of type {type(value).__name__}"
