"""Nobody gets a point that is not deserved, harms another, or leaves anything behind; honest answers keep theirs."""
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from helpers.checks.memory import values
from helpers.grade.apart import submission
from helpers.grade.apart.rebuild import ANSWER, CHECK, exercise
from helpers.grade.grade import _warm
from tests.grade.apart import hostile
from tests.grade.course import ROOT, SET

CELL_S = 4.0

pytestmark = pytest.mark.skipif(
    not shutil.which("bwrap") and not os.environ.get("COURSE_SANDBOX_REQUIRED"),
    reason="the sandbox is for Linux with bubblewrap (apt-get install bubblewrap)")


def answered(cell: str, text: str) -> list:
    """One hostile answer, and where it is not in the first exercise, a right one there; no other check is asked."""
    cells = [each for each in exercise(ROOT / "solutions" / SET / f"{SET}.ipynb",
                                       ROOT / "exercises" / SET / f"{SET}.ipynb")
             if each.kind != CHECK or each.name in ("table-check", f"{cell}-check")]
    texts = {"table": hostile.RIGHT} | {cell: text}
    return [replace(each, source=texts.get(each.name, each.source)) if each.kind == ANSWER else each for each in cells]


@pytest.fixture(scope="module")
def graded():
    _warm()
    before = submission.CELL_S
    submission.CELL_S = CELL_S
    try:
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            jobs = {name: pool.submit(submission.graded, answered(cell, text), "a seed")
                    for name, (cell, text, _) in hostile.ALL.items()}
            return {name: job.result() for name, job in jobs.items()}
    finally:
        submission.CELL_S = before


@pytest.mark.parametrize("name", hostile.ALL)
def test_it_gets_what_it_deserves_and_its_neighbour_too(graded, name):
    cell, _, points = hostile.ALL[name]
    assert graded[name].points[f"{cell}-check"] == points
    assert cell == "table" or graded[name].points["table-check"] == 4


@pytest.mark.parametrize(("name", "words"), [
    ("exits in another cell", "cell 'smallest' was stopped: it ended its process"),
    ("ignores interrupts", f"cell 'smallest' was stopped: it was not done after {CELL_S:g} s, and an interrupt did "),
    ("forks without end", "cell 'smallest' was stopped: it has started more than 200 processes"),
    ("raises when asked", "handing over gb_per_rank failed: it ended its process")])
def test_a_person_is_told_which_cell_it_was(graded, name, words):
    assert any(words in note for note in graded[name].look_at)


def test_what_a_cell_prints_and_displays_is_cut(graded):
    for name in ("prints 200 MB", "displays 200 MB"):
        assert len(str(graded[name].notebook)) < 30e6


def test_no_page_can_run_a_script_of_a_student(graded):
    assert "<script>" not in str([cell.get("outputs") for cell in graded["shows HTML"].notebook.cells])


def test_nothing_is_left_and_nothing_was_written(graded):
    assert [p for p in psutil.process_iter() if p.name() == "sleep" and "997" in p.cmdline()] == []
    assert not Path("/tmp/full").exists()
    assert Path(values.__file__).read_text().rstrip()[-1] != "#"
