"""Submissions get the marks that they deserve, whatever is in them."""
import csv
import sqlite3
import subprocess
import sys

import psutil
import pytest
from nbgrader.api import Gradebook

from helpers.grade.course import api
from helpers.grade.grade import _grade, _is_graded, grade
from tests.grade.course import SET, answered, new_course, release_notebook, solution_notebook, submit

DIVIDES_ALL = "def bytes_per_rank(params, ranks, stage, recipe):\n    return params * sum(recipe.values()) / ranks"
KNOWS_SIXTEEN = ("def bytes_per_rank(params, ranks, stage, recipe):\n"
                 "    whole = {0: 11111, 1: 11, 2: 1, 3: 0}[stage]\n"
                 "    return params * whole + (11111 - whole) * params / ranks")
UNSHARDED = ("def measure(rank, world_size):\n    with memory() as grown:\n        model = mlp(width=512, depth=16)\n"
             "        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)\n"
             "        model(torch.ones(2, 512)).sum().backward()\n        optimizer.step()\n    return grown.tensors")
NOISY = ("import sys, warnings\nwarnings.warn('look')\nprint('x', file=sys.stderr)\n"
         "def bytes_per_rank(params, ranks, stage, recipe):\n"
         "    warnings.warn('in a rank')\n    shared = {'parameter': 3, 'gradient': 2}\n"
         "    return sum(params * b / (ranks if stage >= shared.get(t, 1) else 1) for t, b in recipe.items())")
FORGETS_BUFFERS = ("def most_layers(card_bytes, ranks, layer_params, other_params, reserve_bytes):\n"
                   "    return (card_bytes - reserve_bytes) * ranks // 16 // layer_params")

# what stands in the answer cells, and the points of each check by the autograder
SUBMISSIONS = {
    "some": ({"table": 'gb_per_rank = {"DDP": 208, "ZeRO-1": 71.5, "ZeRO-2": 26, "ZeRO-3": 24.2}',
              "smallest": 'smallest = {"mixed": 9, "mixed, fp32 gradients": 9.75, "mixed, no master": 6}',
              "bytes": KNOWS_SIXTEEN,
              "mistake": 'wrong_term, right_gb = "master copy", 142.5',
              "layers": FORGETS_BUFFERS,
              "predict": "predicted_mib = 24", "measure": UNSHARDED},
             {"table-check": 2, "smallest-check": 1, "bytes-check": 2, "mistake-check": 1, "layers-check": 0,
              "measure-check": 1}),
    "wrong": ({"table": "gb_per_rank = [208, 71.5, 48.75, 26]",
               "smallest": 'smallest = {"mixed": 8, "mixed, fp32 gradients": 16, "mixed, no master": 0}',
               "bytes": DIVIDES_ALL,
               "mistake": 'wrong_term, right_gb = "activations", 86.25',
               "layers": "def most_layers(**case):\n    return 80",
               "predict": "predicted_mib = 48", "measure": "measure = 25165824"},
              {"table-check": 0, "smallest-check": 0, "bytes-check": 0.5, "mistake-check": 0, "layers-check": 0,
               "measure-check": 0}),
    "stuck": ({"table": "while True:\n    pass"},
              {"table-check": 0, "smallest-check": 3, "bytes-check": 4, "mistake-check": 2, "layers-check": 2,
               "measure-check": 3}),
}


MALFORMED = {
    "empty": "", "list": "[]", "object": "{}", "text": '"x"', "old": '{"nbformat": 1}',
    "null": '{"cells": [{"cell_type": "code", "id": "a", "metadata": {"nbgrader": null}, "source": "", "outputs": [], '
            '"execution_count": null}], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}',
}


@pytest.fixture(scope="module")
def graded(tmp_path_factory):
    """All submissions, graded once: the marks by student, and the course's folder."""
    course = new_course(tmp_path_factory.mktemp("course"), timeout_s=15)
    submit(course, "full", solution_notebook())
    submit(course, "blank", release_notebook())
    for student, (answers, _) in SUBMISSIONS.items():
        submit(course, student, answered(answers))
    changed = answered({"table": 'gb_per_rank = {"DDP": 1, "ZeRO-1": 2, "ZeRO-2": 3, "ZeRO-3": 4}', "bytes": NOISY})
    for cell in changed.cells:
        if cell.id == "table-check":
            cell.source, cell.metadata.nbgrader.points = "30.0", 30
    changed.cells = [cell for cell in changed.cells if cell.id != "mistake-check"]
    submit(course, "tampers", changed)
    submit(course, "dies", answered({"table": "import os\nos._exit(1)"}))
    copied = release_notebook()
    copied.cells.append(next(cell for cell in copied.cells if cell.id == "table"))
    submit(course, "copies", copied)
    for student, content in MALFORMED.items():
        submit(course, student, release_notebook())
        (course / "grading/submitted" / student / SET / f"{SET}.ipynb").write_text(content)
    return {mark.student: mark for mark in grade(course)}, course


def scores(course, student: str) -> dict[str, float]:
    """Points by check, read from the gradebook."""
    rows = sqlite3.connect(course / "grading/gradebook.db").execute(
        "select base_cell.name, grade.auto_score, grade.manual_score from grade "
        "join base_cell on base_cell.id = grade.cell_id "
        "join submitted_notebook on submitted_notebook.id = grade.notebook_id "
        "join submitted_assignment on submitted_assignment.id = submitted_notebook.assignment_id "
        "where submitted_assignment.student_id = ?", (student,))
    return {name: auto for name, auto, _ in rows if name != "usable"}


def test_the_solution_gets_full_marks_but_for_what_a_person_reads(graded):
    mark = graded[0]["full"]
    assert (mark.score, mark.most, mark.by_hand, mark.trouble) == (18, 20, True, "")


def test_the_blank_release_gets_nothing(graded):
    mark = graded[0]["blank"]
    assert (mark.score, mark.by_hand) == (0, False)


@pytest.mark.parametrize("student", SUBMISSIONS)
def test_each_answer_gets_what_it_deserves(graded, student):
    assert scores(graded[1], student) == SUBMISSIONS[student][1]


def test_edited_and_deleted_checks_are_put_back(graded):
    got = scores(graded[1], "tampers")
    assert (got["table-check"], got["mistake-check"]) == (0, 2)
    assert graded[0]["tampers"].most == 20


def test_warnings_and_prints_on_stderr_cost_no_points(graded):
    assert scores(graded[1], "tampers")["bytes-check"] == 4


def test_a_submission_that_kills_its_kernel_stops_nobody_else(graded):
    mark = graded[0]["dies"]
    assert (mark.score, mark.by_hand) == (None, False)
    assert "kernel died" in mark.trouble.lower() or "DeadKernelError" in mark.trouble


@pytest.mark.parametrize("student", [name for name in MALFORMED if name != "null"])
def test_what_is_no_notebook_stops_nobody_else(graded, student):
    assert graded[0][student].score is None
    assert "cannot be read as a notebook" in graded[0][student].trouble


def test_a_cell_with_odd_metadata_stops_nobody_else(graded):
    assert graded[0]["null"].score in (None, 0)


def test_a_copied_cell_is_named(graded):
    assert "cell 'table' stands twice in the notebook" in graded[0]["copies"].trouble


def test_nothing_is_left_running(graded):
    left = [p for p in psutil.Process().children(recursive=True) if "ipykernel" in " ".join(p.cmdline())]
    assert left == []


def test_feedback_is_written_for_whoever_could_be_graded(graded):
    written = {p.parts[-3] for p in (graded[1] / "grading/feedback").rglob("*.html")}
    assert {"full", "blank", *SUBMISSIONS, "tampers"} <= written
    page = next((graded[1] / "grading/feedback/some").rglob("*.html")).read_text()
    assert "is the size in GiB; GB are asked for" in page


def test_marks_can_be_read_as_csv(graded):
    with open(graded[1] / "grading/grades.csv") as file:
        rows = {row["student"]: row for row in csv.DictReader(file)}
    assert rows["full"]["score"] == "18.0"
    assert set(rows) == set(graded[0])


def test_marks_by_hand_survive_another_grading(graded):
    _, course = graded
    with Gradebook(f"sqlite:///{course}/grading/gradebook.db") as book:
        written = book.find_grade("usable", SET, SET, "full")
        written.manual_score, written.needs_manual_grade = 1.5, False
        book.db.commit()
    again = _grade(api(course), course, "full", SET)
    assert (again.score, again.by_hand) == (19.5, False)


def test_a_submission_is_executed_again_when_anything_it_depends_on_has_changed(graded):
    _, course = graded
    known = api(course)
    assert _is_graded(known, course, "blank", SET)
    assert not _is_graded(known, course, "dies", SET)
    for changed in (course / "grading/submitted/blank" / SET / f"{SET}.ipynb", course / "nbgrader_config.py",
                    course / "solutions" / SET / f"{SET}.ipynb"):
        text = changed.read_text()
        changed.write_text(text + " ")
        assert not _is_graded(known, course, "blank", SET)
        changed.write_text(text)
    assert _is_graded(known, course, "blank", SET)
    known.coursedir.db_url = f"sqlite:///{course}/grading/another.db"
    assert not _is_graded(known, course, "blank", SET)


def test_the_command_says_what_is_missing(tmp_path):
    done = subprocess.run([sys.executable, "-m", "helpers.grade", "grade"], cwd=tmp_path, capture_output=True,
                          text=True, check=False)
    assert done.returncode == 1
    assert "has no nbgrader_config.py: run this in the course's folder" in done.stdout


def test_an_empty_inbox_is_no_error(tmp_path):
    course = new_course(tmp_path)
    assert grade(course) == []
    assert SET in {p.name for p in (course / "exercises").iterdir()}
