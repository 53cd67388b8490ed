"""Three ways to call `python -m helpers`: here, in a process that calls several, and in ranks of torchrun that do."""
import contextlib
import json
import os
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from helpers.__main__ import main

ROOT = Path(__file__).resolve().parents[3]
TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--nproc-per-node")
IN_A_ROW = {
    "doctor": ["doctor"], "ddp-demo": ["ddp-demo"], "ddp": ["ddp"], "zero": ["zero"], "pipeline": ["pipeline"],
}
UNDER_TORCHRUN = {              # on 2 ranks
    "ddp-demo": ["ddp-demo"], "ddp": ["ddp", "--num-steps", "2"], "zero": ["zero", "--num-steps", "2"],
    "three ranks": ["ddp-demo", "--world-size", "3"],
    "pipeline": ["pipeline", "--schedule", "ZB-V", "--num-microbatches", "4", "--unit-ms", "5"],
}


@dataclass(frozen=True)
class Called:
    status: int | list[int]     # of each rank of torchrun
    out: str
    err: str
    folder: Path                # in which it was called


def call(*command: str, cwd: Path) -> subprocess.CompletedProcess:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=120)


@pytest.fixture(scope="session")
def in_a_row(tmp_path_factory) -> dict[str, Called]:
    """By command: what it did with its defaults."""
    folder = tmp_path_factory.mktemp("in_a_row")
    run = call(sys.executable, *_calls(folder, IN_A_ROW), cwd=folder)
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")
    return {name: _of(folder, name, _statuses(folder, name, 1)[0]) for name in IN_A_ROW}


@pytest.fixture(scope="session")
def under_torchrun(tmp_path_factory) -> dict[str, Called]:
    """By command: what two ranks of torchrun did."""
    folder = tmp_path_factory.mktemp("under_torchrun")
    run = call(*TORCHRUN, "2", *_calls(folder, UNDER_TORCHRUN), cwd=folder)
    assert run.returncode == 0, run.stderr
    return {name: _of(folder, name, _statuses(folder, name, 2)) for name in UNDER_TORCHRUN}


def _calls(folder: Path, calls: dict[str, list[str]]) -> list[str]:
    with contextlib.ExitStack() as open_together:
        ports = [open_together.enter_context(socket.create_server(("127.0.0.1", 0))).getsockname()[1]
                 for _ in range(len(calls) - 1)]
    return ["-m", "tests.run.commands.in_a_row", str(folder), json.dumps(calls), json.dumps(ports)]


def _statuses(folder: Path, name: str, world_size: int) -> list[int]:
    return [int((folder / f"{name}.{rank}.status").read_text()) for rank in range(world_size)]


def _of(folder: Path, name: str, status: int | list[int]) -> Called:
    return Called(status, (folder / f"{name}.out").read_text(), (folder / f"{name}.err").read_text(), folder / name)


@pytest.fixture
def here(monkeypatch, capfd, tmp_path):
    """Call the command in this process, which has imported torch."""
    def of(*arguments: str) -> Called:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", ["helpers", *arguments])
        capfd.readouterr()
        status = main()
        return Called(status, *capfd.readouterr(), tmp_path)

    return of
