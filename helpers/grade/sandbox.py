"""Grade in a kernel that cannot see what is none of its business.

Under bubblewrap (Linux) the kernel has no network, sees no process but its own
and no solutions (in git's history neither), gradebook or other submission, and can write nowhere but in a
folder that is thrown away.  Whatever it starts ends with it.  nbgrader itself
stays outside.

Source: bwrap(1); ipykernel's message interrupt, since a signal would end bwrap.
"""
from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from traitlets.config import Config

KERNEL = "graded"
UNSEEN = ("solutions", "sources/exercises", "grading", "tests", "build", ".git")


@contextmanager
def sandbox(root: Path) -> Iterator[Config]:
    """nbgrader settings under which kernels run shut in, for as long as the block lasts."""
    bwrap = shutil.which("bwrap")
    if bwrap is None:
        raise ValueError("the sandbox needs bubblewrap (Linux): apt-get install bubblewrap, or grade without --sandbox")
    with tempfile.TemporaryDirectory(prefix="grading-") as name:
        folder = Path(name)
        (folder / "scratch").mkdir()
        (folder / "sockets").mkdir()
        spec = folder / "kernels" / KERNEL / "kernel.json"
        spec.parent.mkdir(parents=True)
        spec.write_text(json.dumps(_kernel(bwrap, root, folder)))
        before = {name: os.environ.get(name) for name in ("JUPYTER_PATH", "JUPYTER_RUNTIME_DIR")}
        os.environ.update(JUPYTER_PATH=str(folder), JUPYTER_RUNTIME_DIR=str(folder / "sockets"))
        try:
            yield _settings(folder)
        finally:
            for variable, value in before.items():
                os.environ.pop(variable)
                os.environ.update({variable: value} if value is not None else {})


def _kernel(bwrap: str, root: Path, folder: Path) -> dict:
    scratch, sockets = str(folder / "scratch"), str(folder / "sockets")
    unseen = [part for place in UNSEEN if (root / place).exists() for part in ("--tmpfs", str(root / place))]
    return {
        "argv": [bwrap, "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", *unseen,
                 "--tmpfs", scratch, "--bind", sockets, sockets,
                 "--unsetenv", "JPY_PARENT_PID", "--setenv", "TMPDIR", scratch, "--setenv", "HOME", scratch,
                 "--unshare-pid", "--unshare-net", "--unshare-ipc", "--die-with-parent", "--chdir", scratch,
                 sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
        "display_name": KERNEL, "language": "python", "interrupt_mode": "message",
    }


def _settings(folder: Path) -> Config:
    settings = Config()
    settings.Execute.kernel_name = KERNEL
    settings.KernelManager.transport = "ipc"                     # TCP does not cross into a network of its own
    settings.KernelManager.ip = str(folder / "sockets/kernel")
    return settings
