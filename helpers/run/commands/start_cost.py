"""What it costs to start ranks: torch's `spawn` and `torchrun` against the fork server of `launch`.

All three run the same program: join, one all_reduce, leave.  `spawn` and
`torchrun` give every rank a new interpreter that imports torch; `launch`
copies one that has.
"""
from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from helpers.run.launch import launch


def add_up(rank: int, world_size: int) -> float:
    """The program: the sum of 10**rank over all ranks."""
    tensor = torch.tensor([10.0**rank])
    dist.all_reduce(tensor)
    return tensor.item()


def launch_seconds(world_size: int) -> float:
    """Wall time of one `launch`, in seconds."""
    return launch(add_up, world_size).wall_s


def spawn_seconds(world_size: int) -> float:
    """Wall time of one `torch.multiprocessing.spawn`, in seconds."""
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        mp.spawn(_spawned, args=(world_size, f"file://{folder}/rendezvous"), nprocs=world_size)
        return time.perf_counter() - started


def torchrun_seconds(world_size: int) -> float:
    """Wall time of one `torchrun`, in seconds."""
    started = time.perf_counter()
    subprocess.run([sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={world_size}",
                    Path(__file__)], check=True, capture_output=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    return time.perf_counter() - started


def _spawned(rank: int, world_size: int, rendezvous: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=rendezvous, rank=rank, world_size=world_size,
                            timeout=timedelta(seconds=60))
    add_up(rank, world_size)
    dist.destroy_process_group()


if __name__ == "__main__":                      # what torchrun runs
    dist.init_process_group("gloo")
    add_up(dist.get_rank(), dist.get_world_size())
    dist.destroy_process_group()
