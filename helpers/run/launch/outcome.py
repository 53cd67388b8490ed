"""What became of each rank of a run, as plain data that the kernel reads without torch.

A rank sends a `RankOutcome` home, and its result after it.  What went wrong is kept as one `RankRecord` for each rank,
which `RankFailed` and `RankHung` carry; failure_report.py puts records into words, and nobody reads words back.
"""
from __future__ import annotations

import linecache
import traceback
from dataclasses import dataclass, field
from typing import Any

from helpers.facts.errors import CourseError
from helpers.facts.measured import Memory, Wire
from helpers.facts.trace import Trace
from helpers.run.measure.place import Place

LONGEST_ERROR = 2000            # characters
YIELD_HEADER = 8                # bytes before each thing that a program yields, in its file: how long it is
RETURNED, RAISED, EXITED, KILLED, RUNNING = "returned", "raised", "exited", "killed", "running"


@dataclass(frozen=True)
class StackFrame:
    """One line of a traceback or of a stack."""

    file: str
    line: int
    function: str

    @property
    def code(self) -> str:
        """The line itself, where its file or cell can be read here; else nothing."""
        return linecache.getline(self.file, self.line).strip()


@dataclass(frozen=True)
class RaisedError:
    """An exception that ended a rank's program.

    type      name of its class, such as "ValueError"
    words     type and message, notes and causes; cut if it is very long
    module    that was to be imported, if it is an ImportError
    frames    of its traceback, outermost first
    cause     what it was raised from
    """

    type: str
    words: str
    module: str | None = None
    frames: tuple[StackFrame, ...] = ()
    cause: RaisedError | None = None

    @staticmethod
    def of(error: BaseException) -> RaisedError:
        """What there is to know of an exception, as plain data."""
        words = "".join(traceback.format_exception_only(error)).strip().removesuffix(":")
        if isinstance(error, CourseError):
            words = words.removeprefix(f"{type(error).__module__}.")
        words = words if len(words) <= LONGEST_ERROR else f"{words[:LONGEST_ERROR]} ... ({len(words):,} characters)"
        cause = RaisedError.of(error.__cause__) if error.__cause__ else None
        frames = tuple(StackFrame(f.filename, f.lineno, f.name) for f in traceback.extract_tb(error.__traceback__))
        return RaisedError(type(error).__name__, words + (f"\n  caused by {cause.words}" if cause else ""),
                           getattr(error, "name", None) if isinstance(error, ImportError) else None, frames, cause)

    @property
    def chain(self) -> list[RaisedError]:
        """This error, what it was raised from, and so on."""
        return [self, *(self.cause.chain if self.cause else [])]


@dataclass
class RankOutcome:
    """All that a rank sends home but its result, which follows by itself."""

    error: RaisedError | None = None
    failed_at: float = 0.0                               # time.monotonic(), one clock for all processes
    yielded: bool = False                                # its results are in a file, one after the other
    trace: Trace = field(default_factory=list)
    wire: Wire = field(default_factory=Wire)
    memory: Memory = field(default_factory=Memory)


@dataclass(frozen=True)
class Counted:
    """What a program returns that has counted its bytes on the wire itself."""

    result: Any
    wire: Wire


@dataclass(frozen=True)
class RankRecord:
    """How one rank fared.

    rank        its number
    state       RETURNED, RAISED, EXITED (by itself, before its program returned), KILLED (by a signal) or RUNNING
    error       what it raised
    exit_code   of a process that EXITED
    signal      number of the signal that it was KILLED by
    failed_at   time.monotonic() of the failure; one clock for all ranks
    frames      where it raised, or where it was when it was asked; outermost first, empty if it did not answer
    place       its last call of torch.distributed; None if it has made none
    printed     all its output, that of C++ too
    yielded     what its program had yielded by then, if it is a generator
    """

    rank: int
    state: str = RUNNING
    error: RaisedError | None = None
    exit_code: int | None = None
    signal: int | None = None
    failed_at: float = 0.0
    frames: tuple[StackFrame, ...] = ()
    place: Place | None = None
    printed: str = ""
    yielded: tuple[Any, ...] = ()

    @property
    def failed(self) -> bool:
        """Whether it ended in any other way than by returning."""
        return self.state in (RAISED, EXITED, KILLED)
