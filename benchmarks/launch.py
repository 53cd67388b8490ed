"""Start cost and memory of four ranks, pair by pair in one run: `python -m benchmarks.launch`.

Prints ratios: times differ from machine to machine, ratios much less.
"""
from __future__ import annotations

import statistics

from helpers.run.commands.start_cost import launch_seconds, spawn_seconds, torchrun_seconds
from helpers.run.launch import launch, warm_up

RANKS, PAIRS = 4, 5


def pss_bytes(rank: int, world_size: int) -> int:
    """This rank's proportional set size: a page shared by k processes counts as 1/k."""
    import torch
    import torch.distributed as dist

    dist.all_reduce(torch.ones(1))
    dist.barrier()                               # all ranks are alive while each looks
    with open("/proc/self/smaps_rollup") as rollup:
        found = next(1024 * int(line.split()[1]) for line in rollup if line.startswith("Pss:"))
    dist.barrier()
    return found


def main() -> None:
    warm_up()
    launch_seconds(RANKS)
    for name, seconds in (("torch.multiprocessing.spawn", spawn_seconds), ("torchrun", torchrun_seconds)):
        pairs = [(seconds(RANKS), launch_seconds(RANKS)) for _ in range(PAIRS)]
        ratios = [slow / quick for slow, quick in pairs]
        print(f"{name}: {statistics.median(s for s, _ in pairs):.2f} s, "
              f"launch: {statistics.median(q for _, q in pairs):.3f} s, "
              f"ratio {statistics.median(ratios):.0f} ({min(ratios):.0f} to {max(ratios):.0f})")
    print(f"memory per rank (PSS): {max(launch(pss_bytes, RANKS).results) / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
