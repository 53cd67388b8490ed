"""Processes that start in milliseconds: copies of one server that has imported torch.

Python calls this start method "forkserver".  The server is a child of the
notebook kernel; it imports torch once and is then copied once per rank.
"""
from __future__ import annotations

import contextlib
import multiprocessing as mp
import os
import signal
import sys
import threading
import types
from collections.abc import Callable, Iterator
from multiprocessing import forkserver, resource_tracker, util

_starting = threading.Lock()
_also: list[str] = []           # modules that the server imports besides torch


def start(*args) -> mp.Process:
    """Start one rank; `args` are those of `helpers.run.launch.rank.main`."""
    return start_target(_enter, *args)


def start_target(target: Callable, *args) -> mp.Process:
    """Start a copy of the server that runs `target(*args)`, a function of a module."""
    process = context().Process(target=target, args=args, daemon=True)
    with _starting, _server_environment(), _no_main_module(), uninterrupted():
        process.start()
    return process


def preload(*modules: str) -> None:
    """Have the fork server import these modules, so that no rank has to; without effect once it is started."""
    _also.extend(module for module in modules if module not in _also)


def warm_up(*modules: str) -> None:
    """Start the fork server now, so that the first `launch` is as quick as the next.

    modules    that it imports too, so that no rank has to: warm_up("helpers.checks.ddp")
    """
    preload(*modules)
    process = context().Process(target=int, daemon=True)
    with _starting, _server_environment(), _no_main_module(), uninterrupted():
        process.start()
    process.join()


def serve_from_here() -> None:
    """Start the fork server as a copy of this process, which has imported torch already, not as a new Python.

    The copy, and so each rank, has what this process has in memory now, and none of its open files.
    """
    start_program = util.spawnv_passfds

    def start_copy(path: bytes, arguments: list[str], kept: list[int]) -> int:
        if "forkserver" not in arguments[-1]:           # the tracker of shared resources
            return start_program(path, arguments, kept)
        if pid := os.fork():
            return pid
        _close_all_but({0, 1, 2, *kept, resource_tracker.getfd()})
        exec(arguments[-1], {})
        os._exit(0)

    with _starting:
        util.spawnv_passfds = start_copy
        try:
            with _server_environment():
                pass
        finally:
            util.spawnv_passfds = start_program


def leave_family(kept: set[int]) -> None:
    """For a copy of the server that runs what nobody trusts: close all files but these, the server's own among them."""
    _close_all_but({0, 1, 2, *kept})
    resource_tracker._resource_tracker._fd = resource_tracker._resource_tracker._pid = None     # it starts its own


def _close_all_but(kept: set[int]) -> None:
    for descriptor in {int(name) for name in os.listdir("/proc/self/fd")} - kept:
        with contextlib.suppress(OSError):
            os.close(descriptor)


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Let Ctrl-C wait: a fork server that is left in the middle of a request ends, and a second one must not stop a
    clean-up."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _enter(*args) -> None:
    from helpers.run.launch import rank  # not above: the kernel has no need to import torch

    rank.main(*args)


def context() -> mp.context.BaseContext:
    """Python's "forkserver" start method with our server; raises `OSError` on Windows."""
    if sys.platform == "win32":
        raise OSError("Windows cannot fork processes, which `launch` needs. Run the course inside WSL 2 "
                      "(`wsl --install` in PowerShell, then the README's commands in its terminal), or from the "
                      "Binder link in the README.")
    context = mp.get_context("forkserver")
    context.set_forkserver_preload([*_also, "helpers.run.launch.preloaded"])
    return context


def _settings() -> dict[str, str]:
    mac, folder = sys.platform == "darwin", util.get_temp_dir()
    return {
        "OMP_NUM_THREADS": "1",                          # ranks share the machine's few cores
        "GLOO_SOCKET_IFNAME": "lo0" if mac else "lo",    # a container's host name may not resolve
        # Freed tensors go back to the system at once, else memory meters show what once was.
        "MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "0", "MALLOC_ARENA_MAX": "1",
        "KINETO_LOG_LEVEL": "6",                         # torch.profiler says on stdout that it starts
        "COURSE_SERVER_FOLDER": folder, "TORCHINDUCTOR_CACHE_DIR": folder,      # gone when the kernel is
    }


@contextlib.contextmanager
def _server_environment() -> Iterator[None]:
    """The server's environment, and so the ranks', without changing the kernel's for good."""
    settings = _settings()
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    try:
        forkserver.ensure_running()
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextlib.contextmanager
def _no_main_module() -> Iterator[None]:
    """Hide a script's `__main__`, which multiprocessing would run again in every rank.

    Rank programs travel by value, so no rank needs it.
    """
    main = sys.modules["__main__"]
    sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main
