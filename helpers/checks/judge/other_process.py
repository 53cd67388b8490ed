"""Run a learner's function in another process, which it can break without harm.

An endless loop, an `os._exit` or a crash ends that process only.  Exercises ask
for what `helpers.predict` and `helpers.compare` compute, so over there they
cannot be imported.
"""
from __future__ import annotations

import copy
import functools
import pickle
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from helpers.checks.judge.captured import without_annotations
from helpers.checks.judge.verdict import MOST_SHOWN, CheckFailed, plain, shown
from helpers.facts.errors import CourseError
from helpers.run.launch import launch, pickling
from helpers.run.launch.launcher import RankFailed, RankHung

SIMPLE = (type(None), bool, int, float, str)
FORBIDDEN = ("helpers.predict", "helpers.compare")
DEADLINE_S = 20.0               # of all cases together; they take milliseconds
LONGEST_OWN = 1000              # characters of an error of the course, which has lines for several ranks


@dataclass(frozen=True)
class Raised:
    """Instead of a value: what the function raised, or returned that is no plain value."""

    words: str


def answers(function: object, cases: list[dict], asked: str = "a number",
            forbidden: tuple[str, ...] = FORBIDDEN) -> list[object]:
    """What `function(**case)` gives for each case: a plain value or `Raised`; `asked` says what it should be."""
    return elsewhere(functools.partial(_try, asked), function, cases, forbidden)


def elsewhere(job: Callable[[Callable, dict], Any], function: object, cases: list[dict], forbidden: tuple[str, ...],
              ) -> list[Any]:
    """`job(function, case)` for each case, in another process that cannot import what is forbidden."""
    try:
        return launch(_over_there, 1, job, packed(function), cases, forbidden, timeout_s=DEADLINE_S).results[0]
    except RankHung:
        raise CheckFailed(f"the function was not done after {DEADLINE_S:g} s: does a loop in it never end, or does it "
                          "try too many cases?") from None
    except RankFailed as failure:
        raise CheckFailed(f"the function ended its process: {failure}") from None


def packed(function: object) -> bytes:
    """The function, to be sent to another process; raises `CheckFailed` if it is none, or cannot be sent."""
    if not callable(function):
        raise CheckFailed(f"a function is asked for, not {shown(function)}")
    try:
        with without_annotations(function):
            return pickling.pack(function)
    except Exception as error:
        raise CheckFailed(f"the function cannot be sent to another process: {shown(error)}") from None


def forbid(modules: tuple[str, ...]) -> None:
    """From now on, importing them or what is in them raises in this process, also where it is loaded already."""
    for name in modules:
        for each in [name, *(other for other in sys.modules if other.startswith(f"{name}."))]:
            sys.modules[each] = None
            package, _, module = each.rpartition(".")
            if sys.modules.get(package):
                vars(sys.modules[package]).pop(module, None)        # `from package import module` looks here first


def _over_there(rank: int, world_size: int, job: Callable, sent: bytes, cases: list[dict],
                forbidden: tuple[str, ...]) -> list[Any]:
    forbid(forbidden)
    try:
        function = pickle.loads(sent)
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
    if isinstance(error, NotImplementedError):
        return "is not written yet"
    if isinstance(error, ModuleNotFoundError) and (used := _forbidden_in(str(error))):
        return f"uses {used}, which this exercise asks you to do without"
    longest = LONGEST_OWN if isinstance(error, CourseError) else 2 * MOST_SHOWN
    return f"raised {type(error).__name__}: {str(error)[:longest]}".removesuffix(": ")


def _forbidden_in(words: str) -> str | None:
    """The module that an import error is about, if it is one that was forbidden."""
    return next((name for name in re.findall(r"helpers[\w.]*\w", words) if sys.modules.get(name, 0) is None), None)
