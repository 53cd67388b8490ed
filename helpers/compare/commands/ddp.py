"""What `python -m helpers ddp-demo` and `python -m helpers ddp` print and write."""
from __future__ import annotations

import json
import os
from itertools import pairwise
from pathlib import Path
from statistics import fmean

from helpers.compare.table import Table
from helpers.facts.errors import BadValue
from helpers.predict.collectives import bytes_sent
from helpers.run.commands.ddp import WIDTHS, compared, demo
from helpers.run.commands.torchrun import launch_or_join

NUM_PARAMETERS = sum((before + 1) * after for before, after in pairwise(WIDTHS))


def ddp_demo(world_size: int | None, num_steps: int, batch_size: int, seed: int, backend: str = "gloo") -> dict | None:
    """Settings and outcome of a small DDP training; None on ranks of torchrun other than 0."""
    if backend != "gloo":
        raise BadValue(f"the course runs on CPUs, where the backend is gloo, not {backend!r}")
    check(num_steps, batch_size)
    ranks = launch_or_join(demo, world_size, 2, num_steps, batch_size, seed)
    if ranks is None:
        return None
    return {
        "world_size": len(ranks), "backend": backend, "num_steps": num_steps, "batch_size": batch_size, "seed": seed,
        "losses": [fmean(losses) for losses in zip(*(rank["losses"] for rank in ranks), strict=True)],
        "parameter_spread": max(rank["spread"] for rank in ranks),
        "gradient_difference": max(rank["gradient_difference"] for rank in ranks),
        "bytes_sent_in_a_step": {"formula": bytes_sent("all_reduce", 4 * NUM_PARAMETERS, len(ranks)),
                                 "measured": max(rank["bytes_sent"] for rank in ranks)},
    }


def demo_table(outcome: dict) -> Table:
    """What the demo's ranks found, as a table with a row for each rank."""
    rows = [(f"loss of step {step}", f"{loss:.4f}") for step, loss in enumerate(outcome["losses"])]
    sent = outcome["bytes_sent_in_a_step"]
    rows += [("spread of parameters between ranks", f"{outcome['parameter_spread']:.1e}"),
             ("gradient, largest relative difference from one process", f"{outcome['gradient_difference']:.1e}"),
             ("bytes that a rank sends in a step: formula", f"{sent['formula']:,.0f}"),
             ("measured, with headers", f"{sent['measured']:,}")]
    return Table((f"DDP on {outcome['world_size']} ranks, {outcome['batch_size']} samples each", ""), tuple(rows))


def write(outcome: dict, path: Path) -> None:
    """The whole file or none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(outcome, indent=2) + "\n")
    os.replace(partial, path)


def one_process_against_ddp(world_size: int | None, num_steps: int, batch_size: int, seed: int) -> Table | None:
    """None on ranks of torchrun other than 0."""
    check(num_steps, batch_size)
    ranks = launch_or_join(compared, world_size, 4, num_steps, batch_size, seed)
    if ranks is None:
        return None
    alone, rows = ranks[0]["one process"][2], []
    for name, (before, after, parameters) in ranks[0].items():
        away = max((rank[name][2] - alone).abs().max().item() for rank in ranks) / alone.abs().max().item()
        rows.append((name, f"{before:.4f}", f"{after:.4f}", f"{parameters.norm():.6f}", f"{away:.1e}"))
    header = (f"{num_steps} steps, {len(ranks)} ranks of {batch_size} samples", "loss before", "loss after",
              "norm of parameters", "relative difference")
    return Table(header, tuple(rows), ("Losses are over all data; the difference is that of the rank that is farthest "
                                       "from one process.",))


def check(num_steps: int, batch_size: int) -> None:
    """Raise `BadValue` for a number of steps, samples or ranks that is no whole number from 1."""
    if num_steps < 1 or batch_size < 1:
        raise BadValue(f"steps and batch are 1 or more, not {num_steps} and {batch_size}")
