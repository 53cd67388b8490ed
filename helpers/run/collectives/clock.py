"""A clock that is computed: whose turn it is, and when each message arrives.  Rank programs see virtual_mesh.py.

Every rank runs until it must wait; then the earliest message that both its ends have posted is sent.  So the same
programs always take the same times.  Each rank has one port out and one in, and so has each node: a message of n bytes
holds those on its way for n beta seconds, and arrives alpha seconds later.  Of messages that want a port at the same
time, the one with fewer messages before it on its link goes first; then the one that was ready first.
"""
from __future__ import annotations

import gc
import heapq
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy
import torch
from greenlet import getcurrent, greenlet

from helpers.facts.errors import BadValue
from helpers.facts.measured import Wire
from helpers.facts.network import Network
from helpers.facts.trace import Span
from helpers.run.collectives.deadlock import Deadlock, HalfPosted, does_not_fit
from helpers.run.collectives.mesh import Tensor


class Way:
    """From one rank to another: what it costs, which ports it takes, and messages that one end only has posted."""

    def __init__(self, source: int, to: int, world_size: int, network: Network):
        nodes = [network.node_of(rank, world_size) for rank in (source, to)]
        leaves = nodes[0] != nodes[1]
        link = network.between if leaves else network.link
        self.source, self.to, self.alpha_s, self.beta_s = source, to, link.alpha_s, link.beta_s
        # ports of the nodes come after those of the ranks
        self.node_ports = [world_size + node for node in nodes] if leaves else None
        self.posted, self.num_messages = deque(), 0


class Message:
    """One message; its ends post it in either order."""

    __slots__ = ("clock", "done_s", "incoming", "outgoing", "posted_s", "sends", "size", "tensor", "waiting", "way")

    def __init__(self, clock: Clock, way: Way, tensor: Tensor, sends: bool, posted_s: float):
        self.clock, self.way = clock, way
        self.tensor, self.sends, self.posted_s = tensor, sends, posted_s        # the end that came first
        self.done_s = None
        self.waiting = ()                       # ranks

    @property
    def half(self) -> HalfPosted:
        """What one end has posted, as plain data."""
        return HalfPosted(self.way.source, self.way.to, len(self.tensor), self.sends)

    def wait(self) -> None:
        """Have the rank whose turn it is wait until this message has arrived."""
        clock = self.clock
        if self.done_s is None:
            clock.block(self)
        if self.done_s > clock.now[clock.turn]:
            clock.now[clock.turn] = self.done_s


class Clock:
    """The time of every rank, and the messages between them."""

    def __init__(self, world_size: int, network: Network, bytes_per_element: float | None, traced: bool):
        self.network, self.bytes_per_element, self.trace = network, bytes_per_element, [] if traced else None
        self.now = [0.0] * world_size
        self.out_free, self.in_free = [0.0] * 2 * world_size, [0.0] * 2 * world_size        # ports, as in Way
        self.wire = [Wire(counted_by="virtual clock") for _ in range(world_size)]
        self.ways: dict[tuple[int, int], Way] = {}
        self.ready: dict[float, list[tuple[int, int, Message]]] = {}    # by time: number on its way, number in all
        self.times: list[float] = []            # a heap of those times
        self.num_messages = 0
        self.turn = 0                           # the rank that runs
        self.runnable = deque(range(world_size))

    def way(self, source: int, to: int) -> Way:
        """The way from one rank to another, made when it is first used."""
        if (source, to) not in self.ways:
            self.ways[source, to] = Way(source, to, len(self.now), self.network)
        return self.ways[source, to]

    def post(self, way: Way, tensor: Tensor, sends: bool) -> Message:
        """One end of a message; with the second end it is ready."""
        now = self.now[self.turn]
        if not way.posted or way.posted[0].sends == sends:
            way.posted.append(message := Message(self, way, tensor, sends, now))
            return message
        message = way.posted.popleft()
        message.outgoing, message.incoming = (tensor, message.tensor) if sends else (message.tensor, tensor)
        if len(tensor) != len(message.tensor) or tensor.dtype != message.tensor.dtype:
            raise does_not_fit(way.source, message.outgoing, way.to, message.incoming)
        message.size = len(tensor) * (self.bytes_per_element or tensor.itemsize)
        way.num_messages += 1
        self.num_messages += 1
        self._enter(now if now > message.posted_s else message.posted_s, (way.num_messages, self.num_messages, message))
        return message

    def _enter(self, time_s: float, entry: tuple[int, int, Message]) -> None:
        if time_s in self.ready:
            self.ready[time_s].append(entry)
        else:
            self.ready[time_s] = [entry]
            heapq.heappush(self.times, time_s)

    def block(self, message: Message) -> None:
        """Let others run until the message has arrived."""
        rank, gradients = self.turn, torch.is_grad_enabled()
        message.waiting += (rank,)
        self.conductor.switch()
        if torch.is_grad_enabled() != gradients:            # another rank has changed it
            torch.set_grad_enabled(gradients)

    def deliver(self) -> None:
        """Send the messages that are ready at the earliest time, if their ports are free."""
        out_free, in_free, time_s = self.out_free, self.in_free, heapq.heappop(self.times)
        for entry in sorted(self.ready.pop(time_s)):
            message = entry[2]
            way = message.way
            free_s = max(out_free[way.source], in_free[way.to])
            if way.node_ports:
                free_s = max(free_s, out_free[way.node_ports[0]], in_free[way.node_ports[1]])
            if free_s > time_s:
                self._enter(free_s, entry)
                continue
            out_free[way.source] = in_free[way.to] = free_s = time_s + message.size * way.beta_s
            if way.node_ports:
                out_free[way.node_ports[0]] = in_free[way.node_ports[1]] = free_s
            message.done_s = free_s + way.alpha_s
            self.wire[way.source].sent += message.size
            self.wire[way.to].received += message.size
            self.runnable += message.waiting
            _copy(message.outgoing, message.incoming)
            if self.trace is not None:
                self.trace.append(Span(way.source, "send", time_s, message.done_s, f"to {way.to}", message.size))

    def add(self, rank: int, tensor: Tensor) -> None:
        """Let a rank spend the time that adding a tensor takes: gamma_s seconds for each byte."""
        size, start_s = len(tensor) * (self.bytes_per_element or tensor.itemsize), self.now[rank]
        self.now[rank] += size * self.network.gamma_s
        if self.trace is not None:
            self.trace.append(Span(rank, "add", start_s, self.now[rank], nbytes=size))

    def conduct(self, programs: list[Callable[[], Any]]) -> list[Any]:
        """Run one program for each rank to its end; return what they returned."""
        results, unfinished, gradients = [None] * len(programs), set(range(len(programs))), torch.is_grad_enabled()

        def run(rank: int) -> None:
            torch.set_grad_enabled(gradients)
            try:
                results[rank] = programs[rank]()
            except SystemExit as left:
                raise BadValue(f"the program left by sys.exit({left.code!r})") from None
            unfinished.remove(rank)

        self.conductor, ranks = getcurrent(), [greenlet(partial(run, rank)) for rank in range(len(programs))]
        try:
            self._take_turns(ranks)
            if unfinished:
                raise Deadlock([m.half for m in self._half_posted() if m.waiting], waiting=True)
        finally:
            for rank in ranks:
                rank.throw()
            torch.set_grad_enabled(gradients)
        if left := self._half_posted():
            raise Deadlock([message.half for message in left], waiting=False)
        return results

    def _half_posted(self) -> list[Message]:
        return [message for way in self.ways.values() for message in way.posted]

    def _take_turns(self, ranks: list[greenlet]) -> None:
        collects = gc.isenabled()
        gc.disable()                            # it would look at a thousand ranks' objects again and again
        try:
            while self.runnable or self.times:
                while self.runnable:
                    self.turn = self.runnable.popleft()
                    ranks[self.turn].switch()
                if self.times:
                    self.deliver()
        except Exception as error:
            error.add_note(f"on rank {self.turn} of {len(ranks)}")
            raise
        finally:
            if collects:
                gc.enable()


def _copy(outgoing: Tensor, incoming: Tensor) -> None:
    if isinstance(incoming, numpy.ndarray):
        incoming[...] = outgoing
    else:
        incoming.detach().copy_(outgoing)
