"""What every rank has, on every rank."""
from __future__ import annotations

from typing import Any

import torch.distributed as dist


def gather_objects(mine: object) -> list[Any]:
    """`mine` of each rank, by rank; every rank must call it.  For small things that can be pickled."""
    everyone: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, mine)
    return everyone
