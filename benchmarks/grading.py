"""Submissions a minute, and CPU seconds of all cores for each: `make grade` beside plain `nbgrader autograde`.

The same class of set 01, the same marks.  Both write the gradebook and feedback; plain nbgrader runs one submission
after the other, without a sandbox, and each in a kernel of its own that imports torch.
"""
import tempfile
import time
import warnings
from pathlib import Path

from nbgrader.api import Gradebook

from benchmarks.checks import busy_s
from helpers.grade.course import api, run
from helpers.grade.grade import grade
from tests.grade.course import SET, answered, new_course, release_notebook, solution_notebook, submit
from tests.grade.test_grade import SUBMISSIONS

SIZE = 12


def new_class(folder: Path) -> Path:
    """Right, blank and partly right submissions, in turn."""
    course = new_course(folder, (SET,))
    kinds = [solution_notebook(), release_notebook(), *(answered(SUBMISSIONS[name][0]) for name in ("some", "wrong"))]
    for number in range(SIZE):
        submit(course, f"student{number:02}", kinds[number % len(kinds)])
    return course


def plain_nbgrader(course_folder: Path) -> None:
    """What nbgrader's own command does, without the seconds that each start of it takes."""
    course = api(course_folder)
    run("reading the source", course.generate_assignment(SET, force=True, create=True))
    for student in sorted(course.get_submitted_students(SET)):
        run(student, course.autograde(SET, student, force=True, create=True))
        run(student, course.generate_feedback(SET, student, force=True))


def marks(course: Path) -> dict[str, float]:
    """By student, from the gradebook."""
    with Gradebook(f"sqlite:///{course}/grading/gradebook.db") as book:
        return {one.student.id: one.score for one in book.assignment_submissions(SET)}


def measured(way, folder: Path) -> tuple[float, float, dict[str, float]]:
    """Submissions a minute, CPU seconds for each, and the marks."""
    course, busy, started = new_class(folder), busy_s(), time.monotonic()
    way(course)
    took = time.monotonic() - started
    return 60 * SIZE / took, (busy_s() - busy) / SIZE, marks(course)


def main() -> None:
    """Print both, and their ratio."""
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        theirs, ours = measured(plain_nbgrader, Path(first)), measured(grade, Path(second))
    for name, (a_minute, cpu_s, _) in (("nbgrader autograde", theirs), ("make grade", ours)):
        print(f"{name:20} {a_minute:6.1f} submissions a minute, {cpu_s:5.1f} CPU seconds for each")
    alike = "are the same" if ours[2] == theirs[2] else "DIFFER"
    print(f"{ours[0] / theirs[0]:.1f} times as many a minute; marks {alike}")


if __name__ == "__main__":
    main()
