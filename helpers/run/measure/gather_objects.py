"""What every rank has, on every rank."""
from __future__ import annotations

from typing import Any

import torch.distributed as dist

from helpers.run.process_group import checked_group


def gather_objects(mine: object, process_group: dist.ProcessGroup | None = None) -> list[Any]:
    """`mine` of each rank of `process_group`, or of all, by its rank there; each of these ranks must call it.

    For small things that can be pickled.
    """
    everyone: list[Any] = [None] * dist.get_world_size(checked_group(process_group))
    dist.all_gather_object(everyone, mine, group=process_group)
    return everyone
