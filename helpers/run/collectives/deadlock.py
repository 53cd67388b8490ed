"""Who waits for whom, in words, when no rank of a play can go on; and which messages do not fit."""
from __future__ import annotations

from typing import TYPE_CHECKING

from helpers.facts.errors import BadValue, CourseError

if TYPE_CHECKING:
    from helpers.run.collectives.clock import Message

MOST_NAMED = 8                  # ranks


class Deadlock(CourseError, RuntimeError):
    """Every rank that is not done waits for another one, or nobody takes what was sent."""


def nobody_can_go_on(half_posted: list[Message]) -> Deadlock:
    """Of messages that one end only has posted, those that a rank waits for."""
    return _listed("nobody can go on", "waits", [message for message in half_posted if message.waiting])


def left_over(half_posted: list[Message]) -> Deadlock:
    return _listed("all ranks are done, and messages are left over", "has begun", half_posted)


def does_not_fit(message: Message) -> BadValue:
    way, outgoing, incoming = message.way, message.outgoing, message.incoming
    return BadValue(f"rank {way.source} sends {len(outgoing)} elements of {outgoing.dtype} to rank "
                    f"{way.to}, which expects {len(incoming)} of {incoming.dtype}")


def _listed(title: str, does: str, messages: list[Message]) -> Deadlock:
    by_rank = sorted((one.way.source if one.sends else one.way.to, number, one) for number, one in enumerate(messages))
    lines = [_in_words(rank, does, one) for rank, _, one in by_rank]
    more = [f"  ... and {len(lines) - MOST_NAMED} more"] if len(lines) > MOST_NAMED else []
    return Deadlock("\n".join([title, *lines[:MOST_NAMED], *more]))


def _in_words(rank: int, does: str, message: Message) -> str:
    what, way = f"{len(message.tensor)} element{'s' if len(message.tensor) != 1 else ''}", message.way
    if rank == way.source:
        return f"  rank {rank} {does} to send {what} to rank {way.to}, which does not receive"
    return f"  rank {rank} {does} to receive {what} from rank {way.source}, which does not send"
