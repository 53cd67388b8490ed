"""The author's own answers get every point, a blank release gets none and is told that nothing is written."""
import functools

import pytest

from helpers.checks.judge.verdict import CheckFailed
from tests.checks import cells

GRADED = {
    "01_memory": ["table-check", "smallest-check", "bytes-check", "mistake-check", "layers-check", "measure-check"],
    "02_collectives": ["gather-check", "scatter-check", "broadcast-check", "predict-check", "choose-check",
                       "mend-check"],
    "03_ddp": ["buckets-check", "accumulate-check", "rate-check", "predict-check", "part-check"],
    "04_data_sharding": ["sampler-check", "proof-check", "script-check", "ragged-check", "accuracy-check"],
    "05_zero": ["optimizer-check", "hook-check", "predict-check", "which-check"],
    "06_fsdp": ["lend-check", "bytes-check", "wrap-check", "clip-check"],
    "07_activations": ["kept-check", "plan-check", "predict-check", "leak-check"],
    "09_pipeline": ["order-check", "peak-check", "mend-check", "balance-check"],
    "10_zero_bubble": ["split-check", "fill-check", "bubbles-check", "mend-check"],
}
# and 2 for the written answer of each
POINTS = {"01_memory": 18, "02_collectives": 20, "03_ddp": 17, "04_data_sharding": 16, "05_zero": 16, "06_fsdp": 17,
          "07_activations": 14, "09_pipeline": 16, "10_zero_bubble": 17}
EACH = [pytest.param(name, cell, id=f"{name}-{cell}") for name, graded in GRADED.items() for cell in graded]


@functools.cache
def solved(name: str) -> dict[str, cells.Cell]:
    return cells.run(cells.solved(name))


@functools.cache
def blank(name: str) -> dict[str, cells.Cell]:
    return cells.run(cells.blank(name))


def test_all_sets_are_looked_at():
    assert set(GRADED) == {path.stem for path in cells.SOURCES.glob("*.py")}


@pytest.mark.parametrize("name", GRADED)
def test_all_graded_cells_are_looked_at(name):
    assert [cell.name for cell in solved(name).values() if cell.points] == GRADED[name]
    assert sum(cell.points for cell in solved(name).values()) == POINTS[name]


@pytest.mark.parametrize(("name", "graded"), EACH)
def test_the_solution_gets_every_point(name, graded):
    cell = solved(name)[graded]
    assert cell.error is None
    assert (type(cell.value), cell.value) == (float, cell.points)
    assert "WRONG" not in cell.printed


@pytest.mark.parametrize("name", GRADED)
def test_the_solution_runs_without_an_error(name):
    assert {cell.name: cell.error for cell in solved(name).values() if cell.error} == {}


def test_what_a_learner_tries_gives_what_the_text_says():
    tried = solved("01_memory")
    assert tried["bytes-try"].value == 16
    assert tried["layers-try"].value == 282
    assert tried["measure-try"].value == pytest.approx([24, 24], rel=1e-3)
    tried = solved("02_collectives")
    assert tried["gather-try"].value == ([[1, 1, 2, 2, 3, 3, 4, 4]] * 4, "3 messages, 24 bytes of 32")
    assert tried["scatter-try"].printed == (
        "[[1111, 2222], [3333, 4444], [5555, 6666], [7777]] 3 messages, [5, 5, 5, 6] elements\n"
        "[[1111], [2222], [3333], []] 3 messages, [2, 2, 2, 3] elements\n")
    assert tried["broadcast-try"].value == ([13] * 5, "3 sends one after another")
    assert tried["choose-try"].value == ("recursive doubling", "halving-doubling")
    assert tried["mend-try"].value == ([1111] * 4, "4 messages")
    tried = solved("03_ddp")
    assert tried["buckets-try"].value == ([[1111 * k / 4] for k in (1, 2, 3, 4)],
                                          [("all_reduce", 40), ("all_reduce", 64)])
    assert tried["accumulate-try"].value == pytest.approx([16_900, 16_900], rel=0.05)
    assert tried["rate-try"].value == pytest.approx(0.1)
    tried = solved("04_data_sharding")
    first, second = tried["sampler-try"].value
    assert [len(part) for part in first + second] == [4] * 6
    assert {*first[0], *first[1], *first[2]} == {*second[0], *second[1], *second[2]} == set(range(10))
    assert first != second
    assert tried["proof-try"].value == {1: 2, 3: 0}
    assert tried["ragged-try"].value == [2, 2]
    assert tried["accuracy-try"].value == [6 / 9] * 4
    tried = solved("05_zero")
    assert tried["optimizer-try"].value == [[[pytest.approx(0.9)]] * 2] * 4
    assert tried["hook-try"].value == [([277.75] * (2 if rank == 0 else 1), None) for rank in range(4)]
    tried = solved("06_fsdp")
    assert [shard.tolist() for (shard,) in tried["lend-try"].value] == [[2, 3]] * 2
    assert tried["wrap-try"].value[-1] < tried["wrap-try"].value[0] / 2
    clipped = [[norm, sharded[0].item(), replicated[0].item()] for norm, sharded, replicated in tried["clip-try"].value]
    assert clipped == [pytest.approx([13, 1.5, 6]), pytest.approx([13, 2, 6])]
    tried = solved("09_pipeline")
    assert tried["order-try"].value == (12, [2, 1])
    assert tried["peak-try"].value == 200
    assert tried["mend-try"].value == 18
    assert tried["balance-try"].value == [3, 3, 1]
    tried = solved("10_zero_bubble")
    assert [result.tolist() for result in tried["split-try"].value] == [[[16]], [[3, 4]], [[1, 2]], [1]]
    assert tried["fill-try"].value == (14, [3, 3, 3])
    assert tried["bubbles-try"].value == pytest.approx((18.644, 33), rel=1e-4)
    assert tried["mend-try"].value == 14


def test_what_is_to_be_mended_hangs():
    cell = next(cell for cell in cells.solved("02_collectives") if cell.name == "mend-try")
    code = cell.code.replace("mended(mesh, tensor)", "broken(mesh, tensor)")
    before = [one for one in cells.solved("02_collectives") if one.name in ("setup", "broken")]
    hung = cells.run([*before, cells.Cell("hung", 0, code)])["hung"]
    assert "rank 0 waits to send 1 element to rank 1, which does not receive" in str(hung.error)


@pytest.mark.parametrize(("name", "graded"), EACH)
def test_a_blank_answer_gets_nothing_and_is_told_so(name, graded):
    cell = blank(name)[graded]
    assert isinstance(cell.error, CheckFailed)
    assert cell.value is None
    assert "nothing here yet" in str(cell.error) or "is not written yet" in str(cell.error)
    assert "SOLUTION" not in cell.code
    assert "HIDDEN" not in cell.code
