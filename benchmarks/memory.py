"""Memory and bytes of one training step under DDP and FSDP, beside the formula: `python -m benchmarks.memory`.

160 MiB of fp32 parameters with Adam.  Prints ratios of measurement to formula.
"""
from __future__ import annotations

from helpers.compare.table import predicted_vs_measured
from helpers.predict.collectives import step_elements_sent
from helpers.predict.memory import buffer_bytes, recipe, state_bytes
from helpers.run.launch import launch

WIDTH, DEPTH = 1024, 40


def step(rank: int, world_size: int, how: str):
    """One step; returns growth in memory and bytes on the wire."""
    import torch
    from torch.distributed.fsdp import fully_shard
    from torch.nn.parallel import DistributedDataParallel

    from helpers.run.measure.meters import memory, wire
    from helpers.run.models import mlp

    with memory() as grown:
        model = mlp(WIDTH, DEPTH)
        if how == "DDP":
            model = DistributedDataParallel(model)
        else:
            for block in model:
                fully_shard(block)
            fully_shard(model)
        optimizer = torch.optim.Adam(model.parameters())
        with wire() as moved:
            model(torch.ones(2, WIDTH)).sum().backward()
        optimizer.step()
    return grown, moved


def main() -> None:
    params, kept = WIDTH**2 * DEPTH, recipe("fp32")
    memory_rows, wire_rows = {}, {}
    for how, stage in (("DDP", 0), ("FSDP", 3)):
        buffers = buffer_bytes(params, stage, 0, kept)
        for world_size in (1, 2, 4):
            grown, moved = launch(step, world_size, how, timeout_s=120).results[0]
            name, state = f"{how}, N = {world_size}", state_bytes(params, world_size, stage, kept)
            memory_rows[f"{name}: tensors"] = (state, grown.tensors)
            memory_rows[f"{name}: kernel's private"] = (state + buffers, grown.private)
            if world_size > 1:
                wire_rows[f"{name}: sent"] = (4 * step_elements_sent(params, stage, world_size), moved.sent)
    print(predicted_vs_measured(memory_rows, unit="MiB"))
    print()
    print(predicted_vs_measured(wire_rows, unit="MiB", notes=(
        "FSDP sends more than the formula, since gloo's reduce_scatter moves as much as an all_reduce.",)))


if __name__ == "__main__":
    main()
