"""A long run shows a line on a terminal, a short one shows nothing, and nobody else sees anything."""
import os
import pty
import re
import subprocess
import sys

PROGRAM = """
import sys, time
from helpers.run.launch import launch, warm_up
warm_up()
launch(lambda rank, world_size, seconds: time.sleep(seconds), 2, float(sys.argv[1]))
print("done")
"""


def on_a_terminal(seconds: float) -> str:
    """What a terminal gets while a run of that length runs."""
    master, slave = pty.openpty()
    command = [sys.executable, "-c", PROGRAM, str(seconds)]
    with subprocess.Popen(command, stdout=slave, stderr=slave, stdin=slave) as run:
        os.close(slave)
        shown = b""
        try:
            while piece := os.read(master, 4096):
                shown += piece
        except OSError:                         # how Linux says that the other end is closed
            pass
        os.close(master)
    assert run.returncode == 0
    return shown.decode()


def test_a_long_run_counts_seconds_and_wipes_the_line():
    shown = on_a_terminal(3.2)
    assert re.match(r"\r2 ranks: \d of 30 s\r", shown)
    assert shown.endswith("\r\033[Kdone\r\n")


def test_a_short_run_shows_nothing():
    assert on_a_terminal(0.1) == "done\r\n"


def test_a_pipe_gets_nothing_but_the_programs_output():
    run = subprocess.run([sys.executable, "-c", PROGRAM, "2.5"], capture_output=True, text=True, check=True)
    assert (run.stdout, run.stderr) == ("done\n", "")
