"""What each rank holds for backwards that are still to come.

A forward takes a place for its stage and microbatch; its B gives it back.  Where backward is split, I gives back a part
and W the rest: `waiting` is what stays between them.

    held(steps)                                   in microbatches: 1 for each, up to its B or W
    held(steps, kept=[256, 384], waiting=...)     in bytes, by stage

On a rank with v stages, one microbatch in one stage is 1/v of what a whole share of the model would keep.
"""
from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import accumulate

from helpers.facts.schedules.schedule import Action, Schedule, Step, parse
from helpers.facts.trace import Trace


def held(steps: Sequence[Step], kept: Sequence[float] | None = None,
         waiting: Sequence[float] | None = None) -> list[float]:
    """The most that a rank holds during each of its steps: a pair's forward is there before its backward has gone.

    steps      of one rank, in order
    kept       what a forward keeps, in bytes by stage; 1 microbatch for all if None
    waiting    what of it stays until W after I, by stage; all of it if None
    """
    def change(action: Action) -> float:
        whole = kept[action.stage] if kept else 1
        return _change(action, whole, waiting[action.stage] if waiting else whole)

    changes = [[change(action) for action in step.parts] for step in steps]
    before = accumulate(map(sum, changes), initial=0)
    return [now + max(accumulate(parts, initial=0)) for now, parts in zip(before, changes, strict=False)]


def most_held(schedule: Schedule) -> list[int]:
    """The most microbatches that each rank holds at once, by rank; one in one of v stages of a rank counts as one."""
    return [max(held(steps), default=0) for steps in schedule.steps]


def held_over_time(trace: Trace) -> dict[int, list[tuple[float, int]]]:
    """For each rank, (time, microbatches it holds from then on): F counts from its start, B and W to their end.

    Times are those of the trace, whose labels are actions, as `simulate` writes them.
    """
    changes: dict[int, list[tuple[float, int]]] = defaultdict(list)
    for span in trace:
        for action in parse(span.label).parts:
            if change := _change(action, 1, 1):
                changes[span.rank].append((span.start if action.kind == "F" else span.end, change))
    curves = {}
    for rank in sorted(changes):
        ordered = sorted(changes[rank])          # at one moment, what ends comes before what starts
        curves[rank] = list(zip((t for t, _ in ordered), accumulate(c for _, c in ordered), strict=True))
    return curves


def _change(action: Action, whole: float, rest: float) -> float:
    """Of what is held: a forward keeps `whole`, and `rest` of it stays from I to W."""
    return {"F": whole, "B": -whole, "I": rest - whole, "W": -rest}[action.kind]
