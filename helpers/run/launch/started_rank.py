"""One rank that the launcher has started: what it has sent home so far, and what became of it."""
from __future__ import annotations

import contextlib
import pickle
import time
from dataclasses import dataclass
from multiprocessing import Process
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from helpers.run.launch.outcome import EXITED, KILLED, RAISED, RETURNED, RUNNING, RankOutcome, RankRecord
from helpers.run.launch.stack import read_stack
from helpers.run.measure.place import read_place

MOST_PRINTED = 16 * 2**20       # bytes of one rank
MOST_STACK = 2**20


@dataclass
class StartedRank:
    """A process, its end of a pipe, its files, and what came home."""

    number: int
    process: Process
    home: Connection
    files: Path                     # those of this rank end in .log, .stack, .place
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
                outcome = pickle.loads(self.home.recv_bytes())
                self.result = self.home.recv_bytes()
                self.outcome = outcome
                return
        except (EOFError, OSError):
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
            while True:
                found.append(pickle.load(file))
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
