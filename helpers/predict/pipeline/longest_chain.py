"""The chain of steps that makes a trace as long as it is: each starts the moment that the one before lets it.

To shorten a schedule, shorten a step of this chain; all others have time to spare.
"""
from __future__ import annotations

import math

from helpers.facts.schedules import Schedule, dependencies, parse
from helpers.facts.schedules.schedule import Action
from helpers.facts.trace import Span, Trace


def critical_path(schedule: Schedule, trace: Trace, *, send_s: float = 0.0) -> Trace:
    """From a span that nothing holds up to the one that ends last; `trace` is what `simulate` made with this `send_s`.

    Where several steps let one start, the chain takes one that came over the network, then that of the rank itself.
    """
    before: dict[int, Span] = {}
    previous: dict[Span, Span | None] = {}
    done: dict[Action, Span] = {}
    for span in trace:
        step = parse(span.label)
        needed = [done[d] for action in step.parts for d in dependencies(action, schedule)]
        held_up = [s for s in needed if s.rank != span.rank and math.isclose(s.end + send_s, span.start)]
        own = before.get(span.rank)
        if own and math.isclose(own.end, span.start):
            held_up.append(own)
        previous[span] = held_up[0] if held_up else None
        before[span.rank] = span
        done.update(dict.fromkeys(step.parts, span))
    chain: list[Span] = []
    span: Span | None = max(trace, key=lambda s: s.end, default=None)
    while span:
        chain.append(span)
        span = previous[span]
    return chain[::-1]
