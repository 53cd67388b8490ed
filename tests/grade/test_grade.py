"""Submissions get the marks that they deserve, whatever is in them."""
import csv
import json
import os
import shutil
import sqlite3
import subprocess
import sys

import nbformat
import psutil
import pytest
from nbgrader.api import Gradebook

from helpers.grade.apart import submission
from helpers.grade.grade import grade
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


MALFORMED = {"empty": "", "list": "[]", "text": '"x"', "old": '{"nbformat": 1}'}

pytestmark = pytest.mark.skipif(
    not shutil.which("bwrap") and not os.environ.get("COURSE_SANDBOX_REQUIRED"),
    reason="the sandbox is for Linux with bubblewrap (apt-get install bubblewrap)")


@pytest.fixture(scope="module")
def graded(tmp_path_factory):
    """All submissions, graded once: the marks by student, and the course's folder."""
    course = new_course(tmp_path_factory.mktemp("course"))
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
    told, before = [], submission.CELL_S
    submission.CELL_S = 5.0
    try:
        marks = grade(course, tell=told.append)
    finally:
        submission.CELL_S = before
    assert sorted(map(str, told)) == sorted(map(str, marks))
    return {mark.student: mark for mark in marks}, course


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


def test_a_cell_that_ends_its_process_costs_its_own_exercise(graded):
    mark = graded[0]["dies"]
    assert (mark.score, mark.look_at) == (14, "cell 'table' was stopped: it ended its process")


@pytest.mark.parametrize("student", MALFORMED)
def test_what_is_no_notebook_stops_nobody_else(graded, student):
    assert graded[0][student].score is None
    assert "cannot be read as a notebook" in graded[0][student].trouble


def test_a_copied_cell_is_named(graded):
    assert "cell 'table' stands twice in the notebook" in graded[0]["copies"].trouble


def test_nothing_is_left_running(graded):
    assert [p for p in psutil.process_iter() if p.name() == "bwrap" and p.status() != psutil.STATUS_ZOMBIE] == []


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


def test_the_report_names_the_mistakes_and_what_a_person_should_look_at(graded):
    page = (graded[1] / "grading/report.html").read_text()
    assert "table-check: 24.2 is the size in GiB; GB are asked for" in page
    assert "cell &#39;table&#39; was stopped: it ended its process" in page
    assert "cannot be read as a notebook" in page
    with open(graded[1] / "grading/properties.csv") as file:
        rows = [row for row in csv.DictReader(file) if (row["student"], row["check"]) == ("some", "table-check")]
    assert [(row["property"], row["right"]) for row in rows] == [
        ("DDP", "True"), ("ZeRO-1", "True"), ("ZeRO-2", "False"), ("ZeRO-3", "False")]


def test_feedback_does_not_show_hidden_tests(graded):
    for page in (graded[1] / "grading/feedback").rglob("*.html"):
        text = page.read_text()
        assert "HIDDEN TESTS" not in text
        assert "unseen" not in text
    judged = next((graded[1] / "grading/autograded/full").rglob("*.ipynb")).read_text()
    assert "check_bytes_per_rank_unseen" in judged


def by_hand(course, points: float | None = None) -> tuple[float, bool]:
    """The written answer of the student "full": its points, and whether it waits; first it may be marked."""
    with Gradebook(f"sqlite:///{course}/grading/gradebook.db") as book:
        written = book.find_grade("usable", SET, SET, "full")
        if points is not None:
            written.manual_score, written.needs_manual_grade = points, False
            book.db.commit()
        return written.manual_score, written.needs_manual_grade


def only(marks: list, student: str):
    return next(mark for mark in marks if mark.student == student)


def executed(monkeypatch) -> list:
    """The submissions that are run from now on, by their answer to the first exercise."""
    ran, run = [], submission.graded

    def counted(cells, *args):
        ran.append(next(cell.source for cell in cells if cell.name == "table"))
        return run(cells, *args)

    monkeypatch.setattr("helpers.grade.grade.graded", counted)
    return ran


@pytest.fixture
def pair(graded, tmp_path):
    """The course with two of its submissions, graded."""
    course = shutil.copytree(graded[1], tmp_path / "course")
    for folder in (course / "grading/submitted").iterdir():
        if folder.name not in ("full", "blank"):
            shutil.rmtree(folder)
    return course


def test_marks_by_hand_survive_another_grading_and_nothing_is_run_again(pair, monkeypatch):
    by_hand(pair, 1.5)
    ran = executed(monkeypatch)
    assert only(grade(pair), "full").score == 19.5
    assert (ran, by_hand(pair)) == ([], (1.5, False))


def test_prose_of_a_solution_changes_no_mark_and_a_changed_check_grades_anew(pair, monkeypatch):
    by_hand(pair, 1.5)
    ran, source = executed(monkeypatch), pair / "solutions" / SET / f"{SET}.ipynb"
    notebook = nbformat.read(source, 4)
    for cell in notebook.cells:
        if cell.id in ("title", "usable"):
            cell.source += " A letter more."
    nbformat.write(notebook, source)
    grade(pair)
    assert ran == []
    for cell in notebook.cells:
        if cell.id == "table-check":
            cell.source += "  # another"
    nbformat.write(notebook, source)
    marks = grade(pair)
    assert len(ran) == 2
    assert (only(marks, "full").score, by_hand(pair)) == (19.5, (1.5, False))


def test_what_is_handed_in_again_is_graded_again_and_nobody_else(pair, monkeypatch):
    ran = executed(monkeypatch)
    file = pair / "grading/submitted/blank" / SET / f"{SET}.ipynb"
    file.write_text(json.dumps(answered({"table": "gb_per_rank = {'DDP': 208}"})))
    grade(pair)
    assert ran == ["gb_per_rank = {'DDP': 208}"]


def test_what_was_broken_off_is_done_again(pair, monkeypatch):
    """The note on what a mark depends on is written last."""
    (pair / "grading/done/full" / f"{SET}.json").unlink()
    ran = executed(monkeypatch)
    assert only(grade(pair), "full").score == 18
    assert len(ran) == 1


def test_an_exercise_that_was_dropped_stops_its_set_only_and_says_what_to_do(pair):
    source = pair / "solutions" / SET / f"{SET}.ipynb"
    notebook = nbformat.read(source, 4)
    notebook.cells = [cell for cell in notebook.cells if not cell.id.startswith("mistake")]
    nbformat.write(notebook, source)
    other = pair / "grading/submitted/other/09_pipeline/09_pipeline.ipynb"
    other.parent.mkdir(parents=True)
    nbformat.write(release_notebook("09_pipeline"), other)
    marks = grade(pair)
    assert only(marks, "other").score == 0
    assert f"nbgrader db assignment remove {SET} --force` and grade again" in only(marks, "full").trouble


def test_the_command_says_what_is_missing(tmp_path):
    done = subprocess.run([sys.executable, "-m", "helpers.grade", "grade"], cwd=tmp_path, capture_output=True,
                          text=True, check=False)
    assert done.returncode == 1
    assert "has no nbgrader_config.py: run this in the course's folder" in done.stdout


def test_an_empty_inbox_is_no_error(tmp_path):
    course = new_course(tmp_path)
    assert grade(course) == []
