"""`python -m helpers.grade release | grade [--sandbox] | student`, for instructors."""
from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path


def main() -> int:
    """Run `python -m helpers.grade ...` with the arguments of the command line; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m helpers.grade", description=__doc__)
    parser.add_argument("command", choices=["release", "grade", "student"])
    parser.add_argument("--sandbox", action="store_true", help="grade in kernels that are shut in (Linux, bubblewrap)")
    options, root = parser.parse_args(), Path.cwd()
    try:
        if options.command == "grade":
            return _grade(root, options.sandbox)
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


def _grade(root: Path, shut_in: bool) -> int:
    from helpers.grade.grade import grade

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")                 # nbgrader's and nbformat's, about their own insides
        marks = grade(root, shut_in)
    if not marks:
        print("nothing to grade: put notebooks at grading/submitted/STUDENT/ASSIGNMENT/ASSIGNMENT.ipynb")
    for mark in marks:
        got = "not graded" if mark.score is None else f"{mark.score:g} of {mark.most:g}"
        print(f"{mark.student:20} {mark.assignment:16} {got}{', written answers wait' if mark.by_hand else ''}")
        if mark.trouble:
            print(f"    {mark.trouble.splitlines()[0]}")
        if mark.look_at:
            print(f"    look at {mark.look_at}")
    print("marks: grading/grades.csv; feedback: grading/feedback/; by hand: formgrader in JupyterLab")
    return any(mark.score is None for mark in marks)


def _student(root: Path) -> int:
    from helpers.grade.student import student_archive

    print(student_archive(root).relative_to(root))
    return 0


if __name__ == "__main__":
    sys.exit(main())
