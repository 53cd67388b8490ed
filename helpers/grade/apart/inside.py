"""Start a warm process inside a sandbox, and talk to it in JSON; what it says is limited in size and in time.

    with Inside(serve_answers) as answers:
        answers.ask({"run": "x = 1"}, within_s=60)      # -> what the process answers

The process is a copy of a server that has imported torch and the checks, so it is there within a tenth of a second.
It can be anybody's once it has run what a student wrote: nothing it says is believed to be more than data.
"""
from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
import traceback
from collections.abc import Callable, Iterator
from multiprocessing import Pipe, process
from multiprocessing.connection import Connection
from pathlib import Path

from helpers.grade.apart.sandbox import Sandbox, give_up_privileges, join
from helpers.run.launch import fork_server

MOST_BYTES = 32 * 2**20         # of one answer
MOST_IN_ALL = 128 * 2**20
MOST_PROCESSES = 200
REAPED_S = 5.0                  # for all that is inside to be gone
LOOK_S = 0.25                   # between two looks at how many there are
INTERRUPT_S = 5.0               # for a cell to stop after an interrupt
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "HOME": "/tmp", "TMPDIR": "/tmp", "LANG": "C.UTF-8",
               "JUPYTER_PLATFORM_DIRS": "1", "MPLCONFIGDIR": "/tmp",
               "MPLBACKEND": "module://matplotlib_inline.backend_inline"}


class Ended(Exception):
    """The process is gone, or was ended: `str()` says why."""


class Inside:
    """A process in a sandbox of its own, for as long as the block lasts.

    make         makes the function that answers requests, there; both are for JSON
    unreadable   its memory cannot be looked into by what it starts
    hidden       files that are empty inside
    sandboxed    False: it runs as whoever grades, and can do what they can
    """

    def __init__(self, make: Callable[[], Callable[[dict], dict]], unreadable: bool = False,
                 hidden: tuple[Path, ...] = (), sandboxed: bool = True):
        self.box = Sandbox(hidden) if sandboxed else None
        self.make, self.unreadable, self.left, self.why = make, unreadable, MOST_IN_ALL, ""

    def __enter__(self) -> Inside:
        if self.box:
            self.box.__enter__()
        self.connection, theirs = Pipe()
        with theirs:
            place = self.box.pid if self.box else None
            self.process = fork_server.start_target(_live, place, self.make, self.unreadable, theirs)
        return self

    def __exit__(self, *_) -> None:
        self.connection.close()
        self._end()
        self.process.join(REAPED_S)
        self.process.kill()
        self.process.join()
        if self.box:
            self.box.__exit__()

    def ask(self, request: dict, within_s: float) -> dict:
        """What the process answers; after `within_s` seconds it is interrupted, and ended if that does not help.

        Raises `Ended` if the process is gone, which it stays.
        """
        timers = [threading.Timer(within_s, self._interrupt),
                  threading.Timer(within_s + INTERRUPT_S, self._end, [f"it was not done after {within_s:g} s, and an "
                                                                      "interrupt did not stop it"])]
        for timer in timers:
            timer.start()
        try:
            self.connection.send_bytes(json.dumps(request).encode())
            answer = json.loads(self._receive())
            if not isinstance(answer, dict) or "broken_off" in answer:
                self._end(str(answer["broken_off"] if isinstance(answer, dict) else "its answer is none"))
                raise EOFError
            return answer
        except (EOFError, OSError, ValueError, RecursionError):
            self._end()
            raise Ended(self.why or "it ended its process") from None
        finally:
            for timer in timers:
                timer.cancel()

    def _receive(self) -> bytes:
        while self.box and not self.connection.poll(LOOK_S):
            if self.box.num_processes() > MOST_PROCESSES:
                self._end(f"it has started more than {MOST_PROCESSES} processes")
        try:
            data = self.connection.recv_bytes(MOST_BYTES)
        except ConnectionError:
            raise
        except OSError:                         # from the length that it gave
            self._end(f"it has written more than {MOST_BYTES / 1e6:,.0f} MB at once")
            raise
        self.left -= len(data)
        if self.left < 0:
            self._end(f"it has written more than {MOST_IN_ALL / 1e6:,.0f} MB")
            raise EOFError
        return data

    def _interrupt(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.process.pid, signal.SIGINT)

    def _end(self, why: str = "") -> None:
        self.why = self.why or why
        if self.box:
            self.box.end()
        else:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.process.pid, signal.SIGTERM)


def _live(pid: int | None, make: Callable, unreadable: bool, connection: Connection) -> None:
    """In a copy of the server: go inside, and serve."""
    if pid is not None:
        join(pid)
    if inner := os.fork():              # a process namespace takes in children only
        _stand_for(inner)
    fork_server.leave_family({connection.fileno()})
    process.current_process()._config["daemon"] = False         # it may have children
    signal.signal(signal.SIGINT, signal.default_int_handler)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)
    if pid is not None:
        give_up_privileges(unreadable)
        os.environ.clear()
        os.environ.update(ENVIRONMENT)
        process.current_process()._config.pop("tempdir", None)      # the grader's own
    try:
        serve = make()
        for request in _requests(connection):
            connection.send_bytes(json.dumps(serve(request)).encode())
    except Exception:                   # of ours: a student's are caught where his cells run
        with contextlib.suppress(OSError):
            connection.send_bytes(json.dumps({"broken_off": traceback.format_exc()[-2000:]}).encode())
    os._exit(0)


def _requests(connection: Connection) -> Iterator[dict]:
    while True:
        try:
            yield json.loads(connection.recv_bytes())
        except KeyboardInterrupt:       # it came too late, between two requests
            continue


def _stand_for(inner: int) -> None:
    """Pass an interrupt on, end the process inside when asked to, and end when it does."""
    signal.signal(signal.SIGINT, lambda *_: os.kill(inner, signal.SIGINT))
    signal.signal(signal.SIGTERM, lambda *_: os.killpg(inner, signal.SIGKILL))
    os.waitpid(inner, 0)
    os._exit(0)
