"""What happened, when, on which rank.

A span is one interval on one rank; a trace is a list of spans.  Real runs and
simulated ones both give a trace, so one plot and one set of measures serve both.

Times are seconds.  Real spans read `time.perf_counter()`, one clock for all
processes of a machine, so spans of different ranks line up.
"""
from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Span:
    rank: int
    kind: str          # "F", "B", "isend", "all_reduce", ...
    start: float       # s
    end: float         # s
    label: str = ""    # what a plot writes in the box
    nbytes: int = 0    # size of the tensor a communication call was given; 0 for compute

    @property
    def duration_s(self) -> float:
        return self.end - self.start


Trace = list[Span]
