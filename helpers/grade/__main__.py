"""`python -m helpers.grade release | grade [--no-sandbox] | student | demo`, for instructors."""
from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from helpers.grade.grade import Mark


def main() -> int:
    """Run `python -m helpers.grade ...` with the arguments of the command line; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m helpers.grade", description=__doc__)
    parser.add_argument("command", choices=["release", "grade", "student", "demo"])
    parser.add_argument("--no-sandbox", action="store_true", help="run what students wrote as yourself")
    options, root = parser.parse_args(), Path.cwd()
    try:
        if options.command == "grade":
            return _grade(root, not options.no_sandbox)
        if options.command == "demo":
            return _demo(root, not options.no_sandbox)
        return {"release": _release, "student": _student}[options.command](root)
    except (ValueError, RuntimeError, OSError) as error:
        print(error)
        return 1


def _release(root: Path) -> int:
    from helpers.grade.release import release

    if not (root / "solutions").exists():
        raise ValueError("there are no solutions/ here to make a release from: this is a student's copy of the course")
    for notebook in release(root):
        print(notebook.relative_to(root))
    return 0


def _grade(root: Path, sandboxed: bool) -> int:
    from helpers.grade.grade import grade

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")                 # nbgrader's and nbformat's, about their own insides
        marks = grade(root, sandboxed, _tell)
    if not marks:
        print("nothing to grade: put notebooks at grading/submitted/STUDENT/ASSIGNMENT/ASSIGNMENT.ipynb")
    print("marks: grading/grades.csv; feedback: grading/feedback/; by hand: formgrader in JupyterLab")
    if marks:
        print("how the class fared: grading/report.html, grading/properties.csv")
    return any(mark.score is None for mark in marks)


def _demo(root: Path, sandboxed: bool) -> int:
    from helpers.grade.demo import demo_class

    if not (root / "solutions").exists():
        raise ValueError("there are no solutions/ here to make a class from: this is a student's copy of the course")
    course = demo_class(root)
    _grade(course, sandboxed)
    print(f"all of this is in {course.relative_to(root)}")
    return 0


def _tell(mark: Mark) -> None:
    got = "not graded" if mark.score is None else f"{mark.score:g} of {mark.most:g}"
    late = f", {mark.late_s / 3600:,.1f} hours late" if mark.late_s else ""
    print(f"{mark.student:20} {mark.assignment:16} {got}{late}{', written answers wait' if mark.by_hand else ''}")
    for words in filter(None, [*mark.trouble.splitlines()[:1], mark.look_at and f"look at {mark.look_at}"]):
        print(f"    {words}", flush=True)


def _student(root: Path) -> int:
    from helpers.grade.student import student_archive

    print(student_archive(root).relative_to(root))
    return 0


if __name__ == "__main__":
    sys.exit(main())
