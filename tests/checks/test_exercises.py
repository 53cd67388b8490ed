"""The author's own answers get every point, a blank release gets none and is told that nothing is written."""
import pytest

from helpers.checks.verdict import CheckFailed
from tests.checks import cells

GRADED = ["table-check", "smallest-check", "bytes-check", "mistake-check", "layers-check", "measure-check"]


@pytest.fixture(scope="module")
def solved():
    return cells.run(cells.solved("01_memory"))


@pytest.fixture(scope="module")
def blank():
    return cells.run(cells.blank("01_memory"))


def test_all_graded_cells_are_looked_at(solved):
    assert [name for name, cell in solved.items() if cell.points] == GRADED
    assert sum(cell.points for cell in solved.values()) == 18           # and 2 for the written answer


@pytest.mark.parametrize("name", GRADED)
def test_the_solution_gets_every_point(solved, name):
    cell = solved[name]
    assert cell.error is None
    assert (type(cell.value), cell.value) == (float, cell.points)
    assert "WRONG" not in cell.printed


def test_the_solution_runs_without_an_error(solved):
    assert {name: cell.error for name, cell in solved.items() if cell.error} == {}
    assert solved["bytes-try"].value == 16
    assert solved["layers-try"].value == 282
    assert solved["measure-try"].value == pytest.approx([24, 24], rel=1e-3)


@pytest.mark.parametrize("name", GRADED)
def test_a_blank_answer_gets_nothing_and_is_told_so(blank, name):
    cell = blank[name]
    assert isinstance(cell.error, CheckFailed)
    assert cell.value is None
    assert "nothing here yet" in str(cell.error) or "is not written yet" in str(cell.error)
    assert "SOLUTION" not in cell.code
    assert "HIDDEN" not in cell.code
