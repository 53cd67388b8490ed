"""Who waits for whom, in words, when no rank of a play can go on."""
from __future__ import annotations

from typing import TYPE_CHECKING

from helpers.facts.errors import CourseError

if TYPE_CHECKING:
    from helpers.run.clock import Message

MOST_NAMED = 8                  # ranks


class Deadlock(CourseError, RuntimeError):
    """Every rank that is not done waits for another one, or nobody takes what was sent."""


def nobody_can_go_on(waits_for: dict[int, Message]) -> Deadlock:
    return _listed("nobody can go on", [_in_words(rank, "waits", one) for rank, one in sorted(waits_for.items())])


def left_over(messages: list[Message]) -> Deadlock:
    """Messages that one end only has begun."""
    return _listed("all ranks are done, and messages are left over",
                   [_in_words(one.way.source if one.sends else one.way.to, "has begun", one) for one in messages])


def _listed(title: str, lines: list[str]) -> Deadlock:
    more = [f"  ... and {len(lines) - MOST_NAMED} more"] if len(lines) > MOST_NAMED else []
    return Deadlock("\n".join([title, *lines[:MOST_NAMED], *more]))


def _in_words(rank: int, does: str, message: Message) -> str:
    what, way = f"{len(message.tensor)} element{'s' if len(message.tensor) != 1 else ''}", message.way
    if rank == way.source:
        return f"  rank {rank} {does} to send {what} to rank {way.to}, which does not receive"
    return f"  rank {rank} {does} to receive {what} from rank {way.source}, which does not send"
