"""Figures.  Each function draws data it is given on axes it is given, and returns the axes.

Colours are those of Okabe and Ito, which people with colour-blindness can tell apart.
"""
from __future__ import annotations

import io
import math
from itertools import accumulate, cycle, pairwise

import matplotlib.pyplot as plt

from helpers.compare.crossover import Curves
from helpers.compare.frames import Frame, parts_in
from helpers.facts.sampling import Sampling
from helpers.facts.trace import Trace
from helpers.facts.units import UNITS, in_unit

COLOURS = {"parameter": "#0072B2", "gradient": "#E69F00", "main_gradient": "#F0E442", "master": "#009E73",
           "momentum": "#CC79A7", "variance": "#56B4E9",
           "tensors": "#0072B2", "other": "#999999"}


def memory_bars(ledgers: dict[str, dict[str, float]], *, limit_bytes: float | None = None, limit_name: str = "",
                unit: str = "GB", ax=None):
    """One bar for each ledger of `state_by_term`, cut into its terms; a line at the limit."""
    ax = ax or plt.subplots(figsize=(8, 0.9 + 0.42 * len(ledgers)), layout="constrained")[1]
    scale, seen = UNITS[unit], set()
    for row, ledger in enumerate(ledgers.values()):
        left = 0.0
        for term, num_bytes in ledger.items():
            width = num_bytes / scale
            ax.barh(row, width, left=left, height=0.7, color=COLOURS[term], edgecolor="white", linewidth=0.5,
                    label=None if term in seen else term.replace("_", " "))
            left += width
            seen.add(term)
        ax.text(left, row, f" {left:,.4g}", va="center", zorder=3,       # above the limit, on white
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5, "alpha": 0.9})
    if limit_bytes is not None:
        ax.axvline(limit_bytes / scale, color="black", linestyle="--", linewidth=1.2, label=limit_name or "limit")
    ax.set(yticks=range(len(ledgers)), yticklabels=list(ledgers), xlabel=f"{unit} a rank")
    ax.margins(x=0.1)
    ax.invert_yaxis()
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    return ax


def png(ax) -> bytes:
    """The figure of `ax` as a PNG picture; the figure is closed."""
    buffer = io.BytesIO()
    ax.figure.savefig(buffer, format="png", dpi=100)
    plt.close(ax.figure)
    return buffer.getvalue()


RANKS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00")
BOX_HEIGHT, WIDEST = 0.34, 1.36         # of a chunk's box, of all boxes of a rank


def ring_frame(frame: Frame, ax=None):
    """One frame: ranks on a ring, a box for each chunk with a stripe for each rank added to it, and the messages."""
    ax = ax or plt.subplots(figsize=(6.4, 4.7), layout="constrained")[1]
    n = len(frame.held)
    for rank, held in enumerate(frame.held):
        _boxes(ax, rank, held, *_on_ring(rank, n))
    for rank, chunk in enumerate(frame.moving):
        _arrow(ax, rank, chunk, n)
    ax.set(xlim=(-2.6, 2.6), ylim=(-1.85, 1.95), aspect="equal")
    ax.axis("off")
    phase = "reduce-scatter" if frame.reduces else "all-gather"
    ax.set_title(f"before step {frame.step} of {frame.num_steps}, {phase}" if frame.moving else "the end", fontsize=10)
    return ax


def _boxes(ax, rank: int, held: tuple[int, ...], x: float, y: float) -> None:
    n = len(held)
    width = min(BOX_HEIGHT, WIDEST / n)
    left, bottom, stripe = x - n * width / 2, y - BOX_HEIGHT / 2, 0.88 * width / n
    ax.text(x, y + 0.26, f"rank {rank}", ha="center", fontsize=9, color=RANKS[rank], weight="bold")
    for chunk, total in enumerate(held):
        parts = parts_in(total, n)
        corner = left + chunk * width
        ax.text(corner + width / 2, bottom - 0.2, str(chunk), ha="center", fontsize=6.5)
        ax.add_patch(plt.Rectangle((corner, bottom), width, BOX_HEIGHT, facecolor="white", edgecolor="black",
                                   linewidth=2.2 if len(parts) == n else 0.7, zorder=3))
        for part in parts:
            ax.add_patch(plt.Rectangle((corner + 0.06 * width + part * stripe, bottom + 0.02), stripe,
                                       BOX_HEIGHT - 0.04, facecolor=RANKS[part], zorder=4))


def _arrow(ax, rank: int, chunk: int, n: int) -> None:
    """From a rank to the next, with the chunk's number; the arrow is the queue between them."""
    ax.annotate("", _on_ring(rank + 0.65, n), _on_ring(rank + 0.33, n),
                arrowprops={"arrowstyle": "-|>", "color": RANKS[rank], "linewidth": 1.8,
                            "connectionstyle": f"arc3,rad={-0.9 / n}"}, zorder=6)
    x, y = _on_ring(rank + 0.5, n, 1.08)
    side = "left" if x > 0.1 else "right" if x < -0.1 else "center"
    ax.text(x, y, f"chunk {chunk}", ha=side, va="top" if side == "center" else "center", fontsize=8, zorder=7)


def _on_ring(place: float, n: int, reach: float = 1.0) -> tuple[float, float]:
    """A place on the ring, rank 0 at the top, then with the clock."""
    angle = 2 * math.pi * place / n
    return 1.9 * reach * math.sin(angle), 1.45 * reach * math.cos(angle)


def ring_strip(frames: list[Frame]):
    """All frames, from left to right and from top to bottom."""
    columns = 4
    rows = -(-len(frames) // columns)
    figure, grid = plt.subplots(rows, columns, figsize=(3.6 * columns, 2.9 * rows), layout="constrained", squeeze=False)
    figure.get_layout_engine().set(wspace=0.06, hspace=0.06)
    for ax, frame in zip(grid.flat, frames, strict=False):
        ring_frame(frame, ax)
    for ax in grid.flat[len(frames):]:
        ax.axis("off")
    return grid.flat[0]


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


def who_draws(report: Sampling, ax=None):
    """Epoch 0: a row for each rank, a box for each draw; grey where an earlier step or rank has drawn the sample."""
    ax = ax or plt.subplots(figsize=(10, 0.8 + 0.4 * len(report.draws)), layout="constrained")[1]
    seen = set()
    for step in range(max(report.steps)):
        for rank, epochs in enumerate(report.draws):
            before = sum(map(len, epochs[0][:step])) + 0.5 * step
            for place, sample in enumerate(epochs[0][step] if step < len(epochs[0]) else []):
                ax.barh(rank, 1, left=before + place, height=0.8, edgecolor="black", linewidth=0.6,
                        color="#BBBBBB" if sample in seen else "#56B4E9")
                ax.text(before + place + 0.5, rank, str(sample), ha="center", va="center", fontsize=8)
                seen.add(sample)
    ranks = range(len(report.draws))
    ax.set(yticks=ranks, yticklabels=[f"rank {rank}" for rank in ranks], xticks=[])
    ax.invert_yaxis()
    ax.spines[:].set_visible(False)
    return ax


def losses(curves: dict[str, list[float]], ax=None):
    """Loss over steps, a line for each name."""
    ax = ax or plt.subplots(figsize=(8, 3.6), layout="constrained")[1]
    for (name, values), colour, style in zip(curves.items(), cycle(RANKS), cycle(("-", "--", "-.", ":"))):
        ax.plot(values, style, color=colour, label=name)
    ax.set(xlabel="step", ylabel="loss")
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    return ax
