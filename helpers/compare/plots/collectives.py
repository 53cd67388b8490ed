"""A ring of ranks, step by step."""
from __future__ import annotations

import math

import matplotlib.pyplot as plt

from helpers.compare.plots.figure import RANKS
from helpers.compare.ring_frames import RingFrame, parts_in

BOX_HEIGHT, WIDEST = 0.34, 1.36         # of a chunk's box, of all boxes of a rank


def ring_frame(frame: RingFrame, ax=None):
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


def ring_strip(frames: list[RingFrame]):
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
