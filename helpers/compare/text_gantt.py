"""A trace of a pipeline as text: a row for each rank, as many characters for each unit of time as a label needs."""
from __future__ import annotations

from helpers.facts.schedules import parse
from helpers.facts.schedules.text import row_names, short
from helpers.facts.trace import Trace


def text_gantt(trace: Trace, unit_s: float) -> str:
    """F0 and B0 are as wide as they are long; what is idle is blank.

    A step of at least a unit is labelled in full: with its stage in front (2F0) where a rank has several.
    """
    start = min(span.start for span in trace)
    actions = {(span.rank, action) for span in trace for action in parse(span.label).parts}
    rows: dict[int, list[str]] = {rank: [] for rank in sorted({rank for rank, _ in actions})}
    several = len({(rank, action.stage) for rank, action in actions}) > len(rows)
    cell = 1 + max(len(short(action, several)) for _, action in actions)        # characters of one unit
    for span in sorted(trace, key=lambda s: s.start):
        row = rows[span.rank]
        first, last = (round(cell * (t - start) / unit_s) for t in (span.start, span.end))
        row += " " * (first - len(row))
        width = max(last - len(row), 1)
        row += f"{short(parse(span.label), several).ljust(width - 1, '-')[:width - 1]} "
    return "\n".join(f"{name}{''.join(row)}".rstrip() for name, row in zip(row_names(rows), rows.values(), strict=True))
