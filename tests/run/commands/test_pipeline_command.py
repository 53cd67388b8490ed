"""`python -m helpers pipeline`, as a user calls it, and under torchrun."""
import os
import re
import subprocess
import sys

from tests.run.commands.conftest import ROOT


def test_c10_l79_four_stages_and_eight_microbatches_idle_27_27_percent(in_a_row):
    run = in_a_row["pipeline"]
    assert (run.status, run.err) == (0, "")
    simulated, measured, table = run.out.split("\n\n")
    rows = simulated.splitlines()[1:]
    assert rows[3] == "rank 3 |" + " " * 9 + " ".join(f"F{m} B{m}---" for m in range(8))
    for ours, theirs in zip(rows, measured.splitlines()[1:], strict=True):
        assert re.findall(r"[FB]\d", ours) == re.findall(r"[FB]\d", theirs)
    assert re.search(r"bubble, of total +27\.27% ", table)
    assert re.search(r"bubble, of ideal +37\.50% ", table)
    assert "Forwards held at most, by rank: 4, 3, 2, 1." in table
    ours, alone = re.search(r"Loss ([\d.]+), of one process ([\d.]+);", table).groups()
    assert ours == alone
    assert float(re.search(r"at most ([\d.e-]+) of the largest", table)[1]) < 1e-6


def test_it_runs_unchanged_under_torchrun_and_prints_once(under_torchrun):
    run = under_torchrun["pipeline"]
    assert run.status == [0, 0], run.err
    assert run.out.count("ZB-V, 2 ranks, 4 microbatches") == 1


def test_what_cannot_be_is_refused_in_a_sentence(here):
    run = here("pipeline", "--world-size", "0")
    assert (run.status, run.err) == (2, "")
    assert run.out == "world_size is a whole number from 1 to 64, not 0\n"


def test_a_reader_that_has_had_enough_gets_no_traceback():
    reading, writing = os.pipe()
    os.close(reading)
    run = subprocess.run([sys.executable, "-m", "helpers", "pipeline", "--schedule", "GPipes"], cwd=ROOT,
                         stdout=writing, stderr=subprocess.PIPE, timeout=60)
    os.close(writing)
    assert run.stderr == b""
