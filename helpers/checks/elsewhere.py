"""Run a learner's function in another process, which it can break without harm.

An endless loop, an `os._exit` or a crash ends that process only.  Exercises ask
for what `helpers.predict` and `helpers.compare` compute, so over there they
cannot be imported.
"""
from __future__ import annotations

import copy
import pickle
import sys
from dataclasses import dataclass

from helpers.checks.verdict import MOST_SHOWN, CheckFailed, plain, shown
from helpers.run import parcel
from helpers.run.launch import RankFailed, RankHung, launch

SIMPLE = (type(None), bool, int, float, str)
FORBIDDEN = ("helpers.predict", "helpers.compare")
DEADLINE_S = 20.0               # of all cases together; they take milliseconds


@dataclass(frozen=True)
class Raised:
    """Instead of a value: what the function raised, or returned that is no plain value."""

    words: str


def answers(function: object, cases: list[dict]) -> list[object]:
    """What `function(**case)` gives for each case: a plain value or `Raised`."""
    if not callable(function):
        raise CheckFailed(f"a function is asked for, not {shown(function)}")
    try:
        sent = parcel.pack(function)
    except Exception as error:
        raise CheckFailed(f"the function cannot be sent to another process: {shown(error)}") from None
    try:
        return launch(_answer, 1, sent, cases, timeout_s=DEADLINE_S).results[0]
    except RankHung:
        raise CheckFailed(f"the function was not done after {DEADLINE_S:g} s: does a loop in it never end?") from None
    except RankFailed as failure:
        raise CheckFailed(f"the function ended its process: {failure}") from None


def _answer(rank: int, world_size: int, sent: bytes, cases: list[dict]) -> list[object]:
    for name in FORBIDDEN:
        sys.modules[name] = None                        # from now on, importing it raises
    try:
        function = pickle.loads(sent)
    except ModuleNotFoundError as error:
        return [Raised(_words(error))] * len(cases)
    return [_try(function, copy.deepcopy(case)) for case in cases]


def _try(function, case: dict) -> object:
    try:
        value = plain(function(**case))
    except (Exception, SystemExit) as error:
        return Raised(_words(error))
    if type(value) not in SIMPLE:
        return Raised(f"returned a {type(value).__name__}; a number is asked for")
    return Raised("returned None: is there a return?") if value is None else value


def _words(error: BaseException) -> str:
    if isinstance(error, NotImplementedError):
        return "is not written yet"
    if isinstance(error, ModuleNotFoundError) and (used := [name for name in FORBIDDEN if name in str(error)]):
        return f"uses {used[0]}, which this exercise asks you to do without"
    return f"raised {type(error).__name__}: {str(error)[:2 * MOST_SHOWN]}"
