"""Data that is the same in every process."""
from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import torch
from torch.utils.data import IterableDataset, TensorDataset, get_worker_info


def regression(num_samples: int, num_features: int = 16, num_targets: int = 4, seed: int = 0) -> TensorDataset:
    """x [num_samples, num_features] and y [num_samples, num_targets]: a random linear map of x, and some noise."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(num_samples, num_features, generator=generator)
    weight = torch.randn(num_features, num_targets, generator=generator)
    noise = torch.randn(num_samples, num_targets, generator=generator)
    return TensorDataset(x, x @ weight / num_features**0.5 + 0.1 * noise)


class Stream(IterableDataset):
    """The numbers that `pick(worker)` gives; `worker` has `id` and `num_workers`, or is None if there are none."""

    def __init__(self, pick: Callable[[object], Iterable[int]]):
        self.pick = pick

    def __iter__(self) -> Iterator[int]:
        return iter(self.pick(get_worker_info()))
