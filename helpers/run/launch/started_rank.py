"""One rank that the launcher has started: what it has sent home so far, and what became of it."""
from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from multiprocessing import Process
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from helpers.run.launch.outcome import EXITED, KILLED, RAISED, RETURNED, RUNNING, YIELD_HEADER, RankOutcome, RankRecord
from helpers.run.launch.pickling import unpack_home
from helpers.run.launch.plain_data import NotPlain
from helpers.run.launch.stack import read_stack
from helpers.run.measure.place import read_place

MOST_PRINTED = 16 * 2**20       # bytes of one rank
MOST_STACK = 2**20
MOST_SENT = 2**30


@dataclass
class StartedRank:
    """A process, its end of a pipe, its files, and what came home."""

    number: int
    process: Process
    home: Connection
    files: Path                     # those of this rank end in .log, .stack, .place
    plain: bool = False             # it sends plain data, since it is not trusted
    outcome: RankOutcome | None = None      # None: nothing came home
    result: bytes = b""
    exit_code: int | None = None    # None: still running
    died_at: float = 0.0            # time.monotonic()

    @property
    def done(self) -> bool:
        """Whether it has sent its outcome or has ended."""
        return self.outcome is not None or self.exit_code is not None

    @property
    def failed(self) -> bool:
        """Whether it raised, or ended without an outcome."""
        return self.outcome.error is not None if self.outcome else self.exit_code is not None

    def receive(self) -> None:
        """Take the outcome and the result if they are there; notice the rank's death."""
        ended = self.process.exitcode                 # asked first: what a rank sent before it ended is in the pipe
        try:
            if self.home.poll():
                outcome = unpack_home(self.home.recv_bytes(MOST_SENT), self.plain)
                self.result = self.home.recv_bytes(MOST_SENT)
                self.outcome = outcome if isinstance(outcome, RankOutcome) else None
                return
        except (EOFError, OSError, NotPlain):           # it died, or what it sent is no outcome
            self.process.join(1.0)
            ended = self.process.exitcode
        if ended is not None:
            self.exit_code, self.died_at = ended, time.monotonic()

    def read(self, kind: str, most: int = MOST_PRINTED) -> str:
        """What a file of this rank says; nothing if it is not there."""
        with contextlib.suppress(FileNotFoundError):
            return self.files.with_suffix(f".{kind}").read_bytes()[:most].decode(errors="replace")
        return ""

    def yielded(self) -> tuple[Any, ...]:
        """What its program has yielded, up to the first that cannot be read here."""
        found = []
        with contextlib.suppress(Exception), open(self.files.with_suffix(".yielded"), "rb") as file:
            while header := file.read(YIELD_HEADER):
                found.append(unpack_home(file.read(int.from_bytes(header, "big")), self.plain))
        return tuple(found)

    def record(self) -> RankRecord:
        """What became of it, as long as its files are there."""
        known = {"rank": self.number, "printed": self.read("log"), "yielded": self.yielded(),
                 "place": read_place(self.files.with_suffix(".place"))}
        if self.outcome and self.outcome.error:
            error = self.outcome.error
            return RankRecord(**known, state=RAISED, error=error, failed_at=self.outcome.failed_at, frames=error.frames)
        known["frames"] = read_stack(self.read("stack", MOST_STACK))
        if self.outcome:
            return RankRecord(**known, state=RETURNED)
        if self.exit_code is None:
            return RankRecord(**known, state=RUNNING)
        ended = {"state": KILLED, "signal": -self.exit_code} if self.exit_code < 0 else \
            {"state": EXITED, "exit_code": self.exit_code}
        return RankRecord(**known, **ended, failed_at=self.died_at)
