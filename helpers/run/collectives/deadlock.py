"""Who waits for whom, in words, when no rank of a play can go on; and which messages do not fit."""
from __future__ import annotations

from dataclasses import dataclass

from helpers.facts.errors import BadValue, CourseError
from helpers.run.collectives.mesh import Tensor

MOST_NAMED = 8                  # ranks


@dataclass(frozen=True)
class HalfPosted:
    """A message that one of its ends only has posted."""

    source: int                 # rank that sends it, or should
    to: int
    num_elements: int
    sends: bool                 # whether it is the sender that has posted it

    @property
    def rank(self) -> int:
        """Who has posted it."""
        return self.source if self.sends else self.to


class Deadlock(CourseError, RuntimeError):
    """Every rank that is not done waits for another one, or nobody takes what was sent.

    waiting     whether ranks wait; else all are done, and messages are left over
    messages    that one end only has posted, by rank
    lines       what is said of each, without a title
    """

    def __init__(self, messages: list[HalfPosted], waiting: bool):
        self.messages, self.waiting = sorted(messages, key=lambda message: message.rank), waiting
        self.lines = [_in_words(message, "waits" if waiting else "has begun") for message in self.messages]
        if len(self.lines) > MOST_NAMED:
            self.lines[MOST_NAMED:] = [f"... and {len(self.lines) - MOST_NAMED} more"]
        super().__init__("\n  ".join([self.title, *self.lines]))

    @property
    def title(self) -> str:
        """What has happened, in a few words."""
        return "nobody can go on" if self.waiting else "all ranks are done, and messages are left over"

    def __reduce__(self) -> tuple:
        return Deadlock, (self.messages, self.waiting)


def does_not_fit(source: int, outgoing: Tensor, to: int, incoming: Tensor) -> BadValue:
    """Say that two ends of a message have tensors of different sizes or dtypes."""
    return BadValue(f"rank {source} sends {len(outgoing)} elements of {outgoing.dtype} to rank "
                    f"{to}, which expects {len(incoming)} of {incoming.dtype}")


def _in_words(message: HalfPosted, does: str) -> str:
    what = f"{message.num_elements} element{'s' if message.num_elements != 1 else ''}"
    if message.sends:
        return f"rank {message.source} {does} to send {what} to rank {message.to}, which does not receive"
    return f"rank {message.to} {does} to receive {what} from rank {message.source}, which does not send"
