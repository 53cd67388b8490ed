"""A sandbox has what grading needs, and nothing more; without bubblewrap the grader says what to do."""
import subprocess
import sys

import pytest

from helpers.grade.grade import grade
from tests.grade.course import SET, answered, new_course, solution_notebook, submit


def test_without_bubblewrap_nothing_is_graded_and_it_says_what_to_do(tmp_path, monkeypatch):
    submit(course := new_course(tmp_path), "ada", solution_notebook())
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ValueError, match=r"apt-get install bubblewrap.*or say `make grade SANDBOX=off` to run"):
        grade(course)
    assert not (course / "grading/grades.csv").exists()


def test_without_a_sandbox_the_marks_are_the_same(tmp_path):
    """In so many words, for machines that have no bubblewrap."""
    some = {"bytes": "", "layers": "", "measure": ""}           # the dear ones are left out
    submit(course := new_course(tmp_path), "ada", answered(some))
    done = subprocess.run([sys.executable, "-m", "helpers.grade", "grade", "--no-sandbox"], cwd=course, text=True,
                          capture_output=True, check=False, env={"PATH": "/usr/bin:/bin"})
    assert f"ada                  {SET}        9 of 20, written answers wait" in done.stdout, done.stdout + done.stderr
    assert done.returncode == 0
