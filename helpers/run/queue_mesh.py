"""A mesh of queues: real processes, no torch.distributed, numpy on the wire.

    run = run_on_queues(program, 4)
    run.wire[2].sent                    # bytes that rank 2 has put on its queues

There is a queue from each rank to each other one.  A queue takes any number of
messages, so `send` returns at once; gloo's waits for the receiver.  Bytes, not tensors,
go on a queue: a tensor would travel as a handle to memory that ends with its sender.
"""
from __future__ import annotations

import queue
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy
import torch

from helpers.facts.errors import BadValue, CourseError
from helpers.run import forks, request
from helpers.run.launch import Run, run_ranks
from helpers.run.letter import Wire
from helpers.run.mesh import Mesh, Tensor

DEADLINE_S = 30.0               # of one receive
MARGIN_S = 30.0                 # of the run beyond that

queues: dict = {}               # in a rank: (source, to) -> queue, set before the program runs


class NothingCame(CourseError, TimeoutError):
    """A message was not there at the deadline; says who waited for whom."""


class _Sent:
    def wait(self) -> None:
        """A queue has taken the message already."""


@dataclass
class _Awaited:
    mesh: QueueMesh
    source: int
    tensor: Tensor
    done: bool = False

    def wait(self) -> None:
        """Take messages off the queue, in order, until this one is there."""
        while not self.done:
            self.mesh.take(self.source)


class QueueMesh(Mesh):
    """One rank; counts what it sends and receives."""

    def __init__(self, rank: int, world_size: int, deadline_s: float):
        self.rank, self.world_size, self.deadline_s = rank, world_size, deadline_s
        self.wire = Wire(counted_by="mesh")
        self.awaited = {source: deque() for source in range(world_size)}

    def isend(self, tensor: Tensor, to: int) -> _Sent:
        data = _bytes_of(tensor).tobytes()              # a copy: the queue may read it later
        queues[self.rank, self.other(to)].put(data)
        self.wire.sent += len(data)
        return _Sent()

    def irecv(self, tensor: Tensor, source: int) -> _Awaited:
        work = _Awaited(self, source, tensor)
        self.awaited[self.other(source)].append(work)
        return work

    def take(self, source: int) -> None:
        """Fill the tensor that has waited longest for `source`."""
        work = self.awaited[source].popleft()
        try:
            data = queues[source, self.rank].get(timeout=self.deadline_s)
        except queue.Empty:
            raise NothingCame(f"rank {self.rank} waited {self.deadline_s:g} s for a message from rank {source}, "
                              "and none came") from None
        target = _bytes_of(work.tensor)
        if len(data) != len(target):
            raise BadValue(f"rank {source} has sent {len(data)} bytes to rank {self.rank}, which expects {len(target)}")
        target[:] = numpy.frombuffer(data, numpy.uint8)
        self.wire.received += len(data)
        work.done = True


def _bytes_of(tensor: Tensor) -> numpy.ndarray:
    """The memory of a contiguous tensor, as bytes."""
    if isinstance(tensor, torch.Tensor):
        return tensor.detach().view(torch.uint8).numpy() if tensor.numel() else numpy.empty(0, numpy.uint8)
    return tensor.view(numpy.uint8)


def run_on_queues(program: Callable, world_size: int, *args, deadline_s: float = DEADLINE_S, **kwargs) -> Run:
    """Run `program(mesh, *args, **kwargs)` on processes that are joined by queues alone.

    A receive fails after `deadline_s` seconds.  Raises what `launch` raises.
    """
    if not callable(program):
        raise BadValue(f"run_on_queues takes a function program(mesh, ...), not {program!r}")
    payload = request.pack(_on_queues, world_size, deadline_s, (program, deadline_s, args, kwargs), {})
    between = {(source, to): forks.context().Queue() for source in range(world_size) for to in range(world_size)
               if source != to}
    run = run_ranks(payload, world_size, deadline_s + MARGIN_S, between)
    return replace(run, results=[result for result, _ in run.results], wire=[wire for _, wire in run.results])


def _on_queues(rank: int, world_size: int, program: Callable, deadline_s: float, args: tuple, kwargs: dict) -> tuple:
    mesh = QueueMesh(rank, world_size, deadline_s)
    result = program(mesh, *args, **kwargs)
    for (source, _), one in queues.items():
        if source == rank:
            one.close()
            one.join_thread()           # what has been sent must leave before this process does
    return result, mesh.wire
