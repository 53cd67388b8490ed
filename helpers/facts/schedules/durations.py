"""How long a step takes: seconds, or any unit, by kind of action, for all stages alike or for each.

    {"F": 1.0, "B": 2.0}                     every stage
    {"F": [1.0, 1.0, 1.5], "B": 2.0}         stage 2 has a slower forward

A missing B is I + W, and a missing "F&B" is F + B, that of its stages: an overlap that saves nothing.
"""
from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Real

from helpers.facts.errors import BadValue
from helpers.facts.schedules.schedule import KINDS, PAIR, Pair, Step

Durations = Mapping[str, float | Sequence[float]]
UNIT_DURATIONS = {"F": 1.0, "I": 1.0, "W": 1.0, "B": 2.0}       # what papers draw: F = I = W, and B is two of them


def duration_of(durations: Durations, num_stages: int) -> Callable[[Step], float]:
    """The function that gives the duration of a step, in the unit of `durations`.

    durations     {kind: number, or one for each stage}, as above: kinds are F, B, I, W and F&B
    Raises `BadValue` for a kind that there is not, a negative or infinite duration, and a list that is not one for each
    stage; the function it returns raises `BadValue` for a step whose duration is not given.
    """
    if odd := set(durations) - {*KINDS, PAIR}:
        raise BadValue(f"durations are by kind, F, B, I, W or F&B; {', '.join(map(repr, sorted(odd)))} is none")
    tables = {kind: _of_stages(kind, given, num_stages) for kind, given in durations.items()}
    if "B" not in tables and {"I", "W"} <= tables.keys():
        tables["B"] = [i + w for i, w in zip(tables["I"], tables["W"], strict=True)]

    def duration(step: Step) -> float:
        if step.kind in tables:
            return tables[step.kind][step.stage]
        if isinstance(step, Pair):
            return sum(map(duration, step.parts))
        raise BadValue(f"the schedule has {step.kind} actions: give their duration, too; given are {', '.join(tables)}")

    return duration


def _of_stages(kind: str, given: float | Sequence[float], num_stages: int) -> list[float]:
    times = list(given) if isinstance(given, Iterable) else [given] * num_stages
    if len(times) != num_stages or not all(isinstance(t, Real) and 0 <= t < math.inf for t in times):
        raise BadValue(f"the duration of {kind} is a number of at least 0, or one for each of the {num_stages} stages; "
                       f"not {given!r}")
    return times
