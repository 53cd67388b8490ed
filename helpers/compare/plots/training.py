"""Samples and losses of a training run."""
from __future__ import annotations

from itertools import cycle

import matplotlib.pyplot as plt

from helpers.compare.plots.figure import RANKS
from helpers.facts.data_sharding import Sampling


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
