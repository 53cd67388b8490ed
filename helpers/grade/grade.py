"""From submitted/ to marks: run, judge, record, feedback, and a table of scores.

grading/submitted/STUDENT/ASSIGNMENT/ASSIGNMENT.ipynb
  -> grading/judged/...        executed and judged, and what the mark depends on
  -> grading/autograded/...    as nbgrader records it
  -> grading/feedback/...      HTML for each student
  -> grading/grades.csv        a row for each submission; properties.csv and report.html, how the class fared

Submissions are run side by side, each in sandboxes of its own; nbgrader's gradebook is written by this process alone.
One that has been graded, and of which nothing has changed that its mark depends on, is not run again.
"""
from __future__ import annotations

import csv
import os
import secrets
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from helpers.grade.apart.rebuild import GradedCell, exercise, rebuilt
from helpers.grade.apart.sandbox import HELPERS, bubblewrap
from helpers.grade.apart.submission import graded
from helpers.grade.course import GradingFailed, api, assignments, run
from helpers.grade.digest import digest
from helpers.grade.inbox import Submission, submissions
from helpers.grade.record import Record
from helpers.grade.report import write_report
from helpers.run.launch import fork_server


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
    late_s: float = 0.0         # seconds after the due date, if nbgrader knows both


def grade(root: Path, sandboxed: bool = True, tell: Callable[[Mark], None] = lambda mark: None,
          num_workers: int | None = None) -> list[Mark]:
    """Grade every submission of a course; one that cannot be graded does not stop the others.

    sandboxed     False: what students wrote runs as whoever grades
    tell          called with each mark as soon as it is there
    num_workers   submissions that run at the same time; one for each core if None
    Raises `ValueError` if there is no course here, or no sandbox.
    """
    if sandboxed:
        bubblewrap()
    course = api(root)
    found = submissions(root, assignments(root))
    record, exercises, marks = Record(course, root), {}, []
    seed = _seed(root)
    for name in {each.assignment for each in found if each.file}:
        exercises[name] = _exercise(course, root, name)
    if any(each.file for each in found):
        _warm()
    with ThreadPoolExecutor(num_workers or os.cpu_count()) as pool:
        waiting = {pool.submit(_run, one, exercises, record, seed, sandboxed): one for one in found}
        for done in as_completed(waiting):
            marks.append(_recorded(record, waiting[done], done.result()))
            tell(marks[-1])
    marks.sort(key=lambda mark: (mark.assignment, mark.student))
    _export(root, marks)
    if marks:
        write_report(root, marks)
    return marks


def _exercise(course, root: Path, name: str) -> list[GradedCell] | str:
    """The cells of an exercise set, known to the gradebook; or why it cannot be graded."""
    try:
        run(f"reading the source of {name}", course.generate_assignment(name, force=True, create=True))
        return exercise(root / "solutions" / name / f"{name}.ipynb", root / "exercises" / name / f"{name}.ipynb")
    except (GradingFailed, ValueError, OSError) as failure:
        if "Cannot add or remove cells" in str(failure):
            return (f"exercises of {name} were added or dropped after it was graded: put them back, or forget all "
                    f"its marks by `.venv/bin/nbgrader db assignment remove {name} --force` and grade again")
        return str(failure)


def _run(one: Submission, exercises: dict, record: Record, seed: str, sandboxed: bool) -> tuple | str:
    """In a thread of its own: what there is to record, or why there is nothing."""
    if one.trouble:
        return one.trouble
    if isinstance(exercises[one.assignment], str):
        return exercises[one.assignment]
    try:
        cells, notes = rebuilt(exercises[one.assignment], one.file)
        stamp = one.file.parent / "timestamp.txt"
        handed_in = stamp.read_text(errors="replace") if stamp.is_file() and not stamp.is_symlink() else ""
        now = digest(cells, seed=seed, sandboxed=sandboxed, handed_in=handed_in)
        if record.is_current(one, now):
            return now, None, notes
        return now, graded(cells, seed, sandboxed), notes
    except (ValueError, OSError) as error:
        return str(error)


def _recorded(record: Record, one: Submission, ran: tuple | str) -> Mark:
    if isinstance(ran, str):
        return Mark(one.student, one.assignment, None, 0, False, ran)
    now, result, notes = ran
    try:
        if result:
            record.keep(one, now, result)
        record.feedback(one)
        score, most, by_hand, late_s, look_at = record.mark(one)
    except GradingFailed as failure:
        return Mark(one.student, one.assignment, None, 0, False, str(failure))
    return Mark(one.student, one.assignment, score, most, by_hand, "",
                "; ".join([*filter(None, [one.note]), *notes, *look_at]), late_s)


def _seed(root: Path) -> str:
    """Of unseen cases: made on first use, then the same for the whole class."""
    file = root / "grading/seed"
    if not file.exists():
        file.parent.mkdir(exist_ok=True)
        with open(os.open(file, os.O_WRONLY | os.O_CREAT, 0o600), "w") as new:
            new.write(secrets.token_hex(16))
    return file.read_text().strip()


def _warm() -> None:
    """Start the server of which all that runs is a copy."""
    checks = sorted(f"helpers.checks.{place.parent.name}" for place in HELPERS.glob("checks/*/__init__.py"))
    fork_server.warm_up(*checks, "helpers.grade.apart.answers", "helpers.grade.apart.judge",
                        "matplotlib_inline.backend_inline")


def _export(root: Path, marks: list[Mark]) -> None:
    with open(root / "grading/grades.partial", "w", newline="", encoding="utf-8", errors="replace") as file:
        table = csv.writer(file)
        table.writerow(["student", "assignment", "score", "max_score", "needs_manual_grade", "seconds_late", "trouble",
                        "look_at"])
        table.writerows(_rows(marks))
    (root / "grading/grades.partial").rename(root / "grading/grades.csv")


def _rows(marks: list[Mark]) -> Iterator[list]:
    for mark in marks:
        yield [mark.student, mark.assignment, "" if mark.score is None else mark.score, mark.most, mark.by_hand,
               round(mark.late_s), mark.trouble.splitlines()[0] if mark.trouble else "", mark.look_at]
