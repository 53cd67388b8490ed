"""What is known of graded submissions: nbgrader's gradebook, and beside it what each mark depends on.

A judged notebook is handed to nbgrader as if it had run it: nbgrader reads points from its outputs, keeps marks given
by hand, knows due dates, and makes feedback.
"""
from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import nbformat
from nbgrader.api import Gradebook, MissingEntry
from nbgrader.preprocessors import AssignLatePenalties, SaveAutoGrades
from traitlets.config import Config

from helpers.grade.apart.outputs import for_students
from helpers.grade.apart.submission import Graded
from helpers.grade.course import api, run
from helpers.grade.inbox import Submission

JUDGED, SHOWN = "grading/judged", "grading/shown"       # with hidden tests, and without


class Record:
    """The records of one course; only one process may write them at a time."""

    def __init__(self, course, root: Path):
        self.root, self.db_url = root, course.coursedir.db_url
        settings = Config()
        settings.CourseDirectory.submitted_directory = JUDGED
        settings.Autograde.sanitize_preprocessors = []
        settings.Autograde.autograde_preprocessors = [SaveAutoGrades, AssignLatePenalties]
        self.recorder = api(root, settings)
        shown = Config()
        shown.CourseDirectory.autograded_directory = SHOWN
        shown.HTMLExporter.sanitize_html = True
        self.publisher = api(root, shown)

    def is_current(self, one: Submission, digest: str) -> bool:
        """Whether this very submission was graded by these very checks, and the gradebook still knows."""
        if self._noted(one).get("digest") != digest or not self._notebook(JUDGED, one).exists():
            return False
        with Gradebook(self.db_url) as book:
            try:
                return book.find_submission(one.assignment, one.student) is not None
            except MissingEntry:
                return False

    def keep(self, one: Submission, digest: str, result: Graded) -> None:
        """Record points, and what they depend on last, so that whatever is broken off is done again."""
        read_by_hand = self._read_by_hand(one, result.notebook)
        for place, notebook in ((JUDGED, result.notebook), (SHOWN, for_students(result.notebook))):
            target = self._notebook(place, one)
            shutil.rmtree(target.parent, ignore_errors=True)
            target.parent.mkdir(parents=True)
            nbformat.write(notebook, target)
        stamp = one.file.parent / "timestamp.txt"
        if stamp.is_file() and not stamp.is_symlink():
            shutil.copy(stamp, self._notebook(JUDGED, one).parent)
        run(f"recording {one.student}'s {one.assignment}",
            self.recorder.autograde(one.assignment, one.student, force=True, create=True))
        self._keep_read(one, read_by_hand)
        note = self._note(one)
        note.parent.mkdir(parents=True, exist_ok=True)
        part = note.with_suffix(".part")
        part.write_text(json.dumps({"digest": digest, "points": result.points, "verdicts": result.verdicts,
                                    "look_at": result.look_at}))
        os.replace(part, note)

    def feedback(self, one: Submission) -> None:
        """Write what the student gets to read, without hidden tests."""
        run(f"feedback for {one.student}", self.publisher.generate_feedback(one.assignment, one.student, force=True))

    def mark(self, one: Submission) -> tuple[float, float, bool, float, list[str]]:
        """Score, most that there is, whether a person must read answers, seconds late, what a person should look at."""
        with Gradebook(self.db_url) as book:
            known = book.find_submission(one.assignment, one.student)
            return (known.score, known.max_score, known.needs_manual_grade, known.total_seconds_late,
                    self._noted(one).get("look_at", []))

    def _read_by_hand(self, one: Submission, notebook: nbformat.NotebookNode) -> list[str]:
        """The names of written answers that a person has marked, and that are what they were."""
        try:
            before = {cell.metadata.nbgrader.grade_id: cell.source
                      for cell in nbformat.read(self._notebook(JUDGED, one), 4).cells if "nbgrader" in cell.metadata}
        except (OSError, ValueError, nbformat.reader.NotJSONError):
            return []
        same = [cell.metadata.nbgrader.grade_id for cell in notebook.cells if "nbgrader" in cell.metadata
                and before.get(cell.metadata.nbgrader.grade_id) == cell.source]
        with Gradebook(self.db_url) as book:
            grades = [self._grade(book, one, name) for name in same]
            return [name for name, grade in zip(same, grades, strict=True)
                    if grade is not None and grade.manual_score is not None and not grade.needs_manual_grade]

    def _keep_read(self, one: Submission, names: list[str]) -> None:
        with Gradebook(self.db_url) as book:
            for name in names:
                self._grade(book, one, name).needs_manual_grade = False
            book.db.commit()

    def _grade(self, book: Gradebook, one: Submission, name: str):
        try:
            return book.find_grade(name, one.assignment, one.assignment, one.student)
        except MissingEntry:
            return None

    def _notebook(self, place: str, one: Submission) -> Path:
        return self.root / place / one.student / one.assignment / f"{one.assignment}.ipynb"

    def _note(self, one: Submission) -> Path:
        return self.root / "grading/done" / one.student / f"{one.assignment}.json"

    def _noted(self, one: Submission) -> dict:
        try:
            return json.loads(self._note(one).read_text())
        except (OSError, ValueError):
            return {}
