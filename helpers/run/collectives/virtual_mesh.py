"""Play a rank program on a virtual clock: any network, a thousand ranks, one process.

    played = play(program, 1024, network=network(alpha_s=5e-6, beta_s=1e-11))
    played.time_s

The data moves for real; only time is computed (clock.py).  When no rank can go
on, `Deadlock` says who waits for whom.

Each rank has its own copy of the arguments.  What else a program uses, global
variables and random generators, all ranks share, unlike real ones.
"""
from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from helpers.facts.errors import BadValue
from helpers.facts.measured import Wire
from helpers.facts.network import STEPS, Network
from helpers.facts.trace import Trace
from helpers.run.collectives.clock import Clock, Message, Way
from helpers.run.collectives.deadlock import Deadlock
from helpers.run.collectives.mesh import Mesh, Tensor, check_program, flatten

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
        self.out, self.into = {}, {}            # by rank: the ways that were used so far

    def isend(self, tensor: Tensor, to: int) -> Message:
        """Post the sending end of a message on the virtual clock."""
        return self.clock.post(self.out.get(to) or self._way_to(to), flatten(tensor), True)

    def irecv(self, tensor: Tensor, source: int) -> Message:
        """Post the receiving end of a message on the virtual clock."""
        return self.clock.post(self.into.get(source) or self._way_from(source), flatten(tensor), False)

    def exchange(self, outgoing: Tensor, to: int, incoming: Tensor, source: int) -> None:
        """As in `Mesh`, in fewer calls: a play has millions."""
        clock = self.clock
        sending = clock.post(self.out.get(to) or self._way_to(to), flatten(outgoing), True)
        receiving = clock.post(self.into.get(source) or self._way_from(source), flatten(incoming), False)
        if sending.done_s is None:
            clock.block(sending)
        if receiving.done_s is None:
            clock.block(receiving)
        done_s = sending.done_s if sending.done_s > receiving.done_s else receiving.done_s
        if done_s > clock.now[self.rank]:
            clock.now[self.rank] = done_s

    def add(self, into: Tensor, tensor: Tensor) -> None:
        """Add, and let the virtual clock charge the time."""
        into += tensor
        self.clock.add(self.rank, flatten(tensor))

    def _way_to(self, to: int) -> Way:
        self.out[to] = self.clock.way(self.rank, self.other(to))
        return self.out[to]

    def _way_from(self, source: int) -> Way:
        self.into[source] = self.clock.way(self.other(source), self.rank)
        return self.into[source]


def play(program: Callable, world_size: int, *args, network: Network = STEPS, bytes_per_element: float | None = None,
         traced: bool = False, **kwargs) -> Played:
    """Play `program(mesh, *args, **kwargs)` on `world_size` ranks of a network.

    `bytes_per_element` makes each element of a small tensor stand for more bytes than it has.
    """
    if type(world_size) is not int or not 1 <= world_size <= MOST_RANKS:
        raise BadValue(f"world_size is a whole number from 1 to {MOST_RANKS}, not {world_size!r}")
    if not isinstance(network, Network):
        raise BadValue(f"network is a Network, such as network(alpha_s=5e-6, beta_s=1e-11), not {network!r}")
    if bytes_per_element is not None and not (isinstance(bytes_per_element, (int, float))
                                              and 0 < bytes_per_element < float("inf")):
        raise BadValue(f"bytes_per_element is a number of bytes above 0, not {bytes_per_element!r}")
    check_program(program, args, kwargs)
    clock = Clock(world_size, network, bytes_per_element, traced)
    results = clock.conduct([_bound(program, VirtualMesh(rank, world_size, clock), copy.deepcopy((args, kwargs)))
                             for rank in range(world_size)])
    return Played(results, clock.wire, max(clock.now), clock.trace or [])


def _bound(program: Callable, mesh: VirtualMesh, arguments: tuple[tuple, dict]) -> Callable[[], Any]:
    args, kwargs = arguments
    return partial(program, mesh, *args, **kwargs)
