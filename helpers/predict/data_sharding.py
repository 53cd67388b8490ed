"""What loaders draw, right and wrong ones, in numbers.

    S   samples          N   ranks          B   samples a step, on each rank

                                  steps               draws        unique share of a global batch
    DistributedSampler            ceil(S/N) / B       N ceil(S/N)  1, but for padding
    no sampler, one seed          S / B               N S          1 / N
    no sampler, a seed a rank     S / B               N S          S (1 - (1 - B/S)^N) / (N B), on average

Steps are rounded up.  The last line: a sample is missing from a rank's batch with 1 - B/S, from all with that to the N.
"""
from __future__ import annotations

import math
from dataclasses import dataclass

from helpers.facts.errors import BadValue


@dataclass(frozen=True)
class Drawn:
    """What a loader draws in an epoch: steps, draws and samples."""

    num_steps: int              # of an epoch, on each rank
    num_draws: int              # of an epoch, by all ranks
    unique_share: float         # of a full global batch


def drawn(how: str, num_samples: int, world_size: int, batch_size: int) -> Drawn:
    """Steps, draws and the unique share of a global batch, by the table at the top of this module.

    how          "sampler" (DistributedSampler), "one seed" (all ranks draw alike) or "a seed a rank"
    batch_size   of each rank, in samples
    Raises `BadValue` for any other `how`, for counts below 1, and for a batch that is larger than the data.
    """
    if min(num_samples, world_size, batch_size) < 1 or batch_size > num_samples:
        raise BadValue(f"samples, ranks and batch are 1 or more, and a batch is no larger than the data, not "
                       f"{num_samples}, {world_size}, {batch_size}")
    if how == "sampler":
        own = math.ceil(num_samples / world_size)
        return Drawn(math.ceil(own / batch_size), world_size * own, 1.0)
    steps, draws = math.ceil(num_samples / batch_size), world_size * num_samples
    if how == "one seed":
        return Drawn(steps, draws, 1 / world_size)
    if how == "a seed a rank":
        missed_by_all = (1 - batch_size / num_samples) ** world_size
        return Drawn(steps, draws, num_samples * (1 - missed_by_all) / (world_size * batch_size))
    raise BadValue(f'how is "sampler", "one seed" or "a seed a rank", not {how!r}')
