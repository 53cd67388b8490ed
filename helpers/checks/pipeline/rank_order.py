"""Checks of exercise set 09: the order of 1F1B, asked for one rank at a time.

Orders are played on a clock with F of 1 unit and B of 2.  Any is right that takes 3 (m + p - 1) units and holds at most
p - r microbatches on rank r.  Less time is impossible: the last rank works 3 m units, after p - 1 forwards of the
others and before p - 1 of their backwards.
"""
from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from helpers.checks.judge.other_process import Raised
from helpers.checks.judge.verdict import Verdict, first_wrong, score, unseen
from helpers.checks.pipeline.order_words import as_schedule, length, longest_chain, with_grid
from helpers.checks.pipeline.orders import Steps, orders
from helpers.facts.schedules import Action, Schedule, dependencies, parse, validate
from helpers.facts.schedules.durations import UNIT_DURATIONS
from helpers.facts.schedules.in_flight import held
from helpers.facts.schedules.text import short
from helpers.facts.schedules.validate import IllegalSchedule
from helpers.predict.pipeline import simulate


@dataclass(frozen=True)
class OrderCase:
    """What `order` is called with, besides the rank."""

    num_ranks: int
    num_microbatches: int

    def __str__(self) -> str:
        return (f"{self.num_ranks} rank{'s' * (self.num_ranks > 1)}, "
                f"{self.num_microbatches} microbatch{'es' * (self.num_microbatches > 1)}")


ENOUGH = OrderCase(2, 3), OrderCase(3, 3), OrderCase(4, 8)
FEW = OrderCase(2, 1), OrderCase(4, 2)
_draw = random.Random(9)
OTHERS = (OrderCase(1, 1), OrderCase(1, 4), OrderCase(4, 4), OrderCase(6, 1), OrderCase(5, 4),
          *(OrderCase(_draw.randint(2, 9), _draw.randint(1, 24)) for _ in range(6)))


def check_order(function: object) -> float:
    """4 points: orders that can be played, their length, what they hold; and all of it with few microbatches."""
    given = orders(function, ENOUGH + FEW, by_rank=True)
    illegal = first_wrong(_illegal(case, given[case]) for case in ENOUGH)
    later = illegal and "judged once all orders can be played"
    played = {} if illegal else {case: as_schedule(case, given[case]) for case in ENOUGH}
    return score([
        Verdict(1, "every order can be played", illegal),
        Verdict(1, "as fast as 1F1B", later or first_wrong(map(_slow, played, played.values()))),
        Verdict(1, "at most p - r microbatches held on rank r",
                later or first_wrong(map(_full, played, played.values()))),
        Verdict(1, "with fewer microbatches than ranks", first_wrong(_wrong(case, given[case]) for case in FEW))],
        "1F1B: GPipe's time, and the memory of p - r microbatches.")


@unseen
def check_order_unseen(function: object) -> float:
    """1 point: other sizes."""
    given = orders(function, OTHERS, by_rank=True)
    return score([Verdict(1, "other ranks and microbatches", first_wrong(map(_wrong, given, given.values())))],
                 "It holds for any size.")


def _wrong(case: OrderCase, steps: list[Steps] | Raised) -> str | None:
    if illegal := _illegal(case, steps):
        return illegal
    schedule = as_schedule(case, steps)
    return _slow(case, schedule) or _full(case, schedule)


def _illegal(case: OrderCase, steps: list[Steps] | Raised) -> str | None:
    if isinstance(steps, Raised):
        return f"{case}: {steps.words}"
    try:
        validate(as_schedule(case, steps))
    except IllegalSchedule as error:
        return str(error)
    return None


def _slow(case: OrderCase, schedule: Schedule) -> str | None:
    least = 3 * (case.num_microbatches + case.num_ranks - 1)
    if (now := length(schedule)) == least:
        return None
    why = next(_could(case, schedule), None) or longest_chain(schedule)
    return with_grid(schedule, f"{case}: the step takes {now} units, and 1F1B's {least}: {why}", in_units=True)


def _full(case: OrderCase, schedule: Schedule) -> str | None:
    is_gpipe = all(step.kind == "F" for steps in schedule.steps for step in steps[:case.num_microbatches])
    why = "a B must come first" + ". GPipe takes no longer, but holds all microbatches" * is_gpipe
    for rank, steps in enumerate(schedule.steps):
        allowed = case.num_ranks - rank
        for number, (count, step) in enumerate(zip(held(steps), steps, strict=True)):
            if count > allowed:
                return with_grid(schedule, f"{case}: rank {rank} holds {count} microbatches at {short(step)}, and "
                                           f"{allowed} {'are' if allowed > 1 else 'is'} enough: {why}", (rank, number))
    return None


def _could(case: OrderCase, schedule: Schedule) -> Iterator[str]:
    """Steps that a rank could do, with no more memory than 1F1B's, while it waits for others."""
    ended = {parse(span.label): span.end for span in simulate(schedule, UNIT_DURATIONS)}
    for rank, steps in enumerate(schedule.steps):
        free = 0.0
        for place, step in enumerate(steps):
            start = ended[step] - UNIT_DURATIONS[step.kind]
            room = case.num_ranks - rank - sum({"F": 1, "B": -1}[done.kind] for done in steps[:place])
            for later in steps[place + 1:]:
                if start > free and (later.kind == "B" or room > 0) and _ready(later, schedule, ended, free) < start:
                    yield f"rank {rank} waits before its {short(step)}, and could do {short(later)} meanwhile"
            free = ended[step]


def _ready(step: Action, schedule: Schedule, ended: dict[Action, float], free: float) -> float:
    """When a step could begin on a rank that is free."""
    return max([free, *(ended[needed] for needed in dependencies(step, schedule))])
