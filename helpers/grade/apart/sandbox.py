"""A place for code that nobody trusts: bubblewrap makes it, and warm processes join it.

    with Sandbox() as box:
        join(box.pid)           # a copy of a server that has imported torch goes inside

Inside there is no network, no process but its own, no privilege, no solution, gradebook or other submission.  Nothing
can be written but in memory, of limited size, which is gone afterwards, and whatever is started there ends with it.
bubblewrap starts one process that waits; a warm process then joins its namespaces, as nsenter does, so that a
submission does not pay for importing torch.

Source: bwrap(1), setns(2), capabilities(7), prctl(2).
"""
from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path

# CLONE_NEWUSER, NEWNS, NEWPID, NEWNET, NEWIPC, NEWUTS
NAMESPACES = 0x10000000 | 0x00020000 | 0x20000000 | 0x40000000 | 0x08000000 | 0x04000000
HELPERS = Path(__file__).resolve().parents[2]
SCRATCH = "/tmp"
SCRATCH_BYTES = 512 * 2**20     # that can be written
SYSTEM = ("/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin")
SETTINGS = ("/etc/ld.so.cache", "/etc/alternatives", "/etc/fonts", "/etc/localtime", "/etc/mime.types")
PR_SET_DUMPABLE, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT = 4, 24, 38, 47
CAPABILITY_VERSION_3 = 0x20080522
LIMITS = {                      # of each process inside
    resource.RLIMIT_DATA: 3 * 2**30, resource.RLIMIT_FSIZE: SCRATCH_BYTES, resource.RLIMIT_NOFILE: 1024,
    resource.RLIMIT_NPROC: 512, resource.RLIMIT_CORE: 0, resource.RLIMIT_MSGQUEUE: 0,
}
_libc = ctypes.CDLL(None, use_errno=True)


def bubblewrap() -> str:
    """Where the program is; `ValueError` says how to get it."""
    if found := shutil.which("bwrap"):
        return found
    raise ValueError("grading runs what students wrote, so it needs a sandbox: install bubblewrap (on Linux, "
                     "apt-get install bubblewrap), or say `make grade SANDBOX=off` to run it as yourself")


class Sandbox:
    """One sandbox; it ends, with all that runs inside, when the block does.

    hidden   files that are empty inside
    """

    def __init__(self, hidden: tuple[Path, ...] = ()):
        self.hidden = hidden

    def __enter__(self) -> Sandbox:
        read, write = os.pipe()
        command = [bubblewrap(), *_arguments(self.hidden), "--info-fd", str(write),
                   "sh", "-c", "echo ready; exec sleep infinity"]
        self._waits = subprocess.Popen(command, pass_fds=[write], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE, start_new_session=True,
                                       env={"PATH": "/usr/bin:/bin"})       # threads may be changing ours
        os.close(write)
        with os.fdopen(read) as file, self._waits.stdout as ready:
            if not ready.readline():                    # until then it is not all there
                why = self._waits.communicate()[1].decode().strip()
                raise ValueError(f"bubblewrap cannot make a sandbox here: {why}")
            self.pid = json.load(file)["child-pid"]
        return self

    def __exit__(self, *_) -> None:
        self.end()
        self._waits.wait()
        self._waits.stderr.close()

    def num_processes(self) -> int:
        """How many processes live inside; 0 if it has ended."""
        try:
            return sum(name.isdigit() for name in os.listdir(Path("/proc", str(self.pid), "root", "proc")))
        except OSError:
            return 0

    def end(self) -> None:
        """End everything inside: the first process of a namespace takes all others along."""
        for one in (self.pid, self._waits.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(one, signal.SIGKILL)


def _arguments(hidden: tuple[Path, ...]) -> list[str]:
    places = [Path(place) for place in SYSTEM]
    mounts = []
    for place in places:
        if place.is_symlink():
            mounts += ["--symlink", os.readlink(place), str(place)]
        elif place.exists():
            mounts += ["--ro-bind", str(place), str(place)]
    prefixes = {Path(prefix).resolve() for prefix in (sys.prefix, sys.base_prefix)} | {Path(sys.prefix)}
    for place in [*sorted(prefixes), HELPERS]:
        if not place.is_relative_to("/usr"):
            mounts += ["--ro-bind", str(place), str(place)]
    for place in SETTINGS:
        mounts += ["--ro-bind-try", place, place]
    for file in hidden:
        mounts += ["--ro-bind", "/dev/null", str(file)]
    size = str(SCRATCH_BYTES)
    writable = [part for place in ("/dev/shm", SCRATCH) for part in ("--size", size, "--tmpfs", place)]
    # what is read comes on top of what is written, since the course may be in a folder of /tmp
    return ["--proc", "/proc", "--dev", "/dev", *writable, *mounts, "--remount-ro", "/dev", "--remount-ro", "/",
            *(f"--unshare-{kind}" for kind in ("user", "pid", "net", "ipc", "uts")), "--die-with-parent",
            "--cap-drop", "ALL", "--chdir", SCRATCH]


def join(pid: int) -> None:
    """Have this process's children live in the sandbox whose waiting process is `pid`; this one has no way back."""
    descriptor = os.pidfd_open(pid)
    _call(_libc.setns, descriptor, NAMESPACES)
    os.close(descriptor)
    os.chdir(SCRATCH)


def give_up_privileges(unreadable: bool) -> None:
    """For a process inside, before it runs anything of a student: no capability, and none to be had; limits.

    unreadable   no other process may look into its memory
    """
    _call(_libc.prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    for capability in range(64):
        if _libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0):
            break
    header, none = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0), (ctypes.c_uint32 * 6)()
    _call(_libc.capset, header, none)
    for limit, most in LIMITS.items():
        resource.setrlimit(limit, (most, most))
    if unreadable:
        _call(_libc.prctl, PR_SET_DUMPABLE, 0, 0, 0, 0)


def _call(function, *arguments) -> None:
    if function(*arguments):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), function.__name__)
