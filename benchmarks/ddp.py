"""What a step with our bucketed DDP takes, as a multiple of the same step with torch's.

Both run in the same processes, one after the other, so that a busy machine slows both.

    python -m benchmarks.ddp
"""
from __future__ import annotations

import statistics
import time

import torch
import torch.distributed as dist
from torch import nn

from helpers.run.ddp import DDP, NaiveDDP
from helpers.run.launch import launch
from helpers.run.models import mlp

WIDTH, DEPTH, BATCH, PAIRS = 1024, 10, 8, 15            # 10.5M parameters


def steps(rank: int, world_size: int, contender: str) -> list[tuple[float, float]]:
    """Seconds of a step of torch's DDP and of the contender, taking turns in who goes first."""
    both = [_wrapped("torch"), _wrapped(contender)]
    for ddp in both * 3:                                # torch forms its buckets anew after the first step
        _step(ddp)
    pairs = []
    for number in range(PAIRS):
        order = both[:: 1 if number % 2 else -1]
        seconds = {ddp: _step(ddp) for ddp in order}
        pairs.append((seconds[both[0]], seconds[both[1]]))
    return pairs


def _wrapped(which: str) -> nn.Module:
    wrap = {"torch": nn.parallel.DistributedDataParallel, "ours": DDP, "naive": NaiveDDP}[which]
    return wrap(mlp(WIDTH, DEPTH))


def _step(ddp: nn.Module) -> float:
    ddp.zero_grad(set_to_none=True)
    dist.barrier()
    start = time.perf_counter()
    ddp(torch.ones(BATCH, WIDTH)).sum().backward()
    if isinstance(ddp, NaiveDDP):
        ddp.sync_grads()
    dist.barrier()                                      # a step is over when it is over on all ranks
    return time.perf_counter() - start


def main() -> None:
    for contender in ("ours", "naive"):
        pairs = launch(steps, 4, contender, timeout_s=300).results[0]
        low, middle, high = statistics.quantiles([theirs / torchs for torchs, theirs in pairs], n=4)
        print(f"{contender} DDP / torch's DDP, one step of {WIDTH * WIDTH * DEPTH / 1e6:.1f}M parameters, 4 ranks: "
              f"{middle:.2f} (quartiles {low:.2f} to {high:.2f}; "
              f"torch's {1e3 * statistics.median(torchs for torchs, _ in pairs):.0f} ms)")


if __name__ == "__main__":
    main()
