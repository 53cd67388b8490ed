"""A long run shows a line on a terminal, a short one shows nothing, and nobody else sees anything."""
import os
import pty
import re
import subprocess
import sys
import time

import pytest

from helpers.run.launch import launch

SCRIPT = """
import sys, time
from helpers.run.launch import launch, warm_up
warm_up()
launch(lambda rank, world_size, seconds: time.sleep(seconds), 2, float(sys.argv[1]))
print("done")
"""


def shown(seconds: float, ends: tuple[int, int], monkeypatch) -> str:
    """What comes out of one end if the other is stdout while a run of that length runs; then a line is printed."""
    reading, writing = ends
    with open(writing, "w") as stdout, monkeypatch.context() as here:
        here.setattr(sys, "stdout", stdout)
        launch(lambda rank, world_size: time.sleep(seconds), 2)
        print("done")
    return everything(reading)


def everything(reading: int) -> str:
    read = b""
    with open(reading, "rb", buffering=0) as file:
        try:
            while piece := file.read(4096):
                read += piece
        except OSError:                         # how Linux says that a terminal's other end is closed
            pass
    return read.decode()


def test_a_long_run_counts_seconds_and_wipes_the_line(monkeypatch, capfd):
    out = shown(3.2, pty.openpty(), monkeypatch)
    assert re.fullmatch(r"(\r2 ranks: \d of 30 s)+\r\033\[Kdone\r\n", out)
    assert capfd.readouterr() == ("", "")


def test_a_short_run_shows_nothing(monkeypatch, capfd):
    assert shown(0.1, pty.openpty(), monkeypatch) == "done\r\n"
    assert capfd.readouterr() == ("", "")


def test_a_pipe_gets_nothing_but_the_programs_output(monkeypatch, capfd):
    assert shown(2.5, os.pipe(), monkeypatch) == "done\n"
    assert capfd.readouterr() == ("", "")


# ---- a process of its own, with nothing of pytest in it

@pytest.mark.soak
@pytest.mark.parametrize(("seconds", "shows"), [(0.1, r"done\r\n"),
                                                (3.2, r"(\r2 ranks: \d of 30 s)+\r\033\[Kdone\r\n")])
def test_a_script_shows_the_same_on_a_terminal(seconds, shows):
    reading, writing = pty.openpty()
    command = [sys.executable, "-c", SCRIPT, str(seconds)]
    with subprocess.Popen(command, stdout=writing, stderr=writing, stdin=writing) as run:
        os.close(writing)
        out = everything(reading)
    assert run.returncode == 0
    assert re.fullmatch(shows, out)


@pytest.mark.soak
def test_a_script_writes_nothing_else_into_a_pipe():
    run = subprocess.run([sys.executable, "-c", SCRIPT, "2.5"], capture_output=True, text=True, check=True)
    assert (run.stdout, run.stderr) == ("done\n", "")
