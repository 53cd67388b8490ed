"""Run one function as N real processes joined by gloo.

    run = launch(program, 4, tensor, lr=0.1)
    run.results[2]        # what rank 2 returned

`program(rank, world_size, *args, **kwargs)` may be a function of a cell, of a
module, or a lambda: it is sent by value (cloudpickle), since a new process
cannot import a cell.  What each process then does is in `rank.py`.
"""
from __future__ import annotations

import contextlib
import os
import pickle
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing import Pipe, Process
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from helpers.facts.trace import Trace
from helpers.run.launch import check_call, failure_report, fork_server
from helpers.run.launch.failure_report import Fate, RankFailed, RankHung
from helpers.run.launch.outcome import Memory, Wire
from helpers.run.launch.progress import Progress, show_printed

__all__ = ["RankFailed", "RankHung", "Run", "launch", "warm_up"]

GRACE_S = 0.7                   # after the first failure, for the others to say theirs: the first may be a victim
ANSWER_S = 2.0                  # for a rank of a busy machine to say where it is
MOST_PRINTED = 16 * 2**20       # bytes of one rank

warm_up = fork_server.warm_up


@dataclass(frozen=True)
class Run:
    """What came home from all ranks; every list is by rank."""

    results: list[Any]          # what `program` returned
    printed: list[str]          # all output, C++'s too
    trace: Trace                # every call of torch.distributed, of all ranks
    wire: list[Wire]            # bytes sent and received by the program
    memory: list[Memory]        # the most that a `memory()` block measured
    wall_s: float

    def __repr__(self) -> str:
        return f"<Run of {len(self.results)} ranks in {self.wall_s:.2f} s>"


@dataclass
class _Rank:
    process: Process
    home: Connection
    fate: Fate
    result: bytes = b""
    done: bool = False


def launch(program: Callable, world_size: int, *args, timeout_s: float = 30.0, **kwargs) -> Run:
    """Run `program(rank, world_size, *args, **kwargs)` on `world_size` processes and wait for all of them.

    The ranks have the environment that the fork server started with: set variables before `warm_up`.
    Raises `RankFailed` when a rank raises, exits or is killed, `RankHung` when
    ranks are not done after `timeout_s` seconds, `ValueError` when the call
    itself cannot work.  No process outlives the call.
    """
    return run_ranks(check_call.pack(program, world_size, timeout_s, args, kwargs), world_size, timeout_s)


def run_ranks(payload: bytes, world_size: int, timeout_s: float, queues: dict | None = None) -> Run:
    """Start the ranks, wait, clean up.  With `queues` they are not joined by gloo: see queue_mesh.py."""
    folder, ranks, started = Path(tempfile.mkdtemp(prefix="ranks-")), [], time.monotonic()
    try:
        for rank in range(world_size):
            ranks.append(_start(rank, world_size, payload, folder, timeout_s, queues))
        _collect(ranks, folder, started, timeout_s)
        _ask_where(ranks, folder)
    except KeyboardInterrupt:
        _ask_where(ranks, folder)
        print(failure_report.interrupted([_read(r, folder) for r in ranks]))
        raise
    finally:
        try:
            printed = _clean_up(ranks, folder)
        except KeyboardInterrupt:                     # it came just before it could be held off
            _clean_up(ranks, folder)
            raise
        show_printed(printed)
    return _outcome(ranks, timeout_s, time.monotonic() - started)


def _start(rank: int, world_size: int, payload: bytes, folder: Path, timeout_s: float, queues: dict | None) -> _Rank:
    home, theirs = Pipe()
    (folder / f"{rank}.log").touch()              # looked at before the rank has begun to print
    with theirs:
        own = queues and {ends: queue for ends, queue in queues.items() if rank in ends}
        process = fork_server.start(rank, world_size, payload, folder, theirs, timeout_s, own)
    return _Rank(process, home, Fate(rank))


def _collect(ranks: list[_Rank], folder: Path, started: float, timeout_s: float) -> None:
    """Take what the ranks send until all have, or the deadline, or shortly after the first failure."""
    deadline, progress = started + timeout_s, Progress(len(ranks), started, timeout_s)
    with progress:
        while (waiting := [r for r in ranks if not r.done]) and (left := deadline - time.monotonic()) > 0:
            wait([r.home for r in waiting] + [r.process.sentinel for r in waiting], timeout=min(left, 0.1))
            for r in waiting:
                _receive(r)
                if (folder / f"{r.fate.rank}.log").stat().st_size > MOST_PRINTED:
                    raise failure_report.too_much_printed(_read(r, folder), MOST_PRINTED)
            if any(r.fate.failed for r in ranks):
                deadline = min(deadline, time.monotonic() + GRACE_S)
            progress.show()


def _receive(r: _Rank) -> None:
    """Take the letter and the result of a rank if they are there; notice its death."""
    ended = r.process.exitcode                    # asked first: what a rank sent before it ended is in the pipe
    try:
        if r.home.poll():
            r.fate.letter = pickle.loads(r.home.recv_bytes())
            r.result = r.home.recv_bytes()
            r.done = True
            return
    except (EOFError, OSError):
        r.process.join(1.0)
        ended = r.process.exitcode
    if ended is not None:
        r.fate.exit_code, r.fate.died_at, r.done = ended, time.monotonic(), True


def _ask_where(ranks: list[_Rank], folder: Path) -> None:
    """Have each rank that still runs write its stack: it can, even inside a C++ call."""
    running, deadline = [r for r in ranks if not r.done], time.monotonic() + ANSWER_S
    for r in running:
        with contextlib.suppress(ProcessLookupError):
            os.kill(r.process.pid, signal.SIGUSR1)
    while time.monotonic() < deadline and not all(_read(r, folder).stack for r in running):
        time.sleep(0.01)


def _read(r: _Rank, folder: Path) -> Fate:
    """Add what the rank's files say to what is known of it."""
    def text(kind: str, most: int) -> str:
        with contextlib.suppress(FileNotFoundError):
            return (folder / f"{r.fate.rank}.{kind}").read_bytes()[:most].decode(errors="replace")
        return ""

    r.fate.stack, r.fate.place = text("stack", 2**20), text("place", 2**10).strip()
    r.fate.printed = text("log", MOST_PRINTED)
    return r.fate


def _clean_up(ranks: list[_Rank], folder: Path) -> list[str]:
    """End all ranks and remove their files; return what they printed.  A second time it does nothing."""
    with fork_server.uninterrupted():
        if not folder.exists():
            return []
        _end(ranks)
        printed = [_read(r, folder).printed for r in ranks]
        shutil.rmtree(folder, ignore_errors=True)
        return printed


def _end(ranks: list[_Rank]) -> None:
    """End every rank and whatever it has started; each leads a process group of its own."""
    for r in ranks:
        r.home.close()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(r.process.pid, signal.SIGKILL)
        r.process.kill()
    for r in ranks:
        r.process.join()
        r.process.close()


def _outcome(ranks: list[_Rank], timeout_s: float, wall_s: float) -> Run:
    fates = [r.fate for r in ranks]
    if any(f.failed for f in fates):
        raise failure_report.failure(fates)
    if any(f.letter is None for f in fates):
        raise failure_report.hang(fates, timeout_s)
    letters = [f.letter for f in fates]
    return Run(list(_results(ranks)), [f.printed for f in fates], [s for x in letters for s in x.trace],
               [x.wire for x in letters], [x.memory for x in letters], wall_s)


def _results(ranks: list[_Rank]) -> Iterator[Any]:
    for r in ranks:
        try:
            yield pickle.loads(r.result)
        except Exception as error:
            raise RankFailed(f"what rank {r.fate.rank} returned cannot be read here ({error}). "
                             "Return numbers, strings, lists, dicts or tensors.") from None
