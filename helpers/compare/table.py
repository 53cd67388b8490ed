"""Tables that a notebook shows as HTML, and a terminal, a test or a screen reader as text.

`predicted_vs_measured` is where every lesson ends up: the learner's guess, the
formula, the measurement and their ratio.
"""
from __future__ import annotations

import html
import math
from dataclasses import dataclass

from helpers.facts.errors import BadValue
from helpers.facts.units import UNITS
from helpers.predict.memory import MIXED, SHARDED_FROM, Recipe, state_bytes

PAD = "padding:2px 8px"         # inside a widget, JupyterLab gives tables no style


@dataclass(frozen=True)
class Table:
    """Rows of text under a header; the first column names the row, the others are aligned right."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        lines = [self.header, *self.rows]
        widths = [max(len(line[column]) for line in lines) for column in range(len(self.header))]
        text = [line[0].ljust(widths[0]) + "".join(f"  {cell:>{width}}" for cell, width in
                                                   zip(line[1:], widths[1:], strict=True)) for line in lines]
        return "\n".join(line.rstrip() for line in [text[0], "-" * len(text[0]), *text[1:], *self.notes])

    def _repr_html_(self) -> str:
        head = "".join(f'<th scope="col" style="{PAD}">{html.escape(cell)}</th>' for cell in self.header)
        body = "".join(
            f'<tr><th scope="row" style="{PAD};text-align:left">{html.escape(row[0])}</th>'
            + "".join(f'<td style="{PAD};text-align:right">{html.escape(cell)}</td>' for cell in row[1:]) + "</tr>"
            for row in self.rows)
        notes = "".join(f"<p>{html.escape(note)}</p>" for note in self.notes)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{notes}"


def predicted_vs_measured(rows: dict[str, tuple[float, float]], *, guess: float | None = None, unit: str = "",
                          notes: tuple[str, ...] = (), columns: tuple[str, str] = ("formula", "measured")) -> Table:
    """One row for each name: formula, measurement, measurement / formula; `columns` names the first two.

    Values are bytes if `unit` is one of UNITS (B, KB, MB, ..., TiB), and are
    shown in that unit; else they are shown as they are.  `guess` belongs to the
    first row and is in the unit shown.
    """
    if unit not in UNITS and unit.lower() in map(str.lower, UNITS):
        raise BadValue(f"unit is one of {', '.join(UNITS)} for bytes, not {unit!r}")
    scale = UNITS.get(unit, 1)
    shown = []
    for name, (predicted, measured) in rows.items():
        ratio = f"{measured / predicted:.2f}" if predicted else "-"
        shown.append((name, four_digits(predicted / scale), four_digits(measured / scale), ratio))
    if guess is not None and rows:
        notes = (_about(guess, *(value / scale for value in next(iter(rows.values()))), unit), *notes)
    in_unit = f", {unit}" if unit else ""
    return Table(("", *(f"{column}{in_unit}" for column in columns), "ratio"), tuple(shown), notes)


def _about(guess: float, predicted: float, measured: float, unit: str) -> str:
    """One sentence on a guess, in the unit of the other two."""
    if type(guess) not in (int, float) or not 0 <= guess < math.inf:
        raise BadValue(f"guess is a number of {unit or 'units'}, or None, not {guess!r}")
    told = f"You guessed {four_digits(guess)} {unit}".rstrip()
    if math.isclose(guess, measured, rel_tol=0.02):
        return f"{told} for the first row, and you were right."
    if math.isclose(guess, predicted, rel_tol=0.02):
        return f"{told} for the first row: right by the formula."
    if unit in UNITS and UNITS[unit] > 1 and math.isclose(guess, measured * UNITS[unit], rel_tol=0.02):
        return f"{told} for the first row: right in bytes, but {unit} are asked for."
    if measured and 0.95 <= guess / measured < 1.05:
        return f"{told} for the first row; it is {four_digits(measured)} {unit}".rstrip() + ", so you were near."
    if not guess or not measured:
        return f"{told} for the first row; it is {four_digits(measured)} {unit}".rstrip() + "."
    return f"{told} for the first row, {guess / measured:,.2g} times the measurement."


def state_table(ledgers: dict[str, dict[str, float]], *, unit: str = "GB", limit_bytes: float | None = None) -> Table:
    """One row for each ledger of `state_by_term`: every term, the sum, and whether it is below the limit."""
    if unit not in UNITS:
        raise BadValue(f"unit is one of {', '.join(UNITS)}, not {unit!r}")
    terms = [term for term in SHARDED_FROM if any(term in ledger for ledger in ledgers.values())]
    rows = []
    for name, ledger in ledgers.items():
        total = sum(ledger.values())
        fits = () if limit_bytes is None else ("yes" if total < limit_bytes else "no",)
        values = [*(ledger.get(term, 0) for term in terms), total]
        rows.append((name, *(four_digits(value / UNITS[unit]) for value in values), *fits))
    fits = () if limit_bytes is None else (f"below {four_digits(limit_bytes / UNITS[unit])} {unit}",)
    return Table((f"{unit} a rank", *(t.replace("_", " ") for t in terms), "sum", *fits), tuple(rows))


def savings_table(ranks: tuple[int, ...], recipe: Recipe = MIXED) -> Table:
    """DDP's model state divided by that of each ZeRO stage, for some numbers of ranks."""
    rows = tuple((f"{n:,}", *(f"{state_bytes(1, n, 0, recipe) / state_bytes(1, n, stage, recipe):,.2f}"
                              for stage in (1, 2, 3))) for n in ranks)
    return Table(("ranks", "ZeRO-1", "ZeRO-2", "ZeRO-3"), rows)


def four_digits(value: float) -> str:
    """Four significant digits, and the whole part whole below a million million: 1,120 and 23.11 and 0.05."""
    if value == 0:
        return "0"
    if abs(value) >= 1000:
        return f"{value:,.0f}" if abs(value) < 1e12 else f"{value:.4g}"
    return f"{value:.4g}"
