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
import shutil
import signal
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from helpers.facts.measured import Memory, Wire
from helpers.facts.trace import Trace
from helpers.run.launch import check_call, failure_report, fork_server
from helpers.run.launch.outcome import RUNNING, RankRecord
from helpers.run.launch.pickling import unpack_home
from helpers.run.launch.progress import Progress, show_printed
from helpers.run.launch.stack import is_complete
from helpers.run.launch.started_rank import MOST_PRINTED, StartedRank

GRACE_S = 0.7                   # after the first failure, for the others to say theirs: the first may be a victim
ANSWER_S = 2.0                  # for a rank of a busy machine to say where it is

_plain_only = False             # of what ranks send


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


def launch(program: Callable, world_size: int, *args, timeout_s: float = 30.0, **kwargs) -> Run:
    """Run `program(rank, world_size, *args, **kwargs)` on `world_size` processes and wait for all of them.

    If `program` is a generator, a rank's result is the list of what it yields, and what it has yielded before it fails
    is in its record.  The ranks have the environment that the fork server started with: set variables before `warm_up`.
    Raises `RankFailed` when a rank raises, exits or is killed, `RankHung` when
    ranks are not done after `timeout_s` seconds, `ValueError` when the call
    itself cannot work.  No process outlives the call.
    """
    return run_ranks(check_call.check_and_pickle(program, world_size, timeout_s, args, kwargs), world_size, timeout_s)


def distrust_ranks() -> None:
    """From now on, read nothing from ranks but plain data: for a judge, whose ranks run what learners wrote."""
    global _plain_only
    _plain_only = True


def run_ranks(payload: bytes, world_size: int, timeout_s: float, queues: dict | None = None) -> Run:
    """Start the ranks, wait, clean up.

    payload    the program and its arguments, as `check_and_pickle` packs them
    queues     {(source, to): queue}: the ranks are not joined by gloo; each is given its own, as `queues=`
    """
    folder, ranks, started = Path(tempfile.mkdtemp(prefix="ranks-")), [], time.monotonic()
    try:
        for rank in range(world_size):
            ranks.append(_start(rank, world_size, payload, folder, timeout_s, queues))
        _collect(ranks, folder, started, timeout_s)
        _ask_where(ranks, folder)
    except KeyboardInterrupt:
        _ask_where(ranks, folder)
        print(failure_report.interrupted(_records(ranks)))
        raise
    finally:
        try:
            records = _clean_up(ranks, folder)
        except KeyboardInterrupt:                     # it came just before it could be held off
            _clean_up(ranks, folder)
            raise
        show_printed([record.printed for record in records])
    return _outcome(ranks, records, timeout_s, time.monotonic() - started)


def _start(rank: int, world_size: int, payload: bytes, folder: Path, timeout_s: float, queues: dict | None,
           ) -> StartedRank:
    home, theirs = Pipe()
    (folder / f"{rank}.log").touch()              # looked at before the rank has begun to print
    with theirs:
        own = queues and {ends: queue for ends, queue in queues.items() if rank in ends}
        process = fork_server.start(rank, world_size, payload, folder, theirs, timeout_s, own, _plain_only)
    return StartedRank(rank, process, home, folder / str(rank), _plain_only)


def _collect(ranks: list[StartedRank], folder: Path, started: float, timeout_s: float) -> None:
    """Take what the ranks send until all have, or the deadline, or shortly after the first failure."""
    deadline, progress = started + timeout_s, Progress(len(ranks), started, timeout_s)
    with progress:
        while (waiting := [r for r in ranks if not r.done]) and (left := deadline - time.monotonic()) > 0:
            wait([r.home for r in waiting] + [r.process.sentinel for r in waiting], timeout=min(left, 0.1))
            for r in waiting:
                r.receive()
                if r.files.with_suffix(".log").stat().st_size > MOST_PRINTED:
                    raise failure_report.too_much_printed(_records(ranks), r.number, MOST_PRINTED)
            if any(r.failed for r in ranks):
                deadline = min(deadline, time.monotonic() + GRACE_S)
            progress.show()


def _ask_where(ranks: list[StartedRank], folder: Path) -> None:
    """Have each rank that still runs write its stack: it can, even inside a C++ call."""
    running, deadline = [r for r in ranks if not r.done], time.monotonic() + ANSWER_S
    for r in running:
        with contextlib.suppress(ProcessLookupError):
            os.kill(r.process.pid, signal.SIGUSR1)
    while time.monotonic() < deadline and not all(is_complete(r.read("stack")) for r in running):
        time.sleep(0.01)


def _records(ranks: list[StartedRank]) -> tuple[RankRecord, ...]:
    return tuple(r.record() for r in ranks)


def _clean_up(ranks: list[StartedRank], folder: Path) -> tuple[RankRecord, ...]:
    """End all ranks and remove their files; return what became of them.  A second time it does nothing."""
    with fork_server.uninterrupted():
        if not folder.exists():
            return ()
        _end(ranks)
        records = _records(ranks)
        shutil.rmtree(folder, ignore_errors=True)
        return records


def _end(ranks: list[StartedRank]) -> None:
    """End every rank and whatever it has started; each leads a process group of its own."""
    for r in ranks:
        r.home.close()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(r.process.pid, signal.SIGKILL)
        r.process.kill()
    for r in ranks:
        r.process.join()
        r.process.close()


def _outcome(ranks: list[StartedRank], records: tuple[RankRecord, ...], timeout_s: float, wall_s: float) -> Run:
    if any(record.failed for record in records):
        raise failure_report.failure(records)
    if any(record.state == RUNNING for record in records):
        raise failure_report.hang(records, timeout_s)
    results = []
    for r, record in zip(ranks, records, strict=True):
        try:
            results.append(list(record.yielded) if r.outcome.yielded else unpack_home(r.result, r.plain))
        except Exception as error:
            raise failure_report.unreadable(records, r.number, error) from None
    outcomes = [r.outcome for r in ranks]
    return Run(results, [record.printed for record in records], [span for each in outcomes for span in each.trace],
               [each.wire for each in outcomes], [each.memory for each in outcomes], wall_s)
