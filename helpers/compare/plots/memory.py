"""What is where in memory."""
from __future__ import annotations

import matplotlib.pyplot as plt

from helpers.facts.units import UNITS

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
