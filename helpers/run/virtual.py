"""Play a rank program on a virtual clock: any network, a thousand ranks, one process.

    played = play(program, 1024, network=network(alpha_s=5e-6, beta_s=1e-11))
    played.time_s

The data moves for real; only time is computed (clock.py).  When no rank can go
on and no message is left, `Deadlock` says who waits for whom.
"""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from helpers.facts.errors import BadValue
from helpers.facts.network import STEPS, Network
from helpers.facts.trace import Trace
from helpers.run.clock import Clock, Deadlock, Message
from helpers.run.letter import Wire
from helpers.run.mesh import Mesh, Tensor

__all__ = ["Deadlock", "Played", "VirtualMesh", "play"]

MOST_RANKS = 1024


@dataclass(frozen=True)
class Played:
    """What a play gave; lists are by rank."""

    results: list[Any]
    wire: list[Wire]
    time_s: float                       # when the last rank was done
    trace: Trace                        # a span for each message, on its sender, and for each addition; if asked for

    def __repr__(self) -> str:
        return f"<{len(self.results)} ranks played in {self.time_s:.6g} virtual s>"


class VirtualMesh(Mesh):
    """One rank of a play."""

    def __init__(self, rank: int, world_size: int, clock: Clock):
        self.rank, self.world_size, self.clock = rank, world_size, clock

    def isend(self, tensor: Tensor, to: int) -> Message:
        return self.clock.post(self.rank, self.other(to), tensor, sends=True)

    def irecv(self, tensor: Tensor, source: int) -> Message:
        return self.clock.post(self.other(source), self.rank, tensor, sends=False)

    def exchange(self, outgoing: Tensor, to: int, incoming: Tensor, source: int) -> None:
        """As in `Mesh`, in fewer calls: a play has millions."""
        sending = self.clock.post(self.rank, self.other(to), outgoing, True)
        receiving = self.clock.post(self.other(source), self.rank, incoming, False)
        sending.wait()
        receiving.wait()

    def add(self, into: Tensor, tensor: Tensor) -> None:
        into += tensor
        self.clock.add(self.rank, self.clock.size(tensor))


def play(program: Callable, world_size: int, *args, network: Network = STEPS, bytes_per_element: float | None = None,
         traced: bool = False, **kwargs) -> Played:
    """Play `program(mesh, *args, **kwargs)` on `world_size` ranks of a network.

    `bytes_per_element` makes each element of a small tensor stand for more bytes than it has.
    """
    if type(world_size) is not int or not 1 <= world_size <= MOST_RANKS:
        raise BadValue(f"world_size is a whole number from 1 to {MOST_RANKS}, not {world_size!r}")
    clock = Clock(world_size, network, bytes_per_element, traced)
    results = clock.conduct([partial(program, VirtualMesh(rank, world_size, clock), *args, **kwargs)
                             for rank in range(world_size)])
    return Played(results, clock.wire, max(clock.now), clock.trace or [])
