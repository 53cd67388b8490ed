"""Say what is wrong with the environment, and how to mend it.

    check_environment()       in a notebook
    python -m helpers doctor  on a terminal
"""
from __future__ import annotations

import importlib.metadata
import importlib.util
import shutil
import sys
import tempfile
from dataclasses import dataclass
from textwrap import indent

import psutil

from helpers.facts.errors import CourseError
from helpers.run.launch import launch

NEEDED_MEMORY = 1.5e9           # bytes: two lessons open, one of them with four ranks that train
NEEDED_DISK = 100e6             # bytes, for what the ranks print


@dataclass(frozen=True)
class Requirement:
    """One thing that the course needs, and how to mend it where it is missing."""

    what: str
    mend: str = ""              # "" if all is well

    def __str__(self) -> str:
        return f"MEND  {self.what}\n      {self.mend}" if self.mend else f"ok    {self.what}"


@dataclass(frozen=True)
class Diagnosis:
    """All requirements, as a list to read."""

    findings: tuple[Requirement, ...]

    @property
    def healthy(self) -> bool:
        """Whether nothing is missing."""
        return not any(f.mend for f in self.findings)

    def __repr__(self) -> str:
        verdict = "All is well." if self.healthy else "Mend what is marked, restart the kernel, and run this again."
        return "\n".join([*map(str, self.findings), verdict])


def check_environment() -> Diagnosis:
    """Try everything that the lessons need."""
    return Diagnosis((_python(), _helpers(), _torch(), _memory(), _disk(), *_ranks()))


def _python() -> Requirement:
    fine = sys.version_info >= (3, 11)
    return Requirement("Python is 3.11 or newer", "" if fine else
                   f"This is {sys.version.split()[0]}: install a newer one, then `make PYTHON=python3.11 lab`.")


def _helpers() -> Requirement:
    try:
        importlib.metadata.version("training-parallelism-course")
    except importlib.metadata.PackageNotFoundError:
        return Requirement("helpers is installed", "Found, but not installed, so the fork server cannot import it: "
                       "`pip install --no-deps -e .` in the course's folder.")
    return Requirement("helpers is installed")


def _torch() -> Requirement:
    wanted = next((r.split("==")[1] for r in _requirements() if r.startswith("torch==")), "")
    found = importlib.metadata.version("torch") if importlib.util.find_spec("torch") else "none"
    fine = wanted in ("", found.split("+")[0])
    return Requirement("torch is the version that the course was tested with", "" if fine else
                   f"It is {found}, tested was {wanted}: most will work; `pip install torch=={wanted}` for all.")


def _requirements() -> list[str]:
    try:
        return importlib.metadata.requires("training-parallelism-course") or []
    except importlib.metadata.PackageNotFoundError:
        return []


def _memory() -> Requirement:
    free = psutil.virtual_memory().available
    return Requirement(f"{NEEDED_MEMORY / 1e9} GB of memory are free", "" if free > NEEDED_MEMORY else
                   f"Only {free / 1e9:.1f} GB are: shut down other kernels (Kernel menu) or close programs.")


def _disk() -> Requirement:
    folder = tempfile.gettempdir()
    free = shutil.disk_usage(folder).free
    return Requirement("the temporary folder has room", "" if free > NEEDED_DISK else
                   f"{folder} has {free / 1e6:.0f} MB left: empty it, or set TMPDIR to another folder.")


def _ranks() -> list[Requirement]:
    try:
        run = launch(_look_around, 2, timeout_s=60)
    except (CourseError, OSError) as error:
        return [Requirement("two ranks can be started and can talk", indent(str(error), 6 * " ").strip())]
    sums, preloaded, counted_by = [r[0] for r in run.results], run.results[0][1], run.wire[0].counted_by
    return [
        _found("two ranks can be started and can talk", sums == [11.0, 11.0],
               f"They summed to {sums}, not to 11: please report this with your torch version."),
        _found("ranks start with torch already imported", preloaded,
               "Each rank imports torch by itself, for seconds, since other code has started Python's fork server "
               "before: restart the kernel, and run the set-up cell first."),
        _found("the kernel counts bytes on the wire", counted_by == "kernel",
               "Only Linux does: here the tensors given to torch.distributed are counted instead, so what is "
               "measured will be less than the formula wherever ranks pass data on."),
    ]


def _found(what: str, fine: bool, mend: str) -> Requirement:
    return Requirement(what, "" if fine else mend)


def _look_around(rank: int, world_size: int) -> tuple[float, bool]:
    preloaded = "helpers.run.launch.preloaded" in sys.modules

    import torch
    import torch.distributed as dist

    tensor = torch.tensor([10.0**rank])
    dist.all_reduce(tensor)
    return tensor.item(), preloaded
