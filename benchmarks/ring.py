"""Our ring against gloo's all_reduce, and a thousand virtual ranks: `python -m benchmarks.ring`.

Pair by pair in one run, each time the slowest rank's.  A ratio above 1 says that ours is faster.
"""
from __future__ import annotations

import statistics
import time

import numpy
import torch
import torch.distributed as dist

from helpers.facts.network import network
from helpers.run.collectives import Mesh, pipelined_ring_all_reduce, play, ring_all_reduce, run_on_gloo

PAIRS = {4_000: 101, 1_000_000: 61, 16_000_000: 31, 64_000_000: 21}         # by bytes of the tensor
WARM_UPS = 3


def pairs_of_seconds(mesh: Mesh, num_bytes: int, num_pairs: int) -> list[dict[str, float]]:
    """This rank's seconds for each, taking turns in who goes first."""
    tensor = torch.zeros(num_bytes // 4)
    contenders = {"gloo": dist.all_reduce, "pipelined": lambda t: pipelined_ring_all_reduce(mesh, t),
                  "plain": lambda t: ring_all_reduce(mesh, t)}
    measured = []
    for number in range(WARM_UPS + num_pairs):
        names = list(contenders)[:: 1 if number % 2 else -1]
        measured.append({name: _seconds(contenders[name], tensor) for name in names})
    return measured[WARM_UPS:]


def _seconds(all_reduce, tensor: torch.Tensor) -> float:
    dist.barrier()
    started = time.perf_counter()
    all_reduce(tensor)
    return time.perf_counter() - started


def ratios(name: str, by_rank: list[list[dict[str, float]]]) -> str:
    slowest = [{key: max(pair[key] for pair in pairs) for key in pairs[0]} for pairs in zip(*by_rank, strict=True)]
    quartiles = statistics.quantiles([pair["gloo"] / pair[name] for pair in slowest], n=4)
    return f"{quartiles[1]:.2f} ({quartiles[0]:.2f} to {quartiles[2]:.2f})"


def main() -> None:
    for world_size in (2, 4):
        for num_bytes, num_pairs in PAIRS.items():
            by_rank = run_on_gloo(pairs_of_seconds, world_size, num_bytes, num_pairs, timeout_s=120).results
            shown = ", ".join(f"{name} {ratios(name, by_rank)}" for name in ("pipelined", "plain"))
            print(f"{world_size} ranks, {num_bytes / 1e6:g} MB, bandwidth against gloo's all_reduce: {shown}")
    started = time.perf_counter()
    played = play(lambda mesh: ring_all_reduce(mesh, numpy.ones(1024, "f")), 1024, network=network(5e-6, 1e-10, 1e-11))
    print(f"ring all-reduce of 1,024 virtual ranks: {time.perf_counter() - started:.1f} s, {played}")


if __name__ == "__main__":
    main()
