"""One algorithm on three transports, counted side by side: `python -m helpers collectives`."""
from __future__ import annotations

import torch

from helpers.compare.table import Table
from helpers.predict.collectives import cost
from helpers.run.collectives import (
    Mesh,
    play,
    ring_all_gather,
    ring_all_reduce,
    ring_reduce_scatter,
    run_on_gloo,
    run_on_queues,
    tree_broadcast,
)

ALGORITHMS = {"tree_broadcast": tree_broadcast, "ring_all_gather": ring_all_gather,
              "ring_reduce_scatter": ring_reduce_scatter, "ring_all_reduce": ring_all_reduce}


def three_transports(world_size: int = 4, num_elements: int = 64, source: int = 0) -> Table:
    """Bytes that the busiest rank sends, by formula and as counted; the first row broadcasts from `source`."""
    rows = []
    for name in ALGORITHMS:
        formula = cost(name, num_elements, world_size).sent
        runs = [run(_on_small_numbers, world_size, name, num_elements, source)
                for run in (play, run_on_queues, run_on_gloo)]          # what cannot work fails on the first, at once
        counted = (max(wire.sent for wire in run.wire) for run in runs)
        alike = all(run.results == runs[0].results for run in runs)
        rows.append((name, *(f"{sent:,.0f}" for sent in (formula, *counted)), "yes" if alike else "NO"))
    gloo = runs[-1].wire[0].counted_by
    notes = ("The kernel's count has the headers of gloo's messages, too.",) if gloo == "kernel" else ()
    return Table(("bytes sent by the busiest rank", "formula", "virtual clock", "queues", f"gloo, by the {gloo}",
                  "same values"), tuple(rows), notes)


def _on_small_numbers(mesh: Mesh, name: str, num_elements: int, source: int) -> list[float]:
    """What the algorithm leaves on this rank of whole numbers, whose sums are exact."""
    tensor = (torch.arange(num_elements) % 5 + mesh.rank % 7).float()
    ALGORITHMS[name](mesh, tensor, *([source] if name == "tree_broadcast" else []))
    mine = tensor if name != "ring_reduce_scatter" else tensor.tensor_split(mesh.world_size)[mesh.rank]
    return mine.tolist()
