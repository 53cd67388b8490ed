"""Two ways of one step, taking turns in the same processes, so that a busy machine slows both."""
from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch.distributed as dist

Pairs = list[tuple[float, float]]


def taking_turns(torchs: Callable[[], object], ours: Callable[[], object], num_pairs: int) -> Pairs:
    """Seconds of a step of torch's and of ours; each goes first in half of the pairs."""
    both, pairs = [torchs, ours], []
    for step in both * 3:                               # torch forms buckets and learns shapes in the first ones
        _seconds(step)
    for number in range(num_pairs):
        seconds = {step: _seconds(step) for step in both[:: 1 if number % 2 else -1]}
        pairs.append((seconds[torchs], seconds[ours]))
    return pairs


def ratio(pairs: Pairs) -> str:
    low, middle, high = statistics.quantiles([ours / torchs for torchs, ours in pairs], n=4)
    return (f"{middle:.2f} (quartiles {low:.2f} to {high:.2f}; "
            f"torch's {1e3 * statistics.median(torchs for torchs, _ in pairs):.0f} ms)")


def _seconds(step: Callable[[], object]) -> float:
    dist.barrier()
    start = time.perf_counter()
    step()
    dist.barrier()                                      # a step is over when it is over on all ranks
    return time.perf_counter() - start
