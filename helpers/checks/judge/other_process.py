"""Run a learner's function in another process, which it can break without harm.

An endless loop, an `os._exit` or a crash ends that process only.  What the exercise forbids cannot be imported there.
"""
from __future__ import annotations

import copy
import functools
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from helpers.checks.judge.captured import without_annotations
from helpers.checks.judge.forbidden import FORMULAS, forbidden_import, forbidding
from helpers.checks.judge.sent import Sent
from helpers.checks.judge.verdict import MOST_SHOWN, NOT_WRITTEN, CheckFailed, plain, shown
from helpers.facts.errors import CourseError
from helpers.run.launch import RankFailed, RankHung, launch, pickling
from helpers.run.launch.outcome import RaisedError
from helpers.run.launch.stack import is_own

SIMPLE = (type(None), bool, int, float, str)
DEADLINE_S = 20.0               # of all cases together; they take milliseconds
LONGEST_OWN = 1000              # characters of an error of the course, which has lines for several ranks


@dataclass(frozen=True)
class Raised:
    """Instead of a value: what the function raised, or returned that is no plain value."""

    words: str

    def told_of(self, case: str) -> str:
        """The words after what they are about; a stub is one in every case."""
        return self.words if self.words == NOT_WRITTEN else f"{case} {self.words}"


def answers(function: object, cases: list[dict], asked: str = "a number",
            forbidden: tuple[str, ...] = FORMULAS) -> list[object]:
    """What `function(**case)` gives for each case: a plain value or `Raised`; `asked` says what it should be."""
    return in_other_process(functools.partial(_try, asked), function, cases, forbidden)


def in_other_process(job: Callable[[Callable, dict], Any], function: object, cases: list[dict],
                     forbidden: tuple[str, ...]) -> list[Any]:
    """`job(function, case)` for each case, in another process that cannot import what is forbidden.

    `function` may be a tuple of several, which `job` gets as a tuple.
    """
    sent = tuple(map(pickled, function)) if type(function) is tuple else pickled(function)
    try:
        return launch(_on_one_rank, 1, job, sent, cases, forbidden, timeout_s=DEADLINE_S).results[0]
    except RankHung:
        raise CheckFailed(f"the function was not done after {DEADLINE_S:g} s: does a loop in it never end, or does it "
                          "try too many cases?") from None
    except RankFailed as failure:
        raise CheckFailed(f"the function ended its process: {failure}") from None


def pickled(function: object) -> bytes:
    """The function, to be sent to another process; raises `CheckFailed` if it is none, or cannot be sent."""
    if isinstance(function, Sent):
        if not function.is_callable:
            raise CheckFailed(f"a function is asked for, not {function!r}")
        return function.packed
    if not callable(function):
        raise CheckFailed(f"a function is asked for, not {shown(function)}")
    try:
        with without_annotations(function):
            return pickling.pickle_by_value(function)
    except Exception as error:
        raise CheckFailed(f"the function cannot be sent to another process: {shown(error)}") from None


def _on_one_rank(rank: int, world_size: int, job: Callable, sent: bytes | tuple[bytes, ...], cases: list[dict],
                 forbidden: tuple[str, ...]) -> list[Any]:
    with forbidding(forbidden):
        try:
            function = pickle.loads(sent) if isinstance(sent, bytes) else tuple(map(pickle.loads, sent))
        except ModuleNotFoundError as error:
            raised = Raised(words_for(error))
            return [raised] * len(cases)
        return [job(function, copy.deepcopy(case)) for case in cases]


def _try(asked: str, function: Callable, case: dict) -> object:
    try:
        value = plain(function(**case))
    except BaseException as error:              # also what would end this process
        return Raised(words_for(error))
    if type(value) not in SIMPLE:
        return Raised(f"returned a {type(value).__name__}; {asked} is asked for")
    return Raised("returned None: is there a return?") if value is None else value


def words_for(error: BaseException) -> str:
    """What a learner reads about an exception that has left his function, in the process where it did."""
    if words := about_stub_or_import(RaisedError.of(error)):
        return words
    longest = LONGEST_OWN if isinstance(error, CourseError) else 2 * MOST_SHOWN
    return f"raised {type(error).__name__}: {str(error)[:longest]}".removesuffix(": ")


def about_stub_or_import(error: RaisedError, forbidden: tuple[str, ...] | None = None) -> str | None:
    """Words about an error that is none: the function is a stub, or imports what the exercise forbids.

    torch and Python raise NotImplementedError for real errors, too; a stub's comes from the learner's own line.
    """
    if error.type == NotImplementedError.__name__ and error.frames and is_own(error.frames[-1]):
        return NOT_WRITTEN
    if used := forbidden_import(error, forbidden):
        return f"uses {used}, which this exercise asks you to do without"
    return None
