"""`python -m helpers.grade release | grade | student`, for instructors."""
from __future__ import annotations

import argparse
import sys
from pathlib import Path


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m helpers.grade", description=__doc__)
    parser.add_argument("command", choices=["release", "grade", "student"])
    command, root = parser.parse_args().command, Path.cwd()
    try:
        return {"release": _release, "grade": _grade, "student": _student}[command](root)
    except (ValueError, RuntimeError, OSError) as error:
        print(error)
        return 1


def _release(root: Path) -> int:
    from helpers.grade.release import release

    for notebook in release(root):
        print(notebook.relative_to(root))
    return 0


def _grade(root: Path) -> int:
    from helpers.grade.grade import grade

    marks = grade(root)
    if not marks:
        print("nothing to grade: put notebooks at grading/submitted/STUDENT/ASSIGNMENT/ASSIGNMENT.ipynb")
    for mark in marks:
        got = "not graded" if mark.score is None else f"{mark.score:g} of {mark.most:g}"
        print(f"{mark.student:20} {mark.assignment:16} {got}{', written answers wait' if mark.by_hand else ''}")
        if mark.trouble:
            print(f"    {mark.trouble.splitlines()[0]}")
    print("marks: grading/grades.csv; feedback: grading/feedback/; by hand: formgrader in JupyterLab")
    return any(mark.score is None for mark in marks)


def _student(root: Path) -> int:
    from helpers.grade.student import student_archive

    print(student_archive(root).relative_to(root))
    return 0


if __name__ == "__main__":
    sys.exit(main())
