"""A batch that ranks share: which samples are whose, and the mean over all of them when the parts are unequal."""
from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor

from helpers.facts.errors import BadValue
from helpers.run.process_group import checked_group


def part_of_batch(num_samples: int, rank: int, world_size: int) -> slice:
    """The slice of a batch of `num_samples` that is this rank's: contiguous, [B/N], the first ranks one longer."""
    size, longer = divmod(num_samples, world_size)
    start = rank * size + min(rank, longer)
    return slice(start, start + size + (rank < longer))


def global_mean(loss_sum: Tensor, count: int, process_group: dist.ProcessGroup | None = None) -> Tensor:
    """The loss to call backward on when ranks have different numbers of samples or tokens.

    loss_sum   sum of the losses of this rank's items, a scalar
    count      how many items those are; 0 is allowed, as long as the sum depends on the parameters
    process_group   the N ranks over which gradients are averaged, along all axes of a mesh that do so; None: all ranks

    After data parallel has taken the mean over those ranks, the gradient is that of the mean over
    ALL items: (1/N) sum_r [ N L_r / sum_r n_r ] = sum_r L_r / sum_r n_r.
    """
    total = torch.tensor(count, dtype=torch.float64)        # exact up to 2**53 items
    dist.all_reduce(total, group=checked_group(process_group))
    if not total > 0:
        raise BadValue("no rank has an item in this step, so there is no mean")
    return loss_sum * (dist.get_world_size(process_group) / total.item())
