"""Count bytes on the wire and bytes in memory, inside a rank program.

    with wire() as sent:                     with memory() as grown:
        dist.all_reduce(tensor)                  model = Model()
    sent.sent, sent.received                 grown.tensors, grown.private

On the wire: the KERNEL's count of every TCP socket of this process (`TCP_INFO`),
so it holds for any code, DDP's and FSDP's included.  Elsewhere than on Linux
the sizes of the tensors given to torch.distributed are added up instead, which
is less than what a collective moves; `counted_by` is "calls" then.

In memory, twice: the storages of all tensors that Python can reach (exact),
and the private memory that the kernel has given this process (`RssAnon`),
which also holds what C++ keeps, such as DDP's buckets.

Source: Linux, include/uapi/linux/tcp.h (struct tcp_info) and proc_pid_status(5).
"""
from __future__ import annotations

import functools
import gc
import os
import socket
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import psutil
import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from helpers.facts.measured import Memory, Wire
from helpers.run.measure import recorder

# Fields of struct tcp_info as (offset, format).  A send is over for the program while bytes still wait in the
# socket's queue: `unsent` are those.
RECEIVED, UNSENT, SENT, RESENT = (128, "=Q"), (144, "=I"), (200, "=Q"), (208, "=Q")
TCP_INFO_BYTES = 216


_fullest = Memory()                 # of all `memory()` blocks of this process
_kept: list = []                    # process groups that a program has destroyed


def keep_groups() -> None:
    """Have `destroy_process_group` leave the groups' sockets open, since the kernel's counters close with them."""
    destroy = dist.destroy_process_group

    @functools.wraps(destroy)
    def keeping(*args, **kwargs) -> None:
        _kept.extend(c10d._world.pg_map)
        destroy(*args, **kwargs)

    c10d.destroy_process_group = dist.destroy_process_group = keeping


@contextmanager
def wire() -> Iterator[Wire]:
    """Count this rank's bytes on the wire between entry and exit; read `.sent` and `.received` after the block."""
    before, counted = wire_total(), Wire()
    yield counted
    after = wire_total()
    counted.sent, counted.received = after.sent - before.sent, after.received - before.received
    counted.counted_by = after.counted_by


@contextmanager
def memory() -> Iterator[Memory]:
    """Measure by how many bytes this rank grows between entry and exit; read the result after the block.

    .tensors   storages of all tensors that Python can reach, exactly
    .private   the kernel's count of memory that only this process has
    """
    before, grown = _memory_now(), Memory()
    yield grown
    after = _memory_now()
    grown.tensors, grown.private = after.tensors - before.tensors, after.private - before.private
    _fullest.tensors = max(_fullest.tensors, grown.tensors)
    _fullest.private = max(_fullest.private, grown.private)


def largest_growth() -> Memory:
    """The most that any `memory()` block of this process has measured."""
    return _fullest


def wire_total() -> Wire:
    """Everything that this process's sockets have carried so far."""
    if sys.platform != "linux":
        return Wire(*recorder.bytes_handed_over(), "calls")
    total = Wire()
    for info in _tcp_infos():
        received, unsent, sent, resent = (struct.unpack_from(kind, info, offset)[0]
                                          for offset, kind in (RECEIVED, UNSENT, SENT, RESENT))
        total.sent += sent - resent + unsent
        total.received += received
    return total


def _tcp_infos() -> Iterator[bytes]:
    for name in os.listdir("/proc/self/fd"):
        try:
            if not os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                continue
            with socket.socket(fileno=os.dup(int(name))) as copy:
                if copy.family in (socket.AF_INET, socket.AF_INET6) and copy.type == socket.SOCK_STREAM:
                    yield copy.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TCP_INFO_BYTES)
        except OSError:                 # a socket that closed since the folder was listed
            continue


def live_tensor_bytes() -> int:
    """Bytes of the storages of all tensors that Python can reach, each counted once; DTensors by their shard."""
    storages = {}
    for thing in gc.get_objects():
        if issubclass(type(thing), torch.Tensor):       # type(), since isinstance() would wake lazy proxies
            for tensor in (thing, thing.grad if thing.is_leaf else None):
                for part in _plain_parts(tensor):
                    storage = part.untyped_storage()
                    storages[storage.data_ptr()] = storage.nbytes()
    return sum(storages.values())


def _plain_parts(tensor: torch.Tensor | None) -> tuple[torch.Tensor, ...]:
    """The tensors that hold the data: a sparse one has two, and one that only wraps others (DTensor) none."""
    if tensor is None or type(tensor).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
        return ()
    if tensor.layout == torch.sparse_coo:
        return tensor._indices(), tensor._values()
    return (tensor,) if tensor.layout == torch.strided and tensor.device.type == "cpu" else ()


def private_bytes() -> int:
    """Bytes of memory that only this process has, by the kernel's count (`RssAnon`)."""
    if sys.platform != "linux":
        return psutil.Process().memory_full_info().uss
    with open("/proc/self/status") as status:
        return next(1024 * int(line.split()[1]) for line in status if line.startswith("RssAnon"))


def _memory_now() -> Memory:
    gc.collect()                        # what nobody refers to any more is not live
    return Memory(live_tensor_bytes(), private_bytes())
