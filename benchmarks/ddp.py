"""What a step with our bucketed DDP takes, as a multiple of the same step with torch's.

Both run in the same processes, one after the other, so that a busy machine slows both.

    python -m benchmarks.ddp
"""
from __future__ import annotations

from collections.abc import Callable

import torch
from torch.nn.parallel import DistributedDataParallel

from benchmarks.turns import Pairs, ratio, taking_turns
from helpers.run.ddp import DDP, NaiveDDP
from helpers.run.launch import launch
from helpers.run.models import mlp

WIDTH, DEPTH, BATCH, PAIRS = 1024, 10, 8, 15            # 10.5M parameters


def steps(rank: int, world_size: int, contender: str) -> Pairs:
    return taking_turns(_step_of("torch"), _step_of(contender), PAIRS)


def _step_of(which: str) -> Callable[[], None]:
    ddp = {"torch": DistributedDataParallel, "ours": DDP, "naive": NaiveDDP}[which](mlp(WIDTH, DEPTH))

    def step() -> None:
        ddp.zero_grad(set_to_none=True)
        ddp(torch.ones(BATCH, WIDTH)).sum().backward()
        if isinstance(ddp, NaiveDDP):
            ddp.sync_grads()

    return step


def main() -> None:
    for contender in ("ours", "naive"):
        pairs = launch(steps, 4, contender, timeout_s=300).results[0]
        print(f"{contender} DDP / torch's DDP, one step of {WIDTH * WIDTH * DEPTH / 1e6:.1f}M parameters, 4 ranks: "
              f"{ratio(pairs)}")


if __name__ == "__main__":
    main()
