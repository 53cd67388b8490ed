"""Rank programs, good and bad.  A module of its own, so that the ranks need not import pytest."""
import os
import signal
import subprocess
import sys
import threading
import time

import torch
import torch.distributed as dist

from helpers.run.launch import preload


def sums(rank, world_size, factor=1):
    tensor = torch.tensor([10.0**rank]) * factor
    dist.all_reduce(tensor)
    return tensor.item()


def speaks(rank, world_size):
    print("rank", rank, "of", world_size)
    os.system(f"echo from a child of {rank}")
    print("to stderr", file=sys.stderr)


def raises(rank, world_size):
    if rank == 1:
        return 1 / 0
    dist.barrier()


def exits(rank, world_size):
    if rank == 1:
        os._exit(3)
    dist.barrier()


def leaves(rank, world_size):
    if rank == 1:
        sys.exit("enough")
    dist.barrier()


def is_killed(rank, world_size):
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    dist.barrier()


def aborts(rank, world_size):
    if rank == 1:
        os.abort()
    dist.barrier()


def gives_other_sizes(rank, world_size):
    dist.all_reduce(torch.ones(4 if rank else 8))


def hangs_in_collective(rank, world_size):
    dist.all_reduce(torch.ones(1))
    if rank == 1:
        dist.broadcast(torch.ones(1), src=0)
        time.sleep(60)
    dist.barrier()


def hangs_in_python(rank, world_size):
    if rank == 1:
        while True:
            pass
    dist.barrier()


def both_send_first(rank, world_size):
    dist.send(torch.ones(1), 1 - rank)
    dist.recv(torch.ones(1), 1 - rank)


def returns_early(rank, world_size):
    if rank != 1:
        dist.all_reduce(torch.ones(1))


def prints_without_end(rank, world_size):
    if rank == 1:
        line = "x" * 1000
        while True:
            print(line)
    dist.barrier()


def returns_something_huge(rank, world_size):
    return torch.ones(10**8) if rank == 1 else None


def returns_a_lock(rank, world_size):
    return threading.Lock() if rank == 1 else None


class ReadsBadly:
    def __reduce__(self):
        return int, ("not a number",)


def returns_what_cannot_be_read(rank, world_size):
    return ReadsBadly() if rank == 1 else None


def starts_a_child(rank, world_size):
    child = subprocess.Popen(["sleep", "1000"])
    return child.pid


def sleeps(rank, world_size, seconds):
    time.sleep(seconds)


def wrong_here(rank, world_size):
    if rank == 1:
        raise KeyError("first")
    time.sleep(0.2)
    raise ValueError("second")


preload(__name__)
