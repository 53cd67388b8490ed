"""Give a rank a small memory of its own, so that it can really run out of it.

Linux counts a process's writable private memory and refuses more than
RLIMIT_DATA; torch then raises as it would on a full accelerator.

Source: getrlimit(2), RLIMIT_DATA, since Linux 4.7.
"""
from __future__ import annotations

import os
import resource
import sys

from helpers.facts.errors import BadValue
from helpers.run.measure.place import INSIDE


def limit_memory(num_bytes: int) -> None:
    """From now on this rank may grow by `num_bytes`; more raises `RuntimeError: ... can't allocate memory`."""
    if not num_bytes > 0:
        raise BadValue(f"num_bytes is above 0, not {num_bytes!r}")
    if INSIDE not in os.environ:
        raise BadValue("limit_memory is for rank programs: here it would limit the notebook for good")
    if sys.platform != "linux":
        raise OSError("only Linux limits a process's memory; run this in Binder, Docker or WSL 2")
    with open("/proc/self/status") as status:
        used = next(1024 * int(line.split()[1]) for line in status if line.startswith("VmData"))
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (used + int(num_bytes), hard))
