"""Schedules as text: a grid to read, and CSV, which torch.distributed.pipelining reads, too.

    rank 0 | F0 F1 F2  .  . B0 B1 B2        stages in front (2F0) where a rank holds several
    rank 1 |  . F0 F1 F2 B0 B1 B2

The CSV has a line for each rank and a cell for each step: 0F0,0F1,0B0,0B1
"""
from __future__ import annotations

from collections.abc import Iterable

from helpers.facts.errors import BadValue
from helpers.facts.schedules.schedule import Action, Pair, Schedule, Step, parse
from helpers.facts.schedules.start_order import slots

IDLE, WIDEST = ".", 160         # characters of a line


def short(step: Step, with_stage: bool = False) -> str:
    """What a box of a picture has room for: F5, or 2F5; F5&B1 for a pair."""
    if isinstance(step, Pair):
        return "&".join(short(part, with_stage) for part in step.parts)
    return f"{step.stage if with_stage else ''}{step.kind}{step.microbatch}"


def grid(schedule: Schedule, marked: tuple[int, int] | None = None) -> str:
    """A schedule as text: a row for each rank, a column for each slot; every step takes one and starts when it can.

    marked    (rank, number of a step): written between > and <
    What can never start stands at the end of its row, after "stuck:".
    """
    several = any(len(stages) > 1 for stages in schedule.stages_of)
    rows, late = [], []
    for rank, (placed, steps) in enumerate(zip(slots(schedule), schedule.steps, strict=True)):
        texts = [f">{short(step, several)}<" if marked == (rank, i) else short(step, several)
                 for i, step in enumerate(steps)]
        row = [IDLE] * (placed[-1][0] + 1 if placed else 0)
        for (slot, _), text in zip(placed, texts, strict=False):
            row[slot] = text
        rows.append(row)
        late.append(texts[len(placed):])
    width = max((len(text) for row in rows for text in row), default=1)
    names = row_names(range(schedule.num_ranks))
    return "\n".join(_line(name, row, texts, width) for name, row, texts in zip(names, rows, late, strict=True))


def readable_grid(schedule: Schedule, marked: tuple[int, int] | None = None) -> str:
    """The grid on lines of its own, or "" if they are longer than WIDEST characters."""
    drawn = f"\n{grid(schedule, marked)}"
    return drawn if max(map(len, drawn.splitlines())) <= WIDEST else ""


def row_names(ranks: Iterable[int]) -> list[str]:
    """What a row of text starts with, all equally long."""
    names = [f"rank {rank}" for rank in ranks]
    return [f"{name.ljust(max(map(len, names)))} |" for name in names]


def _line(name: str, row: list[str], late: list[str], width: int) -> str:
    text = f"{name} " + " ".join(cell.rjust(width) for cell in row)
    return f"{text}  stuck: {' '.join(late)}".rstrip() if late else text.rstrip()


def to_csv(schedule: Schedule) -> str:
    """A line for each rank, with a cell for each step, which torch.distributed.pipelining reads: "0F0,0F1,0B0,0B1"."""
    return "".join(",".join(map(str, steps)) + "\n" for steps in schedule.steps)


def from_csv(text: str, name: str = "from CSV") -> Schedule:
    """The schedule that a CSV describes; empty cells, PyTorch's bubbles, are left out.

    Raises `BadValue` that names the line and the cell that is no action, or says that there are no actions.
    """
    ranks = [tuple(_cell(cell, line, column) for column, cell in enumerate(row.split(","), 1) if cell.strip())
             for line, row in enumerate(text.strip("\n").split("\n"), 1)]
    actions: list[Action] = [action for steps in ranks for step in steps for action in step.parts]
    if not actions:
        raise BadValue("no actions: write a line for each rank, as in 0F0,0B0")
    return Schedule(name, tuple(ranks), max(a.stage for a in actions) + 1, max(a.microbatch for a in actions) + 1)


def _cell(cell: str, line: int, column: int) -> Step:
    try:
        return parse(cell)
    except BadValue as error:
        raise BadValue(f"line {line}, cell {column}: {error}") from None
