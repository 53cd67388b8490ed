"""Run a rank program on processes of our own, or, under torchrun, be one of its ranks.

    python -m helpers ddp                               starts 4 ranks
    torchrun --nproc-per-node 4 -m helpers ddp          is started as 4 ranks

Source: torchrun's documentation, torch.distributed.is_torchelastic_launched.
"""
from __future__ import annotations

import gc
import importlib
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from helpers.facts.errors import BadValue
from helpers.run.launch import launch
from helpers.run.measure.gather_objects import gather_objects


def launch_or_join(program: Callable, world_size: int | None, default: int, *args) -> list[Any] | None:
    """What `program(rank, world_size, *args)` returned, by rank; None on ranks of torchrun other than 0.

    `world_size` is what was asked for: None stands for torchrun's own number, or else `default`.
    """
    if not dist.is_torchelastic_launched():
        return launch(program, default if world_size is None else world_size, *args).results
    # an optimizer would import it later, and so keep the group beyond its end: the process could abort at its exit
    importlib.import_module("torch._dynamo")
    torch.set_num_threads(1)                            # as the fork server does
    dist.init_process_group("gloo")
    try:
        if world_size not in (None, dist.get_world_size()):
            raise BadValue(f"torchrun has started {dist.get_world_size()} ranks, and {world_size} are asked for: leave "
                           "out --world-size")
        results = gather_objects(program(dist.get_rank(), dist.get_world_size(), *args))
        return results if dist.get_rank() == 0 else None
    finally:
        gc.collect()                                    # a DDP that is still alive can hang the next line
        dist.destroy_process_group()
