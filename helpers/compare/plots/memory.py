"""What is where in memory."""
from __future__ import annotations

from itertools import pairwise

import matplotlib.pyplot as plt

from helpers.facts.units import UNITS
from helpers.run.measure.residency import Residency

COLOURS = {"parameter": "#0072B2", "gradient": "#E69F00", "main_gradient": "#F0E442", "master": "#009E73",
           "momentum": "#CC79A7", "variance": "#56B4E9",
           "tensors": "#0072B2", "state": "#0072B2", "other": "#999999",
           "parameter_shard": "#0072B2", "adam_shard": "#CC79A7", "gradient_shard": "#009E73", "gathered": "#56B4E9",
           "message": "#F0E442",
           "activations": "#D55E00", "recomputed_block": "#F0E442", "logits": "#999999"}


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


KINDS = ("momentum", "variance", "master", "parameter", "gradient", "other")      # from below: what changes least first
UNSEEN = ("counter",)                   # a few bytes


def residency_plot(runs: dict[str, Residency], *, unit: str = "MiB", ax=None):
    """What is alive after each allocation and release, by kind; runs side by side, on one scale."""
    grid = [ax] if ax else plt.subplots(1, len(runs), figsize=(max(6.4, 1.2 + 3.2 * len(runs)), 3.6), sharey=True,
                                        layout="constrained", squeeze=False)[1][0]
    seen = {kind for alive in runs.values() for kind in alive.bytes if kind not in UNSEEN}
    kinds = [*sorted(seen - {*KINDS}), *(kind for kind in KINDS if kind in seen)]
    for ax, (name, alive) in zip(grid, runs.items(), strict=True):
        places, nothing = _by_phase(alive), [0] * alive.num_events
        layers = [[size / UNITS[unit] for size in alive.bytes.get(kind, nothing)] for kind in kinds]
        ax.stackplot(places, layers, step="post", colors=[COLOURS.get(kind, "#DDDDDD") for kind in kinds], labels=kinds,
                     edgecolor="white", linewidth=0.2)
        for number, phase in enumerate(alive.phases):
            ax.axvline(number, color="black", linewidth=0.8, linestyle=":")
            ax.text(number + 0.5, 1.0, phase, transform=ax.get_xaxis_transform(), ha="center", va="bottom", fontsize=8)
        ax.set(xlim=(0, len(alive.phases)), xticks=[], xlabel="allocations and releases")
        ax.set_title(name, pad=16)
        ax.spines[["top", "right"]].set_visible(False)
    grid[0].set_ylabel(f"{unit} on a rank")
    handles, labels = grid[-1].get_legend_handles_labels()
    grid[-1].legend(handles[::-1], labels[::-1], loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    return grid[0]


def _by_phase(alive: Residency) -> list[float]:
    """A place for each event: every phase is one wide, and its events are evenly spaced."""
    starts = [*alive.phases.values(), alive.num_events]
    return [number + (event - start) / (end - start) for number, (start, end) in enumerate(pairwise(starts))
            for event in range(start, end)]
