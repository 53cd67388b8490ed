"""A mesh of queues: real processes, no torch.distributed, numpy on the wire.

    run = run_on_queues(program, 4)
    run.wire[2].sent                    # bytes that rank 2 has put on its queues

There is a queue from each rank to each other one.  A queue takes any number of
messages, so `send` returns at once; gloo's waits for the receiver.  Bytes, not tensors,
go on a queue: a tensor would travel as a handle to memory that ends with its sender.
"""
from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.queues import Queue

import numpy
import torch

from helpers.facts.errors import BadValue, CourseError
from helpers.facts.measured import Wire
from helpers.run.collectives.mesh import Mesh, Tensor, check_program, flatten
from helpers.run.launch import Run, check_call, fork_server
from helpers.run.launch.launcher import run_ranks
from helpers.run.launch.outcome import Counted

DEADLINE_S = 30.0               # of one receive
MARGIN_S = 30.0                 # of the run beyond that
MOST_RANKS = 16                 # each has a queue to each other one


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
    """One rank; counts what it sends and receives.

    queues      {(source, to): queue}, those that this rank puts on or takes from
    deadline_s  of one receive, in seconds; `NothingCame` after it
    """

    def __init__(self, rank: int, world_size: int, queues: dict[tuple[int, int], Queue], deadline_s: float):
        self.rank, self.world_size, self.queues, self.deadline_s = rank, world_size, queues, deadline_s
        self.wire = Wire(counted_by="mesh")
        self.awaited = {source: deque() for source in range(world_size)}

    def isend(self, tensor: Tensor, to: int) -> _Sent:
        """Put a copy of the tensor on the queue to a rank."""
        data = _bytes_of(tensor).tobytes()              # a copy: the queue may read it later
        self.queues[self.rank, self.other(to)].put((str(tensor.dtype), data))
        self.wire.sent += len(data)
        return _Sent()

    def irecv(self, tensor: Tensor, source: int) -> _Awaited:
        """Ask for the next message from a rank; it is taken off the queue by `wait`."""
        work = _Awaited(self, source, tensor)
        self.awaited[self.other(source)].append(work)
        return work

    def take(self, source: int) -> None:
        """Fill the tensor that has waited longest for `source`."""
        work = self.awaited[source][0]
        try:
            dtype, data = self.queues[source, self.rank].get(timeout=self.deadline_s)
        except queue.Empty:
            raise NothingCame(f"rank {self.rank} waited {self.deadline_s:g} s for a message from rank {source}, "
                              "and none came") from None
        target = _bytes_of(work.tensor)
        if (len(data), dtype) != (len(target), str(work.tensor.dtype)):
            raise BadValue(f"rank {source} has sent {len(data)} bytes of {dtype} to rank {self.rank}, which expects "
                           f"{len(target)} of {work.tensor.dtype}")
        target[:] = numpy.frombuffer(data, numpy.uint8)
        self.wire.received += len(data)
        work.done = True
        self.awaited[source].popleft()


def _bytes_of(tensor: Tensor) -> numpy.ndarray:
    """The memory of a contiguous tensor, as bytes."""
    row = flatten(tensor)
    return row.view(numpy.uint8) if isinstance(row, numpy.ndarray) else row.detach().view(torch.uint8).numpy()


def run_on_queues(program: Callable, world_size: int, *args, deadline_s: float = DEADLINE_S, **kwargs) -> Run:
    """Run `program(mesh, *args, **kwargs)` on processes that are joined by queues alone.

    A receive fails after `deadline_s` seconds, the whole run `MARGIN_S` later.  Raises what `launch` raises.
    """
    check_program(program, args, kwargs)
    if type(world_size) is not int or not 1 <= world_size <= MOST_RANKS:
        raise BadValue(f"world_size is a whole number from 1 to {MOST_RANKS} on queues, not {world_size!r}")
    if not isinstance(deadline_s, (int, float)) or not 0 < deadline_s < 3600:
        raise BadValue(f"deadline_s is a number of seconds above 0 and below an hour, not {deadline_s!r}")
    payload = check_call.check_and_pickle(_on_queues, world_size, deadline_s, (program, deadline_s, args, kwargs), {})
    between = {(source, to): fork_server.context().Queue() for source in range(world_size) for to in range(world_size)
               if source != to}
    return run_ranks(payload, world_size, deadline_s + MARGIN_S, between)


def _on_queues(rank: int, world_size: int, program: Callable, deadline_s: float, args: tuple, kwargs: dict,
               queues: dict[tuple[int, int], Queue] | None = None) -> Counted:
    mesh = QueueMesh(rank, world_size, queues, deadline_s)
    result = program(mesh, *args, **kwargs)
    for (source, to), one in queues.items():
        if source == rank:
            one.close()
            leaving = threading.Thread(target=one.join_thread, daemon=True)
            leaving.start()
            leaving.join(deadline_s)            # what has been sent must leave before this process does
            if leaving.is_alive():
                raise NothingCame(f"rank {rank} has sent to rank {to}, which did not receive all of it in "
                                  f"{deadline_s:g} s")
    return Counted(result, mesh.wire)
