"""What a step of ZeRO takes, ours as a multiple of PyTorch's.

Stages 1 and 2 against ZeroRedundancyOptimizer beside DDP, stage 3 against fully_shard.  Both run in the same
processes, one after the other, so that a busy machine slows both.

    python -m benchmarks.zero
"""
from __future__ import annotations

from collections.abc import Callable

import torch
from torch.distributed.fsdp import fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

from benchmarks.turns import Pairs, ratio, taking_turns
from helpers.run.launch import launch
from helpers.run.models import mlp
from helpers.run.zero import Zero1, Zero2, Zero3

WIDTH, DEPTH, BATCH, PAIRS = 1024, 10, 8, 15            # 10.5M parameters
AGAINST = {"stage 1": "ZeroRedundancyOptimizer", "stage 2": "ZeroRedundancyOptimizer", "stage 3": "fully_shard"}


def steps(rank: int, world_size: int, contender: str) -> Pairs:
    return taking_turns(_step_of(AGAINST[contender]), _step_of(contender), PAIRS)


def _step_of(which: str) -> Callable[[], None]:
    model = mlp(WIDTH, DEPTH)
    if which == "ZeroRedundancyOptimizer":
        model = DistributedDataParallel(model)
        optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam)
    elif which == "fully_shard":
        for unit in (*model, model):
            fully_shard(unit)
        optimizer = torch.optim.Adam(model.parameters())
    else:
        model = {"stage 1": Zero1, "stage 2": Zero2}[which](model) if which != "stage 3" else \
            Zero3(model, units=list(model))
        optimizer = model

    def step() -> None:
        optimizer.zero_grad()
        model(torch.ones(BATCH, WIDTH)).sum().backward()
        optimizer.step()

    return step


def main() -> None:
    for contender, torchs in AGAINST.items():
        pairs = launch(steps, 4, contender, timeout_s=300).results[0]
        print(f"{contender} / {torchs}, one step of {WIDTH * WIDTH * DEPTH / 1e6:.1f}M parameters, 4 ranks: "
              f"{ratio(pairs)}")


if __name__ == "__main__":
    main()
