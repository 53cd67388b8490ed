"""Data that is the same in every process, and the loss of a batch that ranks share unequally."""
from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import torch
import torch.distributed as dist
from torch import Tensor
from torch.utils.data import IterableDataset, TensorDataset, get_worker_info

from helpers.facts.errors import BadValue


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


def part_of_batch(num_samples: int, rank: int, world_size: int) -> slice:
    """The samples of a batch that are this rank's: contiguous, and the first ranks have one more if they must."""
    size, longer = divmod(num_samples, world_size)
    start = rank * size + min(rank, longer)
    return slice(start, start + size + (rank < longer))


def global_mean(loss_sum: Tensor, count: int) -> Tensor:
    """The loss to call backward on when ranks have different numbers of samples or tokens.

    loss_sum   sum of the losses of this rank's items, a scalar
    count      how many items those are; 0 is allowed, as long as the sum depends on the parameters

    After data parallel has taken the mean over ranks, the gradient is that of the mean over
    ALL items: (1/N) sum_r [ N L_r / sum_r n_r ] = sum_r L_r / sum_r n_r.
    """
    total = torch.tensor(count, dtype=torch.float64)        # exact up to 2**53 items
    dist.all_reduce(total)
    if not total > 0:
        raise BadValue("no rank has an item in this step, so there is no mean")
    return loss_sum * (dist.get_world_size() / total.item())
