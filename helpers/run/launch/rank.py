"""What happens inside each process that `launch` starts.

A rank joins the others through a file (no port to collide on), runs the
program, sends home what it returned or how it failed, and ends.  It dies with
the kernel, with the launcher's end of its pipe, and, should even its own
interpreter be stuck, by a timer in C.
"""
from __future__ import annotations

import contextlib
import faulthandler
import multiprocessing as mp
import os
import pickle
import shutil
import signal
import sys
import threading
import time
from collections.abc import Generator
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing.connection import Connection, wait
from pathlib import Path

import numpy
import torch.distributed as dist

from helpers.facts.measured import Wire
from helpers.run.launch.outcome import YIELD_HEADER, Counted, RaisedError, RankOutcome
from helpers.run.launch.pickling import pack_home
from helpers.run.measure import meters, recorder
from helpers.run.measure.place import INSIDE

LINGER_S = 0.5                  # a finished rank stays this long, so that its last bytes arrive
FAREWELL_S = 0.1                # a failed one leaves sooner, so that the others learn of it
SAME_MOMENT_S = 0.2
GOODBYE_S = 1.0                 # a rank just at the rendezvous would be stuck in C++ if the folder went away now
LARGEST_RESULT = 256 * 2**20    # bytes; results are copied through a pipe into the kernel


def main(rank: int, world_size: int, payload: bytes, folder: Path, home: Connection, timeout_s: float,
         queues: dict | None, plain: bool) -> None:
    """Be one rank, from its start to its end; the arguments are those of `run_ranks`, and its own end of a pipe.

    plain   what it sends home is plain data, for a launcher that does not trust it
    """
    os.setpgid(0, 0)                                     # the launcher ends this rank and whatever it started
    mp.current_process()._config["daemon"] = False       # a DataLoader in a rank may have workers,
    if sys.platform == "linux":                          # copies of it, as they are under torchrun: a fork server of
        mp.set_start_method("fork", force=True)          # its own would import torch for seconds
    os.environ[INSIDE] = str(rank)
    numpy.random.seed()                                  # else every rank draws what the fork server would
    threading.Thread(target=_die_with_launcher, args=(home, folder), daemon=True).start()
    log = _capture_output(folder / f"{rank}.log")
    stack = open(folder / f"{rank}.stack", "w")          # noqa: SIM115  open for as long as the process lives
    faulthandler.register(signal.SIGUSR1, file=stack, all_threads=True)
    faulthandler.dump_traceback_later(timeout_s + 15, file=stack, exit=True)
    outcome, result, process = RankOutcome(), b"", os.getpid()
    try:
        if queues is None:
            _join(rank, world_size, folder, timeout_s)
            os.ftruncate(log, 0)                         # gloo reports its connections; no program printed that
        recorder.install(rank, folder / f"{rank}.place")
        meters.keep_groups()
        also = {} if queues is None else {"queues": queues}
        result = _run(rank, world_size, payload, outcome, _Home(folder / f"{rank}.yielded", plain), also)
    except BaseException as error:                       # SystemExit too: a rank that leaves early is news
        outcome.failed_at, outcome.error = time.monotonic(), RaisedError.of(error)
    if os.getpid() != process:                           # a copy that the program made with os.fork
        os._exit(0)
    _send(home, outcome, result, plain)
    os._exit(0)                                          # destroying a process group with a live DDP can hang


def _send(home: Connection, outcome: RankOutcome, result: bytes, plain: bool) -> None:
    outcome.trace = recorder.spans()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):             # a program may have closed it
            stream.flush()
    home.send_bytes(pack_home(outcome, plain))
    home.send_bytes(result)
    # the launcher closes our pipe sooner: _die_with_launcher
    time.sleep(FAREWELL_S if outcome.error else LINGER_S)


def _join(rank: int, world_size: int, folder: Path, timeout_s: float) -> None:
    """The rendezvous: a file that all ranks know."""
    dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank,
                            world_size=world_size, timeout=timedelta(seconds=timeout_s + 60))
    dist.barrier()                                       # a rank that fails early must not look like a failed start


def _run(rank: int, world_size: int, payload: bytes, outcome: RankOutcome, home: _Home, also: dict) -> bytes:
    """Run the program; return its packed result, and write what it cost into the outcome."""
    program, args, kwargs = pickle.loads(payload)
    before = meters.wire_total()
    returned = program(rank, world_size, *args, **kwargs, **also)
    if isinstance(returned, Generator):
        outcome.yielded, returned = True, home.write_each(returned)
    after = meters.wire_total()
    outcome.wire = Wire(after.sent - before.sent, after.received - before.received, after.counted_by)
    outcome.memory = meters.largest_growth()
    if isinstance(returned, Counted):
        returned, outcome.wire = returned.result, returned.wire
    return home.packed(returned)


@dataclass(frozen=True)
class _Home:
    """How results travel: at once when the program returns, or into a file as it yields them."""

    yielded: Path
    plain: bool

    def write_each(self, results: Generator) -> None:
        """Keep what a program yields as soon as it comes, since it may not come to its end."""
        with open(self.yielded, "wb", buffering=0) as file:
            for each in results:
                data = self.packed(each)
                file.write(len(data).to_bytes(YIELD_HEADER, "big") + data)

    def packed(self, returned: object) -> bytes:
        """What the program returned, or what is wrong with it."""
        try:
            return pack_home(returned, self.plain, LARGEST_RESULT)
        except OverflowError:
            raise ValueError(f"the program returned a {type(returned).__name__} of more than "
                             f"{LARGEST_RESULT / 1e6:,.0f} MB. Return a sum, a slice or a shape, or save to a file."
                             ) from None
        except Exception as error:
            raise TypeError(f"the program returned a {type(returned).__name__}, which cannot be sent to the notebook "
                            f"({error}). Return numbers, strings, lists, dicts or tensors.") from None


def _die_with_launcher(home: Connection, folder: Path) -> None:
    kernel = mp.parent_process().sentinel
    gone = wait([kernel, home])                          # the launcher never writes: ready means closed
    if kernel in gone or wait([kernel], SAME_MOMENT_S):  # a kernel that dies closes both, one after the other
        time.sleep(GOODBYE_S)
        shutil.rmtree(folder, ignore_errors=True)        # a killed kernel cannot do it
    os.killpg(0, signal.SIGKILL)


def _capture_output(path: Path) -> int:
    """Send this process's output, that of C++ code too, to a file; return its descriptor."""
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for descriptor in (1, 2):
        os.dup2(log, descriptor)
    for name, descriptor in (("stdout", 1), ("stderr", 2)):
        setattr(sys, name, os.fdopen(descriptor, "w", buffering=1, closefd=False))
    return log
