"""Stacks of ranks: read from faulthandler's dump, and which of their lines are the learner's own."""
from __future__ import annotations

import re
import sysconfig
from collections.abc import Iterable
from pathlib import Path

from helpers.run.launch.outcome import StackFrame

HERE = Path(__file__).parent
HELPERS = HERE.parent.parent
# What every call of `launch`, `wire` or a mesh goes through tells a reader nothing.
MACHINERY = (HERE, *(HERE.parent / name for name in (
    "measure/recorder.py", "measure/meters.py", "measure/memory_limit.py", "collectives/mesh.py",
    "collectives/queue_mesh.py", "collectives/virtual_mesh.py", "collectives/clock.py", "collectives/deadlock.py")))
LIBRARIES = ("site-packages", "dist-packages", "<frozen", sysconfig.get_path("stdlib"))
FRAME = re.compile(r'  File "(.*)", line (\d+) in (.*)')


def read_stack(dump: str) -> tuple[StackFrame, ...]:
    """The frames of the thread that runs the program, outermost first."""
    threads = dump.split("\n\n")
    ours = str(HERE / "rank.py")
    main = next((t for t in threads if ours in t and "in main" in t), threads[-1])     # else cut short; main is last
    return tuple(StackFrame(file, int(line), function) for file, line, function in reversed(FRAME.findall(main)))


def is_complete(dump: str) -> bool:
    """Whether faulthandler is done: the main thread comes last, and ends where Python began or where it is cut."""
    return dump.rstrip("\n").endswith(("in <module>", "  ..."))


def without_machinery(frames: Iterable[StackFrame], hidden: tuple[Path, ...] = ()) -> list[StackFrame]:
    """The frames that a reader wants to see: none of libraries, of the launcher, or in a `hidden` file or folder."""
    return [f for f in frames if f.file != "<string>" and not any(part in f.file for part in LIBRARIES)
            and not _is_in(f.file, (*MACHINERY, *hidden))]


def is_own(frame: StackFrame) -> bool:
    """Whether a line is the learner's own: neither of a library nor of the course."""
    return not _is_in(frame.file, (HELPERS,)) and not any(part in frame.file for part in LIBRARIES)


def _is_in(file: str, folders: tuple[Path, ...]) -> bool:
    path = Path(file)
    return any(path == folder or folder in path.parents for folder in folders)
