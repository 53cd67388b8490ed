"""Play an order: which step comes when, and whether the order ever ends.

A rank does its steps in order.  A step starts when the rank is free and all that its actions need has ended.
"""
from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from helpers.facts.schedules.schedule import Action, Schedule, Step, dependencies


def playable(schedule: Schedule) -> Iterator[tuple[int, Step, list[Action]]]:
    """Rank, step, and what the step needs, for all steps that can ever start, each after all that it needs.

    A step that needs what its own pair computes can never start.
    """
    ended: set[Action] = set()
    waiting: dict[Action, list] = defaultdict(list)         # ranks that wait for an action, each with its step
    todo = [_with_needs(steps, schedule) for steps in schedule.steps]
    ready = [(rank, next(steps, None)) for rank, steps in enumerate(todo)]
    while ready:
        rank, upcoming = ready.pop()
        while upcoming:
            step, needed = upcoming
            if (missing := next((action for action in needed if action not in ended), None)) is not None:
                waiting[missing].append((rank, upcoming))
                break
            yield rank, step, needed
            for action in step.parts:
                ended.add(action)
                ready += waiting.pop(action, ())
            upcoming = next(todo[rank], None)


def _with_needs(steps: tuple[Step, ...], schedule: Schedule) -> Iterator[tuple[Step, list[Action]]]:
    for step in steps:
        yield step, [needed for action in step.parts for needed in dependencies(action, schedule)]


def stuck(schedule: Schedule) -> dict[int, tuple[Step, list[Action]]]:
    """The ranks that never come to their end: {rank: (step it stops at, what that needs and never gets)}."""
    num_played, ended = [0] * schedule.num_ranks, set()
    for rank, step, _ in playable(schedule):
        num_played[rank] += 1
        ended.update(step.parts)
    stops = {rank: steps[num_played[rank]] for rank, steps in enumerate(schedule.steps)
             if num_played[rank] < len(steps)}
    return {rank: (step, [d for a in step.parts for d in dependencies(a, schedule) if d not in ended])
            for rank, step in stops.items()}


def slots(schedule: Schedule) -> list[list[tuple[int, Step]]]:
    """For each rank, (slot, step) of each of its steps, if each takes one slot; without those that never start."""
    ended: dict[Action, int] = {}
    placed: list[list[tuple[int, Step]]] = [[] for _ in schedule.steps]
    for rank, step, needed in playable(schedule):
        free = placed[rank][-1][0] + 1 if placed[rank] else 0
        slot = max([free, *(ended[d] for d in needed)])
        placed[rank].append((slot, step))
        ended.update(dict.fromkeys(step.parts, slot + 1))
    return placed
