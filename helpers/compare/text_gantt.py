"""A trace of a pipeline as text: a row for each rank, three characters for each unit of time."""
from __future__ import annotations

from helpers.facts.schedules import parse
from helpers.facts.schedules.text import short
from helpers.facts.trace import Trace

CELL = 3                            # characters of one unit


def text_gantt(trace: Trace, unit_s: float) -> str:
    """F0 and B0 are as wide as they are long; what is idle is blank."""
    start = min(span.start for span in trace)
    rows: dict[int, list[str]] = {rank: [] for rank in sorted({span.rank for span in trace})}
    for span in sorted(trace, key=lambda s: s.start):
        row = rows[span.rank]
        first, last = (round(CELL * (t - start) / unit_s) for t in (span.start, span.end))
        row += " " * (first - len(row))
        width = max(last - len(row), 1)
        row += f"{short(parse(span.label)).ljust(width - 1, '-')[:width - 1]} "
    return "\n".join(f"rank {rank} |{''.join(row)}".rstrip() for rank, row in rows.items())
