"""What a class gets has the lessons and exercises, and nothing that gives answers away."""
import subprocess
import zipfile

import pytest

from helpers.grade.release import secrets
from helpers.grade.student import student_archive
from tests.grade.course import ROOT, SETS


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    """The archive, made in a clone."""
    clone = tmp_path_factory.mktemp("clone") / "course"
    subprocess.run(["git", "clone", "-q", ROOT, clone], check=True)
    return zipfile.ZipFile(student_archive(clone))


def test_lessons_exercises_and_set_up_are_in_it(packed):
    assert {"Makefile", "pyproject.toml", "environment.yml", "postBuild", "notebooks/00_start_here.ipynb",
            "helpers/run/launch/rank.py",
            *(f"exercises/{name}/{name}.ipynb" for name in SETS)} <= set(packed.namelist())


def test_solutions_their_sources_and_tests_are_not(packed):
    left_out = ("solutions/", "sources/exercises/", "tests/", "grading/")
    assert [name for name in packed.namelist() if name.startswith(left_out)] == []


def test_no_secret_line_is_in_any_file(packed):
    """But for lines that a lesson or the course's own collectives show, such as those that shard a model."""
    taught = {line.strip() for part in ("sources/lessons", "benchmarks", "helpers/run")
              for source in (ROOT / part).rglob("*.py") for line in source.read_text().splitlines()}
    text = "\n".join(packed.read(name).decode(errors="replace") for name in packed.namelist())
    shown = {line.strip().strip('",').removesuffix("\\n").replace('\\"', '"').strip() for line in text.splitlines()}
    assert sorted((secrets(ROOT) - taught) & shown) == []
    assert len(secrets(ROOT) - taught) > 20


def test_outside_of_git_it_says_so(tmp_path):
    with pytest.raises(ValueError, match="the archive is made from a commit"):
        student_archive(tmp_path)
