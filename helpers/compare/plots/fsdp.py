"""What a rank holds while a step of FSDP goes on."""
from __future__ import annotations

from itertools import cycle

import matplotlib.pyplot as plt

from helpers.compare.plots.figure import RANKS
from helpers.facts.units import UNITS
from helpers.run.fsdp import Moment


def step_curves(curves: dict[str, list[Moment]], *, unit: str = "MiB", ax=None):
    """A line for each step that was watched: the most that each moment held, forward left and backward right."""
    ax = ax or plt.subplots(figsize=(9, 3.8), layout="constrained")[1]
    for (name, moments), colour, style in zip(curves.items(), cycle(RANKS), cycle(("-", "--", "-.", ":"))):
        held = [moment.peak_bytes / UNITS[unit] for moment in moments]
        ax.step(range(len(held)), held, style, where="mid", color=colour, label=name, linewidth=1.8)
    longest = max(curves.values(), key=len)
    turn = sum(moment.phase == "forward" for moment in longest)
    ax.axvline(turn - 0.5, color="black", linewidth=0.8)
    ax.set(xticks=range(len(longest)), xticklabels=[str(moment.block) for moment in longest], ylim=(0, None),
           xlabel="block: forward, then backward", ylabel=f"{unit} more than before the step")
    ax.tick_params(axis="x", labelsize=8)
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    return ax
