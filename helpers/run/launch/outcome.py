"""What a rank sends home; plain data, so that the kernel can read it without torch."""
from __future__ import annotations

from dataclasses import dataclass, field

from helpers.facts.trace import Trace


@dataclass
class Wire:
    """Bytes that one rank sent and received."""

    sent: int = 0                   # a float where elements stand for more bytes than they have: virtual.py
    received: int = 0
    counted_by: str = "kernel"      # or "calls", "mesh", "virtual clock"


@dataclass
class Memory:
    """Bytes by which one rank's memory has grown."""

    tensors: int = 0                # storages of all tensors that Python can reach
    private: int = 0                # given to this process by the kernel


@dataclass(frozen=True)
class Frame:
    """One line of a traceback."""

    file: str
    line: int
    function: str


@dataclass
class Letter:
    """All about one rank but its result, which follows by itself."""

    error: str = ""                                      # "ValueError: ..." or nothing
    frames: list[Frame] = field(default_factory=list)    # outermost first
    failed_at: float = 0.0                               # time.monotonic(), one clock for all processes
    trace: Trace = field(default_factory=list)
    wire: Wire = field(default_factory=Wire)
    memory: Memory = field(default_factory=Memory)
