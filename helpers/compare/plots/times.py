"""What happens when, and how long it takes."""
from __future__ import annotations

import math
from itertools import accumulate, pairwise

import matplotlib.pyplot as plt

from helpers.compare.crossover import Curves
from helpers.facts.trace import Trace
from helpers.facts.units import in_unit

ALGORITHMS = {"naive": ("#999999", "s"), "ring": ("#0072B2", "o"), "recursive doubling": ("#E69F00", "^"),
              "halving-doubling": ("#009E73", "D"), "double tree": ("#CC79A7", "v")}


def times(curves: Curves, sizes: tuple[float, ...], ax=None):
    """Seconds over bytes: marks are played, lines are formulas; a dashed line where doubling and ring take as long."""
    ax = ax or plt.subplots(figsize=(8, 4.6), layout="constrained")[1]
    for name, played in curves.played.items():
        colour, mark = ALGORITHMS[name]
        line = curves.predicted.get(name)
        hollow = {"markerfacecolor": "none", "markersize": 10, "markeredgewidth": 1.6} if name == "ring" else {}
        ax.plot(sizes, line or played, color=colour, linewidth=1.4, linestyle="-" if line else ":")
        ax.plot(sizes, played, mark, color=colour, label=name, **{"markersize": 6} | hollow)
    if curves.crossover_bytes and math.isfinite(curves.crossover_bytes):
        ax.axvline(curves.crossover_bytes, color="black", linestyle="--", linewidth=1,
                   label=f"doubling = ring: {in_unit(curves.crossover_bytes, 'KB', 3)}")
    ax.set(xscale="log", yscale="log", xlabel="bytes of the tensor", ylabel="virtual seconds",
           title=f"all-reduce on {curves.world_size} ranks")
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    return ax


LANES = {"B": ("backward", "#56B4E9"), "all_reduce": ("all_reduce", "#E69F00")}


def gantt(traces: dict[str, Trace], ax=None):
    """Each trace from its own start: for each of its ranks, a row for each kind in LANES, with a label in each box."""
    pairs = [(name, rank, trace) for name, trace in traces.items() for rank in sorted({s.rank for s in trace})]
    several = len(pairs) > len(traces)
    rows = [(f"{name}, rank {rank}" if several else name, rank, kind, trace) for name, rank, trace in pairs
            for kind in LANES if any((s.rank, s.kind) == (rank, kind) for s in trace)]
    ax = ax or plt.subplots(figsize=(10, 1.1 + 0.36 * len(rows)), layout="constrained")[1]
    gaps = accumulate(0.4 * (one[:2] != other[:2]) for one, other in pairwise([rows[0], *rows]))
    places = [row + gap for row, gap in enumerate(gaps)]
    for place, (_, rank, kind, trace) in zip(places, rows, strict=True):
        start, (_, colour) = min(span.start for span in trace), LANES[kind]
        for span in (s for s in trace if (s.rank, s.kind) == (rank, kind)):
            left, width = 1e3 * (span.start - start), 1e3 * span.duration_s
            ax.barh(place, width, left=left, height=0.82, color=colour, edgecolor="black", linewidth=0.6)
            ax.text(left + width / 2, place, span.label, ha="center", va="center", fontsize=7, clip_on=True)
    ax.set(yticks=places, xlabel="ms", yticklabels=[f"{name}: {LANES[kind][0]}" for name, _, kind, _ in rows])
    ax.invert_yaxis()
    ax.spines[["top", "right"]].set_visible(False)
    return ax
