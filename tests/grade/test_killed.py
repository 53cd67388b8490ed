"""A batch that is killed goes on where it was: no mark is lost, doubled or changed, and nothing is left running."""
import random
import signal
import subprocess
import sys
import time

import psutil
import pytest
from nbgrader.api import Gradebook

from tests.grade.course import SET, answered, new_course, release_notebook, solution_notebook, submit
from tests.grade.test_grade import SUBMISSIONS

COMMAND = [sys.executable, "-m", "helpers.grade", "grade"]


def new_class(folder):
    course = new_course(folder, (SET,))
    for number, notebook in enumerate([solution_notebook(), release_notebook(), answered(SUBMISSIONS["some"][0]),
                                       answered(SUBMISSIONS["wrong"][0])] * 2):
        submit(course, f"student{number}", notebook)
    return course


def marks(course) -> list[tuple]:
    with Gradebook(f"sqlite:///{course}/grading/gradebook.db") as book:
        return sorted((one.student.id, one.score, one.needs_manual_grade) for one in book.assignment_submissions(SET))


def table(course) -> list[str]:
    return sorted((course / "grading/grades.csv").read_text().splitlines())


@pytest.mark.soak
def test_killed_at_twenty_moments_the_marks_are_those_of_a_batch_in_peace(tmp_path):
    calm, killed = new_class(tmp_path / "calm"), new_class(tmp_path / "killed")
    subprocess.run(COMMAND, cwd=calm, check=True, capture_output=True)
    chance = random.Random(5)
    for _ in range(20):
        batch = subprocess.Popen(COMMAND, cwd=killed, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(chance.uniform(1, 9))
        batch.send_signal(signal.SIGKILL)
        batch.wait()
    subprocess.run(COMMAND, cwd=killed, check=True, capture_output=True)
    assert (marks(killed), table(killed)) == (marks(calm), table(calm))
    time.sleep(3)
    assert [p for p in psutil.process_iter() if p.name() == "bwrap" and p.status() != psutil.STATUS_ZOMBIE] == []
