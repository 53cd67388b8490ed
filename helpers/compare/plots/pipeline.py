"""Pipelines: who does what when, what each rank holds meanwhile, and how bubbles shrink.

F is light, B and I are of middle brightness, W is dark, and each box says its letter, so a grey print is read as well.
Boxes of a rank's further stages are lower.  Steps that overlap are drawn one above the other.
"""
from __future__ import annotations

from collections.abc import Sequence

import matplotlib.pyplot as plt

from helpers.compare.plots.figure import RANKS
from helpers.compare.step_colours import LATER_STAGE_HEIGHT, STEP_COLOURS
from helpers.facts.schedules import parse
from helpers.facts.schedules.in_flight import held_over_time
from helpers.facts.schedules.text import short
from helpers.facts.trace import Span, Trace, duration_s

MARKS = ("o", "s", "^", "D", "v", "P", "X", "*")
ROW_PT, LETTER = 540, 0.6               # length of a row in points; width of a letter, of its size
LINES = ("-", "--", "-.", ":")


def pipeline_picture(traces: dict[str, Trace], unit: str = "s", per_unit: float = 1.0):
    """Traces of the same schedule on one time axis, each from its own start; below, what each rank of the last holds.

    unit, per_unit    of the axis, and how many of them make what spans count: "ms" and 1e3 for seconds
    With two traces, the second one's ends are compared with the first's.  Returns both axes.
    """
    num_rows = sum(len(_ranks(trace)) for trace in traces.values())
    _, (top, below) = plt.subplots(2, 1, figsize=(11, 2.6 + 0.36 * num_rows), sharex=True, layout="constrained",
                                   height_ratios=(0.36 * num_rows, 1.5))
    pipeline_gantt(traces, unit, per_unit, ax=top).set(xlabel="")
    held_strip(list(traces.values())[-1], unit, per_unit, ax=below)
    return top, below


def pipeline_gantt(traces: dict[str, Trace], unit: str = "s", per_unit: float = 1.0, ax=None):
    """A row for each rank and trace; at its right, how much later a rank ends than in the first trace."""
    pairs = [(rank, name) for rank in _ranks(next(iter(traces.values()))) for name in traces]
    ax = ax or plt.subplots(figsize=(11, 1 + 0.36 * len(pairs)), layout="constrained")[1]
    first = next(iter(traces.values()))
    longest = max(map(duration_s, traces.values()))
    for row, (rank, name) in enumerate(pairs):
        spans = [s for s in traces[name] if s.rank == rank]
        start, place = min(s.start for s in traces[name]), row + 0.25 * (row // len(traces))
        _row(ax, place, spans, start, per_unit, ROW_PT / longest if longest else 0)
        if traces[name] is not first:
            late = (_end(traces[name], rank) - _end(first, rank)) * per_unit
            ax.text(1.005, place, f"{late:+.3g}", transform=ax.get_yaxis_transform(), va="center", fontsize=8)
    places = [row + 0.25 * (row // len(traces)) for row in range(len(pairs))]
    ax.set_yticks(places, [f"rank {rank}" + f" {name}" * (len(traces) > 1) for rank, name in pairs])
    if len(traces) > 1:
        ax.text(1.005, -0.8, "ends later by", transform=ax.get_yaxis_transform(), fontsize=8)
    ax.set(ylim=(places[-1] + 0.55, -0.55), title=_title(traces, unit, per_unit), xlabel=unit)
    ax.margins(x=0.005)
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def _title(traces: dict[str, Trace], unit: str, per_unit: float) -> str:
    lengths = {name: duration_s(trace) for name, trace in traces.items()}
    (first, length), *others = lengths.items()
    return ", ".join([f"{first}: {length * per_unit:,.4g} {unit}", *(
        f"{name}: {other * per_unit:,.4g} {unit} ({other / length - 1:+.1%})" for name, other in others)])


def _row(ax, place: float, spans: list[Span], start: float, per_unit: float, points: float) -> None:
    """A box for each action, labelled where the label fits; `points` are the size of what spans count."""
    steps = [(span, parse(span.label).parts) for span in spans]
    first_stage = min(action.stage for _, parts in steps for action in parts)
    boxes = []
    for span, parts in steps:
        left, width = per_unit * (span.start - start), per_unit * span.duration_s
        for number, action in enumerate(parts):
            share = 0.86 / len(parts)
            middle = place + share * (number - (len(parts) - 1) / 2)
            height = share * (1 if action.stage == first_stage else LATER_STAGE_HEIGHT)
            face, ink = STEP_COLOURS[action.kind]
            boxes.append((middle, width, height, left, face))
            size, label = 7 if len(parts) == 1 else 5.5, short(action)
            if points * span.duration_s >= LETTER * size * len(label):
                ax.text(left + width / 2, middle, label, ha="center", va="center", color=ink, fontsize=size,
                        clip_on=True)
    middles, widths, heights, lefts, faces = zip(*boxes, strict=True)
    ax.barh(middles, widths, heights, lefts, color=faces, edgecolor="black", linewidth=0.5)


def held_strip(trace: Trace, unit: str = "s", per_unit: float = 1.0, ax=None):
    """Microbatches that each rank holds over time."""
    ax = ax or plt.subplots(figsize=(11, 1.8), layout="constrained")[1]
    start, end = min(s.start for s in trace), max(s.end for s in trace)
    curves = held_over_time(trace)
    for number, (rank, curve) in enumerate(curves.items()):
        changes = dict(curve) | {end: curve[-1][1]}             # of several changes at one moment, what remains
        shift = 0.06 * (number - (len(curves) - 1) / 2)           # lines of ranks that hold the same stay visible
        ax.step([per_unit * (t - start) for t in changes], [count + shift for count in changes.values()], where="post",
                color=RANKS[number % len(RANKS)], linestyle=LINES[number % len(LINES)], linewidth=1.5,
                label=f"rank {rank}: at most {max(count for _, count in curve):g}")
    ax.set(xlabel=unit, ylabel="held", ylim=(-0.4, None))
    ax.margins(x=0.005)
    ax.yaxis.get_major_locator().set_params(integer=True)
    ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, fontsize=8)
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def bubble_curves(curves: dict[str, Sequence[float]], num_microbatches: Sequence[int], played: dict | None = None,
                  ax=None):
    """Fractions in % over microbatches: a line for each name, and marks for what was played instead of computed."""
    ax = ax or plt.subplots(figsize=(8, 4.2), layout="constrained")[1]
    for number, (name, fractions) in enumerate(curves.items()):
        colour = RANKS[number % len(RANKS)]
        ax.plot(num_microbatches, [100 * f for f in fractions], color=colour, linestyle=LINES[number % len(LINES)],
                linewidth=1.5, label=name)
        if played and name in played:
            ax.plot(num_microbatches, [100 * f for f in played[name]], MARKS[number % len(MARKS)], color=colour,
                    markersize=6)
    ax.set(xscale="log", xlabel="microbatches", ylabel="bubble, % of total", ylim=(0, None))
    ax.set_xticks(list(num_microbatches))
    ax.set_xticklabels(list(num_microbatches))
    ax.minorticks_off()
    ax.legend(frameon=False)
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def _ranks(trace: Trace) -> list[int]:
    return sorted({span.rank for span in trace})


def _end(trace: Trace, rank: int) -> float:
    return max(s.end for s in trace if s.rank == rank) - min(s.start for s in trace)
