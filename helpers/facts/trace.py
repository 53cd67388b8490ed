"""What happened, when, on which rank.

A span is one interval on one rank; a trace is a list of spans.  Real runs and
simulated ones both give a trace, so one plot and one set of measures serve both.

Times are seconds.  Real spans read `time.perf_counter()`, one clock for all
processes of a machine, so spans of different ranks line up.
"""
from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True)
class Span:
    """One interval on one rank; times are seconds, sizes are bytes."""

    rank: int
    kind: str          # "F", "B", "isend", "all_reduce", ...
    start: float       # s
    end: float         # s
    label: str = ""    # what a plot writes in the box
    nbytes: int = 0    # size of the tensor a communication call was given; 0 for compute, or not known

    @property
    def duration_s(self) -> float:
        """Seconds from start to end."""
        return self.end - self.start


Trace = list[Span]


def duration_s(trace: Trace) -> float:
    """Seconds from the first start to the last end of any rank; the trace has at least one span."""
    return max(span.end for span in trace) - min(span.start for span in trace)


def exposed_s(trace: Trace, rank: int, kind: str, behind: str) -> float:
    """Seconds that a rank spends in spans of `kind` while none of `behind` runs there: what nothing hides."""
    edges = sorted({t for span in trace for t in (span.start, span.end) if span.rank == rank})
    mine = {name: [(s.start, s.end) for s in trace if (s.rank, s.kind) == (rank, name)] for name in (kind, behind)}

    def runs(name: str, start: float, end: float) -> bool:
        return any(first <= start and end <= last for first, last in mine[name])

    return sum(end - start for start, end in pairwise(edges)
               if runs(kind, start, end) and not runs(behind, start, end))
