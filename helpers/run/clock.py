"""A clock that is computed: whose turn it is, and when each message arrives.

Every rank runs until it must wait; then the earliest message that both its ends
have posted is sent.  So the same programs always take the same times.  Each
rank has one port out and one in: a message of n bytes holds both for n beta
seconds, and arrives alpha seconds later.  Links take turns at a port: the first message
of one link goes before the second of another.

`virtual.py` is what rank programs see of it.
"""
from __future__ import annotations

import heapq
from collections import defaultdict, deque
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy
from greenlet import getcurrent, greenlet

from helpers.facts.errors import BadValue, CourseError
from helpers.facts.network import Network
from helpers.facts.trace import Span
from helpers.run.letter import Wire
from helpers.run.mesh import Tensor

MOST_NAMED = 8                          # ranks of a deadlock


class Deadlock(CourseError, RuntimeError):
    """Every rank that is not done waits for another one."""


class Message:
    """One message; its ends post it in either order."""

    __slots__ = ("clock", "done_s", "posted_s", "sends", "size", "source", "tensor", "to", "waiting")

    def __init__(self, clock: Clock, source: int, to: int, tensor: Tensor, sends: bool, posted_s: float):
        self.clock, self.source, self.to = clock, source, to
        self.tensor, self.sends, self.posted_s = tensor, sends, posted_s        # the end that came first
        self.done_s, self.waiting = None, []

    def wait(self) -> None:
        """Have the rank whose turn it is wait until this message has arrived."""
        clock, rank = self.clock, self.clock.turn
        if self.done_s is None:
            self.waiting.append(rank)
            clock.waits_for[rank] = self
            clock.conductor.switch()
        if self.done_s > clock.now[rank]:
            clock.now[rank] = self.done_s


class Clock:
    """The time of every rank, and the messages between them."""

    def __init__(self, world_size: int, network: Network, bytes_per_element: float | None, traced: bool):
        self.network, self.bytes_per_element, self.trace = network, bytes_per_element, [] if traced else None
        self.now = [0.0] * world_size
        self.out_free, self.in_free = [0.0] * world_size, [0.0] * world_size
        self.wire = [Wire(counted_by="virtual clock") for _ in range(world_size)]
        self.links = defaultdict(deque)         # (source, to): messages that one end only has posted
        self.ready: list[tuple[float, int, int, Message]] = []     # when; how many before it on its link, in all
        self.num_messages = 0
        self.numbers = defaultdict(int)         # (source, to): messages so far
        self.turn = 0                           # the rank that runs
        self.runnable = deque(range(world_size))
        self.waits_for: dict[int, Message] = {}

    def size(self, tensor: Tensor) -> float:
        return len(tensor) * (self.bytes_per_element or tensor.itemsize)

    def post(self, source: int, to: int, tensor: Tensor, sends: bool) -> Message:
        """One end of a message; with the second end it is ready."""
        link, now = self.links[source, to], self.now[self.turn]
        if not link or link[0].sends == sends:
            link.append(message := Message(self, source, to, tensor, sends, now))
            return message
        message = link.popleft()
        message.size, number = self.size(tensor), self.numbers[source, to]
        self.numbers[source, to] = number + 1
        self.num_messages += 1
        _copy(message, *((tensor, message.tensor) if sends else (message.tensor, tensor)))
        ready_s = now if now > message.posted_s else message.posted_s
        heapq.heappush(self.ready, (ready_s, number, self.num_messages, message))
        return message

    def deliver(self) -> None:
        """Send the earliest of the messages that are ready, and others of that time, if their ports are free."""
        time_s = self.ready[0][0]
        while self.ready and self.ready[0][0] == time_s:
            _, *turn, message = heapq.heappop(self.ready)
            free_s = max(self.out_free[message.source], self.in_free[message.to])
            if free_s > time_s:
                heapq.heappush(self.ready, (free_s, *turn, message))
            else:
                self._send(message, time_s)

    def _send(self, message: Message, start_s: float) -> None:
        source, to, link = message.source, message.to, self.network.link_of(message.source, message.to)
        self.out_free[source] = self.in_free[to] = start_s + message.size * link.beta_s
        message.done_s = self.out_free[source] + link.alpha_s
        self.wire[source].sent += message.size
        self.wire[to].received += message.size
        self.runnable.extend(message.waiting)
        if self.trace is not None:
            self.trace.append(Span(source, "send", start_s, message.done_s, f"to {to}", message.size))

    def add(self, rank: int, size: float) -> None:
        start_s = self.now[rank]
        self.now[rank] += size * self.network.gamma_s
        if self.trace is not None:
            self.trace.append(Span(rank, "add", start_s, self.now[rank], nbytes=size))

    def conduct(self, programs: list[Callable[[], Any]]) -> list[Any]:
        """Run one program for each rank to its end; return what they returned."""
        results, unfinished = [None] * len(programs), set(range(len(programs)))

        def run(rank: int) -> None:
            results[rank] = programs[rank]()
            unfinished.remove(rank)

        self.conductor, ranks = getcurrent(), [greenlet(partial(run, rank)) for rank in range(len(programs))]
        try:
            while self.runnable or self.ready:
                while self.runnable:
                    self.turn = self.runnable.popleft()
                    ranks[self.turn].switch()
                if self.ready:
                    self.deliver()
        except Exception as error:
            error.add_note(f"on rank {self.turn} of {len(programs)}")
            raise
        finally:
            for rank in ranks:
                rank.throw()
        if unfinished:
            raise Deadlock(self._who_waits(sorted(unfinished)))
        return results

    def _who_waits(self, ranks: list[int]) -> str:
        lines = [_in_words(rank, self.waits_for[rank]) for rank in ranks[:MOST_NAMED]]
        more = [f"  ... and {len(ranks) - MOST_NAMED} more"] if len(ranks) > MOST_NAMED else []
        return "\n".join(["nobody can go on", *lines, *more])


def _copy(message: Message, outgoing: Tensor, incoming: Tensor) -> None:
    if len(outgoing) != len(incoming) or outgoing.dtype != incoming.dtype:
        raise BadValue(f"rank {message.source} sends {len(outgoing)} elements of {outgoing.dtype} to rank "
                       f"{message.to}, which expects {len(incoming)} of {incoming.dtype}")
    if isinstance(incoming, numpy.ndarray):
        incoming[...] = outgoing
    else:
        incoming.copy_(outgoing)


def _in_words(rank: int, message: Message) -> str:
    what = f"{len(message.tensor)} element{'s' if len(message.tensor) != 1 else ''}"
    if rank == message.source:
        return f"  rank {rank} waits to send {what} to rank {message.to}, which does not receive"
    return f"  rank {rank} waits to receive {what} from rank {message.source}, which does not send"
