"""Play a schedule on a clock: no tensors, no processes.

    trace = simulate(one_f_one_b(4, 8), {"F": 1, "B": 2})
    trace = simulate(zb_h1(4, 8), {"F": 1, "I": 1, "W": 1}, send_s=0.1)

A rank does its steps in order.  Each starts as soon as the rank is free and all that it needs has ended, plus
`send_s` if that ended on another rank; the rank itself does not wait while it sends.
Times are seconds, or any unit.  The label of a span is its action, as in 2F5.
"""
from __future__ import annotations

import math

from helpers.facts.errors import BadValue
from helpers.facts.schedules import Schedule, validate
from helpers.facts.schedules.durations import Durations, duration_of
from helpers.facts.schedules.schedule import Action
from helpers.facts.schedules.start_order import playable
from helpers.facts.trace import Span, Trace


def simulate(schedule: Schedule, durations: Durations, *, send_s: float = 0.0) -> Trace:
    """The trace of a schedule; spans come in an order in which each follows all that it needs.

    durations   of each kind of step, {"F": 1, "B": 2}, for all stages, or a list of such for each
    send_s      from the end of a step to what needs it on another rank
    Raises `BadValue` (`IllegalSchedule`) with the reason if the order can never end.
    """
    if not 0 <= send_s < math.inf:
        raise BadValue(f"send_s is a number of at least 0, not {send_s}")
    duration, rank_of = duration_of(durations, schedule.num_stages), schedule.rank_of
    free = [0.0] * schedule.num_ranks
    ended: dict[Action, float] = {}
    trace: Trace = []
    for rank, step, needed in playable(schedule):
        start = free[rank]
        for action in needed:
            arrived = ended[action] + (send_s if rank_of[action] != rank else 0.0)
            if arrived > start:
                start = arrived
        free[rank] = end = start + duration(step)
        for action in step.parts:
            ended[action] = end
        trace.append(Span(rank, step.kind, start, end, str(step)))
    if len(trace) < sum(map(len, schedule.steps)):
        validate(schedule)                              # it never ends: say why
    return trace
