"""`python -m helpers collectives`: one algorithm, three transports, every byte counted."""
import subprocess
import sys

import pytest

from helpers.__main__ import main
from helpers.compare.commands.collectives import three_transports

pytestmark = pytest.mark.ranks


def number(cell):
    return int(cell.replace(",", ""))


def test_c10_and_l76_four_ranks_and_64_floats():
    rows = {row[0]: row[1:] for row in three_transports().rows}
    assert {name: number(row[0]) for name, row in rows.items()} == {
        "tree_broadcast": 512, "ring_all_gather": 192, "ring_reduce_scatter": 192, "ring_all_reduce": 384}
    for formula, clock, queues, gloo, alike in rows.values():
        assert number(formula) == number(clock) == number(queues) <= number(gloo)
        assert alike == "yes"


def test_for_large_tensors_the_kernel_counts_what_the_formula_says():
    for _, formula, _, _, gloo, alike in three_transports(3, 1_000_000, source=2).rows:
        assert number(gloo) == pytest.approx(number(formula), rel=0.01)
        assert alike == "yes"


def terminal(*arguments):
    return subprocess.run([sys.executable, "-m", "helpers", *arguments], capture_output=True, text=True, timeout=120,
                          check=False)


def test_c10_the_command_prints_the_table():
    done = terminal("collectives", "--world-size", "2", "--num-elements", "8", "--source", "1")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0].split("  ")[0] == "bytes sent by the busiest rank"
    assert lines[-2].split()[:4] == ["ring_all_reduce", "32", "32", "32"]


@pytest.mark.parametrize(("arguments", "says"), [
    (["--source", "4"], "there is no rank 4 in a world of 4"),
    (["--num-elements", "-1"], "num_elements is a whole number from 0, not -1"),
    (["--world-size", "0"], "world_size is a whole number from 1, not 0"),
    (["--world-size", "17"], "world_size is a whole number from 1 to 16 on queues, not 17"),
])
def test_what_cannot_work_is_told_in_a_line(arguments, says, monkeypatch, capfd):
    monkeypatch.setattr(sys, "argv", ["helpers", "collectives", *arguments])
    assert main() == 2
    assert capfd.readouterr() == (f"{says}\n", "")
