"""When was each layer's backward, and when was each all_reduce on its way?

torch.profiler sees what the recorder cannot: collectives that C++ starts, such
as those of PyTorch's DDP, and when gloo's own threads are done with them.
"""
from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from contextlib import contextmanager

from torch.autograd.profiler_util import FunctionEvent
from torch.profiler import ProfilerActivity, profile, record_function

from helpers.facts.trace import Span, Trace
from helpers.run.models.small import BACKWARD_OF

NODE = "autograd::engine::evaluate_function"
ALL_REDUCE = "gloo:all_reduce"
ORIGIN = "origin of the timeline"
REST_S = 0.05                   # backward has its sums a moment before gloo's threads close their spans, and a
                                # profiler that stops in between crashes the process (torch 2.13)


@contextmanager
def timeline(rank: int) -> Iterator[Trace]:
    """Profile a block; afterwards the list holds spans of kind "B" (a `Padded` layer's backward) and "all_reduce".

    A layer's span ends where autograd leaves it, so copying gradients into a bucket is part of it.
    all_reduces are numbered in the order in which they began.
    """
    trace: Trace = []
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        with record_function(ORIGIN):
            origin_s = time.perf_counter()
        yield trace
        time.sleep(REST_S)
    events = sorted(profiler.events(), key=lambda event: event.time_range.start)
    began_us = next(event.time_range.start for event in events if event.name == ORIGIN)
    for kind, label, start_us, end_us in (*_backwards(events), *_all_reduces(events)):
        trace.append(Span(rank, kind, *(origin_s + (us - began_us) / 1e6 for us in (start_us, end_us)), label))


def _all_reduces(events: list[FunctionEvent]) -> Iterator[tuple[str, str, float, float]]:
    found = [event.time_range for event in events if event.name == ALL_REDUCE]
    return (("all_reduce", str(number), when.start, when.end) for number, when in enumerate(found))


def _backwards(events: list[FunctionEvent]) -> Iterator[tuple[str, str, float, float]]:
    """From the start of a layer's padding to the end of autograd's last work before the next layer's."""
    starts = [event for event in events if event.name.startswith(BACKWARD_OF)]
    worked_until = [event.time_range.end for event in events if event.name.startswith(NODE)]
    for event, following in itertools.pairwise([*starts, None]):
        before = following.time_range.start if following else float("inf")
        end = max([event.time_range.end, *(end for end in worked_until if end < before)])
        yield "B", event.name.removeprefix(BACKWARD_OF), event.time_range.start, end
