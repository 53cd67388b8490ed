"""What is in grading/submitted/: one place for each submission, and words for whatever stands in another.

    grading/submitted/STUDENT/ASSIGNMENT/ASSIGNMENT.ipynb
"""
from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

PLACE = "grading/submitted/STUDENT/{name}/{name}.ipynb"


@dataclass(frozen=True)
class Submission:
    """A notebook that somebody has handed in, or why there is none.

    file      None if it cannot be graded; `trouble` says why, and what to do
    note      what a person should know
    """

    student: str
    assignment: str
    file: Path | None = None
    trouble: str = ""
    note: str = ""


def submissions(root: Path, assignments: list[str]) -> list[Submission]:
    """Everything in the inbox of a course, by student and assignment."""
    inbox, found = root / "grading/submitted", []
    for entry in sorted(inbox.iterdir()) if inbox.is_dir() else []:
        if entry.name.startswith("."):
            continue
        if entry.is_symlink() or not entry.is_dir():
            found.append(Submission(entry.name, "", trouble=f"{entry.name} is no student's folder: put the notebook at "
                                                            f"{_place(entry.stem, assignments)}"))
            continue
        found += _of_student(entry, assignments) or [Submission(entry.name, "", trouble="the folder is empty")]
    return found


def _of_student(folder: Path, assignments: list[str]) -> list[Submission]:
    found = []
    for entry in sorted(folder.iterdir()):
        if entry.name.startswith("."):
            continue
        if entry.is_symlink():
            found.append(Submission(folder.name, entry.name, trouble=f"{entry.name} is a link: put the files there"))
        elif entry.is_dir() and entry.name in assignments:
            found.append(_of_assignment(folder.name, entry))
        elif entry.is_dir():
            found.append(Submission(folder.name, entry.name, trouble=f"no exercise set is called {entry.name!r}: name "
                                                                     f"the folder as one of {', '.join(assignments)}"))
        elif entry.suffix == ".ipynb":
            place = _place(entry.stem, assignments).replace("STUDENT", folder.name)
            found.append(Submission(folder.name, entry.stem, trouble=f"{entry.name} is not in a folder of its exercise "
                                                                     f"set: move it to {place}"))
    return found


def _of_assignment(student: str, folder: Path) -> Submission:
    wanted = folder / f"{folder.name}.ipynb"
    if wanted.is_symlink():
        return Submission(student, folder.name, trouble=f"{wanted.name} is a link: put the notebook itself there")
    if wanted.is_file():
        return Submission(student, folder.name, wanted)
    others = sorted(file for file in folder.glob("*.ipynb") if file.is_file() and not file.is_symlink())
    if len(others) == 1:
        return Submission(student, folder.name, others[0], note=f"graded: {others[0].name!r}, the only one there")
    there = ", ".join(repr(file.name) for file in others) or "no notebook"
    return Submission(student, folder.name, trouble=f"there is no {wanted.name}, but {there}: leave one of that name")


def _place(stem: str, assignments: list[str]) -> str:
    name = next((name for name in assignments if stem.endswith(name)), "ASSIGNMENT")
    return PLACE.format(name=name)
