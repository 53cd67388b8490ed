"""nbgrader over one course folder, in this process.

nbgrader's commands start a new Python for each step; its API does the same in
a quarter of a second.  The settings are those of `nbgrader_config.py`.
"""
from __future__ import annotations

import logging
import os
import re
import sys
from pathlib import Path

from nbgrader.apps import NbGraderAPI
from traitlets.config import Config, PyFileConfigLoader


class GradingFailed(RuntimeError):
    """nbgrader gave up on a notebook; says which one and why."""


def api(root: Path, more: Config | None = None) -> NbGraderAPI:
    """nbgrader for the course in `root`, which holds nbgrader_config.py; `more` settings come on top."""
    if not (root / "nbgrader_config.py").exists():
        raise ValueError(f"{root} has no nbgrader_config.py: run this in the course's folder")
    settings: Config = PyFileConfigLoader("nbgrader_config.py", path=str(root)).load_config()
    settings.merge(more or {})
    # nbgrader starts `alembic` by its name, so the environment's programs must be found
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    course = NbGraderAPI(config=settings)
    course.coursedir.log.setLevel(logging.WARNING)
    return course


def run(what: str, result: dict) -> None:
    """Turn nbgrader's result record into an exception when it failed; the last error it logged says most."""
    if not result["success"]:
        said = [line for line in (result.get("log") or "").splitlines() if not line.startswith("[INFO]")]
        causes = [line.strip() for line in said if re.match(r"\s*[\w.]*(Error|Exception|Interrupt)\b", line)]
        last = (result.get("error") or "nbgrader does not say why").strip().splitlines()[-1]
        raise GradingFailed(f"{what}: {causes[-1] if causes else last}\n" + "\n".join(said))


def assignments(root: Path) -> list[str]:
    """The names of the exercise sets."""
    return sorted(p.parent.name for p in (root / "solutions").glob("*/*.ipynb") if p.stem == p.parent.name)
