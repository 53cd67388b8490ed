"""What a collective needs of a network: send, receive, and both at once.

    mesh.rank, mesh.world_size
    mesh.send(tensor, to)                               may return only when `to` has received
    mesh.recv(tensor, source)                           fills `tensor`
    mesh.exchange(outgoing, to, incoming, source)       both at once
    mesh.isend(tensor, to), mesh.irecv(tensor, source)  begin; `.wait()`, once, ends
    mesh.add(into, tensor)                              into += tensor

An algorithm that is written over these runs on three transports: `GlooMesh`
here, for real; `QueueMesh` (queue_mesh.py), without torch.distributed, to see how
it works; `VirtualMesh` (virtual_mesh.py), on a clock that is computed, for any
network and a thousand ranks.  A rank program takes the mesh first:
`program(mesh, *args)`.  Tensors are torch's or numpy's.
"""
from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Protocol

import numpy
import torch
import torch.distributed as dist

from helpers.facts.errors import BadValue
from helpers.run.launch import Run, launch
from helpers.run.process_group import checked_group

Tensor = torch.Tensor | numpy.ndarray


def flatten(tensor: Tensor) -> Tensor:
    """All elements in one row, as a view: what is written there is written to the tensor."""
    contiguous = tensor.flags.c_contiguous if isinstance(tensor, numpy.ndarray) else tensor.is_contiguous()
    if not contiguous:
        raise BadValue("a collective works in place on a contiguous tensor: give it tensor.contiguous()")
    return tensor if tensor.ndim == 1 else tensor.reshape(-1)


def empty(like: Tensor, num_elements: int) -> Tensor:
    """A new flat tensor of the same library and dtype."""
    if isinstance(like, numpy.ndarray):
        return numpy.empty(num_elements, like.dtype)
    return like.new_empty(num_elements)


def check_program(program: Callable, args: tuple, kwargs: dict) -> None:
    """Refuse what cannot be called as `program(mesh, *args, **kwargs)`."""
    if not callable(program):
        raise BadValue(f"a rank program is a function program(mesh, ...), not {program!r}")
    try:
        signature = inspect.signature(program)
    except ValueError:                                  # of a built-in function
        return
    try:
        signature.bind(None, *args, **kwargs)
    except TypeError as error:
        raise BadValue(f"a rank program is called as program(mesh, ...) with what else you gave; {error}") from None


class Work(Protocol):
    """A message on its way."""

    def wait(self) -> object:
        """Return when the message has left, or has arrived."""


class Mesh:
    """What all transports share; each says how `isend` and `irecv` begin."""

    rank: int
    world_size: int

    def isend(self, tensor: Tensor, to: int) -> Work:
        """Begin to send a contiguous tensor to a rank."""
        raise NotImplementedError

    def irecv(self, tensor: Tensor, source: int) -> Work:
        """Begin to receive into a contiguous tensor from a rank."""
        raise NotImplementedError

    def send(self, tensor: Tensor, to: int) -> None:
        """Send, and return when the tensor may be used again."""
        self.isend(tensor, to).wait()

    def recv(self, tensor: Tensor, source: int) -> None:
        """Receive, and return when the tensor is filled."""
        self.irecv(tensor, source).wait()

    def exchange(self, outgoing: Tensor, to: int, incoming: Tensor, source: int) -> None:
        """Send and receive at the same time: a ring in which all send first would never end."""
        sending, receiving = self.isend(outgoing, to), self.irecv(incoming, source)
        sending.wait()
        receiving.wait()

    def add(self, into: Tensor, tensor: Tensor) -> None:
        """Add `tensor` to `into`, in place; a virtual mesh charges time for it."""
        into += tensor

    def distance_from(self, root: int) -> int:
        """How many ranks this one is above `root`, going round."""
        if type(root) is not int or not 0 <= root < self.world_size:
            raise BadValue(f"there is no rank {root!r} in a world of {self.world_size}")
        return (self.rank - root) % self.world_size

    def other(self, rank: int) -> int:
        """`rank`, if there is such a rank besides this one."""
        if type(rank) is int and rank != self.rank and 0 <= rank < self.world_size:
            return rank
        hint = ": make it an int" if isinstance(rank, numpy.integer) else ""
        raise BadValue(f"rank {self.rank} can send to and receive from the other ranks of {self.world_size}, "
                       f"not {rank!r}{hint}")


class GlooMesh(Mesh):
    """Point-to-point calls of torch.distributed inside `process_group`, whose ranks count from 0; None: all ranks."""

    def __init__(self, process_group: dist.ProcessGroup | None = None):
        self.process_group = checked_group(process_group)
        self.rank, self.world_size = dist.get_rank(process_group), dist.get_world_size(process_group)

    def isend(self, tensor: Tensor, to: int) -> Work:
        """Begin to send, by torch.distributed.isend."""
        return dist.isend(_torch(tensor), group=self.process_group, group_dst=self.other(to))

    def irecv(self, tensor: Tensor, source: int) -> Work:
        """Begin to receive, by torch.distributed.irecv."""
        return dist.irecv(_torch(tensor), group=self.process_group, group_src=self.other(source))

    def send(self, tensor: Tensor, to: int) -> None:
        """Send; gloo returns when the receiver has begun to receive."""
        dist.send(_torch(tensor), group=self.process_group, group_dst=self.other(to))

    def recv(self, tensor: Tensor, source: int) -> None:
        """Receive, and return when the tensor is filled."""
        dist.recv(_torch(tensor), group=self.process_group, group_src=self.other(source))


def _torch(tensor: Tensor) -> torch.Tensor:
    return torch.as_tensor(flatten(tensor)).detach()


def run_on_gloo(program: Callable, world_size: int, *args, timeout_s: float = 30.0, **kwargs) -> Run:
    """`launch(program, world_size)` for `program(mesh, *args, **kwargs)`: real ranks on gloo; returns a `Run`.

    Raises `BadValue` for a program that cannot be called so, and what `launch` raises.
    """
    check_program(program, args, kwargs)
    return launch(_on_gloo, world_size, program, *args, timeout_s=timeout_s, **kwargs)


def _on_gloo(rank: int, world_size: int, program: Callable, *args, **kwargs) -> object:
    return program(GlooMesh(), *args, **kwargs)
