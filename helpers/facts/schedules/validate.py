"""Why an order is illegal: what is missing, doubled or too early, who waits for whom, where memory runs out.

    validate(schedule, cap=4)       silent, or raises IllegalSchedule with the reason and the grid
"""
from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import chain

from helpers.facts.errors import BadValue
from helpers.facts.schedules.in_flight import held
from helpers.facts.schedules.schedule import KINDS, Action, Pair, Schedule, dependencies
from helpers.facts.schedules.start_order import stuck
from helpers.facts.schedules.text import readable_grid, short


class IllegalSchedule(BadValue):
    """An order cannot be played; the message says why and shows the grid."""


def validate(schedule: Schedule, cap: int | None = None) -> None:
    """Raises `IllegalSchedule` (a `BadValue`) with the first reason found; returns None if the order can be played.

    cap     the most microbatches that a rank may hold at once; None: any number
    """
    for reason, marked in chain(_numbers(schedule), _pairs(schedule), _counts(schedule), _homes(schedule),
                                _early(schedule), _circles(schedule), _over(schedule, cap)):
        # each may rely on those before
        raise IllegalSchedule(f"{schedule.name}: {reason}{readable_grid(schedule, marked)}")


Fault = tuple[str, tuple[int, int] | None]      # reason, and (rank, number of the step) to mark


def _numbers(schedule: Schedule) -> Iterator[Fault]:
    """Actions that the pipeline does not have."""
    for place, action in _places(schedule):
        for name, value, count in (("stage", action.stage, schedule.num_stages),
                                   ("microbatch", action.microbatch, schedule.num_microbatches)):
            if not 0 <= value < count:
                yield (f"{short(action, True)} on rank {place[0]}: there is no {name} {value}, only 0 to {count - 1}",
                       place)
        if action.kind not in KINDS:
            yield f"{action.kind!r} on rank {place[0]} is no kind of action: F, B, I or W", place


def _pairs(schedule: Schedule) -> Iterator[Fault]:
    """Pairs of anything but a forward and a backward."""
    for rank, steps in enumerate(schedule.steps):
        for number, step in enumerate(steps):
            if isinstance(step, Pair) and (step.forward.kind != "F" or step.backward.kind not in "BI"):
                yield f"rank {rank} has {_named(step)} in one pair: that is a forward and then a B or I", (rank, number)


def _counts(schedule: Schedule) -> Iterator[Fault]:
    """For each stage and microbatch there are one F, and either one B or one I and one W."""
    counts = Counter(action for _, action in _places(schedule))
    for place, action in _places(schedule):
        if counts[action] > 1:
            yield f"{_named(action)} stands there {counts[action]} times", place
    for stage in range(schedule.num_stages):
        for microbatch in range(schedule.num_microbatches):
            f, b, i, w = (Action(kind, stage, microbatch) in counts for kind in KINDS)
            of = f"of microbatch {microbatch} in stage {stage}"
            if not f:
                yield f"the forward {of} is missing", None
            elif b and (i or w):
                yield f"the backward {of} is there twice: as B, and as {'I' if i else 'W'}", None
            elif not b and not (i and w):
                missing = "I" if w else "W" if i else "backward"
                yield f"the {missing} {of} is missing", None


def _homes(schedule: Schedule) -> Iterator[Fault]:
    """Backward needs what forward kept, so it is on the same rank."""
    for place, action in _places(schedule):
        home = schedule.rank_of[Action("F", *action[1:])]
        if home != place[0]:
            yield (f"{_named(action)} is on rank {place[0]}, but its forward, which keeps what it needs, is on rank "
                   f"{home}"), place


def _early(schedule: Schedule) -> Iterator[Fault]:
    """What stands before something of the same rank that it needs."""
    number = {action: place for place, action in _places(schedule)}
    for place, action in _places(schedule):
        for needed in dependencies(action, schedule):
            if needed in number and number[needed][0] == place[0] and number[needed] >= place:
                where = "in one pair with" if number[needed] == place else "before"
                yield f"rank {place[0]} has {_named(action)} {where} {_named(needed)}, which it needs", place


def _circles(schedule: Schedule) -> Iterator[Fault]:
    stops = stuck(schedule)
    if stops:
        waits = [f"rank {rank} cannot start {_named(step)} before {' and '.join(map(_named, missing))}"
                 for rank, (step, missing) in stops.items()]
        rank, (step, _) = next(iter(stops.items()))
        yield "it never ends. " + "; ".join(waits), (rank, schedule.steps[rank].index(step))


def _over(schedule: Schedule, cap: int | None) -> Iterator[Fault]:
    for rank, steps in enumerate(schedule.steps if cap is not None else ()):
        for number, (count, step) in enumerate(zip(held(steps), steps, strict=True)):
            if count > cap:
                yield (f"rank {rank} would hold {count} microbatches at {_named(step)}, and has memory for {cap}: "
                       "one must be finished first"), (rank, number)


def _places(schedule: Schedule) -> Iterator[tuple[tuple[int, int], Action]]:
    for rank, steps in enumerate(schedule.steps):
        for number, step in enumerate(steps):
            for action in step.parts:
                yield (rank, number), action


def _named(step: Action | Pair) -> str:
    if isinstance(step, Pair):
        return " with ".join(map(_named, step.parts))
    return f"{short(step)} of stage {step.stage}"
