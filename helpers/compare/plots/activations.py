"""What forward keeps: the parts of a block, and how they grow with the sequence."""
from __future__ import annotations

from itertools import cycle

import matplotlib.pyplot as plt
from matplotlib.patches import Patch

from helpers.compare.plots.figure import RANKS
from helpers.facts.units import UNITS
from helpers.predict.activations import PARTS, BlockShape, block_parts

LINEAR, SQUARED = "#0072B2", "#D55E00"
KINDS = (("grows with s", {"facecolor": LINEAR}), ("grows with s * s", {"facecolor": SQUARED}),
         ("a mask of dropout", {"facecolor": "white", "edgecolor": "black", "hatch": "///"}))


def part_bars(block: BlockShape, *, unit: str = "MiB", ax=None):
    """A bar for each tensor that a block keeps, in the order of forward, coloured by how it grows."""
    sizes = block_parts(block)
    kept = [part for part in PARTS if part.name in sizes]
    ax = ax or plt.subplots(figsize=(8, 0.9 + 0.26 * len(kept)), layout="constrained")[1]
    for row, part in enumerate(kept):
        size = sizes[part.name] / UNITS[unit]
        ax.barh(row, size, height=0.7, color=SQUARED if part.grows_with_seq_squared else LINEAR, edgecolor="white",
                hatch="///" if part.entry == "mask" else None)
        ax.text(size, row, f" {size:,.3g}", va="center", fontsize=8)
    ax.set(yticks=range(len(kept)), yticklabels=[part.name for part in kept], xlabel=f"{unit} kept for backward")
    ax.margins(x=0.1)
    ax.invert_yaxis()
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(handles=[Patch(label=label, **look) for label, look in KINDS], loc="lower right", frameon=False)
    return ax


def growth(predicted: dict[str, dict[int, float]], measured: dict[str, dict[int, float]], *, unit: str = "MiB",
           ax=None):
    """Bytes over tokens of a sequence, both axes by powers of two: lines are formulas, marks are measured."""
    ax = ax or plt.subplots(figsize=(7, 4), layout="constrained")[1]
    for (name, line), colour, mark in zip(predicted.items(), cycle(RANKS), cycle("osD^")):
        ax.plot(line.keys(), [size / UNITS[unit] for size in line.values()], color=colour, linewidth=1.4)
        marks = measured[name]
        ax.plot(marks.keys(), [size / UNITS[unit] for size in marks.values()], mark, color=colour, label=name)
    ax.set_xscale("log", base=2)
    ax.set_yscale("log", base=2)
    ax.set(xlabel="s, tokens in a sequence", ylabel=f"{unit} kept for backward")
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter("{x:,g}")
    ax.grid(alpha=0.3)
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    return ax
