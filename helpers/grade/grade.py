"""From submitted/ to marks: autograde, feedback, and a table of scores.

grading/submitted/STUDENT/ASSIGNMENT/ASSIGNMENT.ipynb
  -> grading/autograded/...    executed, with points
  -> grading/feedback/...      HTML for each student
  -> grading/grades.csv        a row for each submission

A submission that has been graded and has not changed since is not executed
again, so that marks given by hand stay; feedback and table are written anew.
"""
from __future__ import annotations

import csv
import hashlib
import re
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import nbformat
from nbgrader.api import Gradebook, MissingEntry

from helpers import checks
from helpers.grade.course import GradingFailed, api, assignments, run
from helpers.grade.sandbox import sandbox

# What no answer needs, but somebody who works on the checks and not on the exercise: a person should look.
ODD = re.compile(r"helpers\.(checks|predict|compare|grade)|sys\.modules|builtins|get_ipython|__eq__|__class__|"
                 r"gc\.get_objects|solutions/|gradebook|\bpoints\s*=|\bcheck\w*\s*=|subprocess|os\.(system|fork|_exit)|ctypes|"
                 r"_getframe|f_globals|f_locals|f_back|mock|fsum|__wrapped__|__reduce__|isclose\s*=|recorder|\.launch\s*=|"
                 r"torch\.Tensor\.\w+\s*=|def careless|\bscripts\s*=")


@dataclass(frozen=True)
class Mark:
    """One student's result in one assignment."""

    student: str
    assignment: str
    score: float | None         # None: could not be graded
    most: float
    by_hand: bool               # written answers wait for a person
    trouble: str = ""           # why it could not be graded
    look_at: str = ""           # what a person should look at


def grade(root: Path, shut_in: bool = False) -> list[Mark]:
    """Grade every submission, in a sandbox if `shut_in`; one that cannot be graded does not stop the others."""
    with sandbox(root) if shut_in else nullcontext() as settings:
        course, marks = api(root, settings), []
        for assignment in assignments(root):
            run(f"reading the source of {assignment}", course.generate_assignment(assignment, force=True, create=True))
            for student in sorted(course.get_submitted_students(assignment)):
                marks.append(_grade(course, root, student, assignment))
    _export(root, marks)
    return marks


def _grade(course, root: Path, student: str, assignment: str) -> Mark:
    try:
        suspicions = _look_at_cells(root, student, assignment)
        if not _is_graded(course, root, student, assignment):
            run(f"{student}'s {assignment}", course.autograde(assignment, student, force=True, create=True))
            _note_graded(root, student, assignment)
        run(f"feedback for {student}", course.generate_feedback(assignment, student, force=True))
    except (GradingFailed, ValueError) as failure:
        return Mark(student, assignment, None, 0, False, str(failure))
    with Gradebook(course.coursedir.db_url) as book:
        submission = book.find_submission(assignment, student)
        return Mark(student, assignment, submission.score, submission.max_score, submission.needs_manual_grade,
                    look_at=suspicions)


def _is_graded(course, root: Path, student: str, assignment: str) -> bool:
    """Whether this very notebook was graded by these very checks, and the gradebook still knows."""
    note = _note(root, student, assignment)
    if not note.exists() or note.read_text() != _digest(root, student, assignment):
        return False
    with Gradebook(course.coursedir.db_url) as book:
        try:
            return book.find_submission(assignment, student) is not None
        except MissingEntry:
            return False


def _note_graded(root: Path, student: str, assignment: str) -> None:
    note = _note(root, student, assignment)
    note.parent.mkdir(exist_ok=True)
    note.write_text(_digest(root, student, assignment))


def _note(root: Path, student: str, assignment: str) -> Path:
    return root / "grading/done" / f"{student}-{assignment}"


def _digest(root: Path, student: str, assignment: str) -> str:
    """Of all that a mark depends on: the submission, the source, the checks, the settings."""
    files = [root / "grading/submitted" / student / assignment / f"{assignment}.ipynb",
             root / "solutions" / assignment / f"{assignment}.ipynb", root / "nbgrader_config.py",
             *sorted(Path(checks.__file__).parent.glob("*.py"))]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def _look_at_cells(root: Path, student: str, assignment: str) -> str:
    """Refuse what nbgrader would stumble over, copied cells among it; name unlocked cells that do odd things."""
    notebook = root / "grading/submitted" / student / assignment / f"{assignment}.ipynb"
    if not notebook.exists():
        raise ValueError(f"{student} has handed in no {assignment}.ipynb")
    seen, odd = set(), []
    for cell in _cells(notebook):
        name, locked = ((cell.metadata.get("nbgrader") or {}).get(key) for key in ("grade_id", "locked"))
        if name in seen:
            raise ValueError(f"cell {name!r} stands twice in the notebook: delete the copy, then grade again")
        seen |= {name} if name else set()
        if cell.cell_type == "code" and not locked and (found := ODD.search(cell.source)):
            odd.append(f"{name or cell.get('id', 'a cell')}: {found.group()}")
    return "; ".join(odd)


def _cells(notebook: Path) -> list:
    try:
        read = nbformat.read(notebook, 4)
        nbformat.validate(read)
        return read.cells
    except Exception as error:                  # nbformat raises whatever the file makes it stumble over
        raise ValueError(f"{notebook.name} cannot be read as a notebook: {str(error).splitlines()[0][:200]}") from None


def _export(root: Path, marks: list[Mark]) -> None:
    with open(root / "grading/grades.partial", "w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["student", "assignment", "score", "max_score", "needs_manual_grade", "trouble", "look_at"])
        for mark in marks:
            table.writerow([mark.student, mark.assignment, "" if mark.score is None else mark.score, mark.most,
                            mark.by_hand, mark.trouble.splitlines()[0] if mark.trouble else "", mark.look_at])
    (root / "grading/grades.partial").rename(root / "grading/grades.csv")
