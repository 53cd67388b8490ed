"""How much of a pipeline's time is idle: four definitions that the literature calls "bubble".

    idle_s             seconds that each rank idles between the first start and the last end     DualPipe, DeepSeek-V3
    bubble_of_total    idle / all time                                                           GPipe, Chimera
    bubble_of_ideal    idle / time with work; may exceed 1                                       Megatron-LM, Llama 3
    bubble_rate        idle / all time of the longest of the ranks' own spans                    Zero Bubble

Ranks are those that have a span in the trace.
of total = of ideal / (1 + of ideal): 3/11 and 3/8 are one bubble.  Never compare figures of two definitions.

Sources: arXiv:1811.06965; arXiv:2104.04473, section 2.2; arXiv:2401.10241, section 5.4; README of deepseek-ai/DualPipe.
"""
from __future__ import annotations

from collections import defaultdict

from helpers.facts.errors import BadValue
from helpers.facts.trace import Span, Trace, duration_s


def busy_s(trace: Trace) -> list[float]:
    """Seconds with work of each rank that has a span in the trace, in the order of ranks."""
    return [sum(span.duration_s for span in spans) for spans in _by_rank(trace)]


def idle_s(trace: Trace) -> list[float]:
    """Seconds without work of each rank that has a span, between the first start and the last end of any rank.

    Source: the README of deepseek-ai/DualPipe gives bubbles so.
    """
    busy = busy_s(trace)
    return [duration_s(trace) - each for each in busy]


def bubble_of_total(trace: Trace) -> float:
    """Idle time of all ranks over all their time, num_ranks * length: from 0 to 1, as GPipe counts it.

    Raises `BadValue` if nothing in the trace takes time.  Source: arXiv:1811.06965.
    """
    _check(trace)
    busy = busy_s(trace)
    return 1 - sum(busy) / (len(busy) * duration_s(trace))


def bubble_of_ideal(trace: Trace) -> float:
    """Idle time of all ranks over the time in which they work: from 0, may exceed 1, as Megatron-LM counts it.

    Raises `BadValue` if nothing in the trace takes time.  Source: arXiv:2104.04473, section 2.2.
    """
    _check(trace)
    return sum(idle_s(trace)) / sum(busy_s(trace))


def bubble_rate(trace: Trace) -> float:
    """Idle time over all time, both of the rank whose own span is longest: from 0 to 1, as Zero Bubble counts it.

    A rank's own span is from its own first start to its own last end: it leaves out the wait for its first input.
    Raises `BadValue` if nothing in the trace takes time.  Source: arXiv:2401.10241, section 5.4.
    """
    _check(trace)
    longest = max(_by_rank(trace), key=duration_s)
    return 1 - sum(span.duration_s for span in longest) / duration_s(longest)


def _check(trace: Trace) -> None:
    if not any(span.duration_s for span in trace):
        raise BadValue("a trace in which nothing takes time has no bubble")


def _by_rank(trace: Trace) -> list[list[Span]]:
    spans = defaultdict(list)
    for span in trace:
        spans[span.rank].append(span)
    return [spans[rank] for rank in sorted(spans)]
