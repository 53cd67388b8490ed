"""A learner's answer as the check gets it when marks count: packed where it was made, and unpacked in ranks only.

While learning, a check gets the function itself.  When marks count, the kernel that ran the answers packs it, and the
check, in another process, has bytes that it must not unpack: a pickle can run anything.
"""
from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Sent:
    """A function, a class, or anything that is no plain value.

    packed        what `helpers.run.launch.pickling.pickle_by_value` made of it
    type_name     of its class, for messages
    is_callable   whether it can be called
    """

    packed: bytes
    type_name: str = "function"
    is_callable: bool = True

    def __repr__(self) -> str:
        return f"<a {self.type_name}>"
