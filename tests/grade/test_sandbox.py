"""In the sandbox an honest answer gets its marks, and a thief finds nothing to steal."""
import os
import shutil
import subprocess

import psutil
import pytest

from helpers.grade.grade import grade
from helpers.grade.sandbox import UNSEEN, sandbox
from tests.grade.course import ROOT, SET, answered, new_course, solution_notebook, submit

needs_bwrap = pytest.mark.skipif(
    not shutil.which("bwrap") and not os.environ.get("COURSE_SANDBOX_REQUIRED"),
    reason="the sandbox is for Linux with bubblewrap (apt-get install bubblewrap)")


@needs_bwrap
def test_a_thief_gets_nothing_and_leaves_nothing(tmp_path):
    course = new_course(tmp_path)
    subprocess.run("git init -q; git add -A; git -c user.name=x -c user.email=x@x commit -qm x", cwd=course, shell=True,
                   check=True)
    right = 'gb_per_rank = {"DDP": 208, "ZeRO-1": 71.5, "ZeRO-2": 48.75, "ZeRO-3": 26}'
    reads = f"import pathlib\npathlib.Path({str(course / 'solutions' / SET / f'{SET}.ipynb')!r}).read_text()\n{right}"
    stays = f"import subprocess\nsubprocess.Popen(['sleep', '998'], start_new_session=True)\n{right}"
    stays += f"\nopen({str(course / 'left.txt')!r}, 'w')"
    submit(course, "honest", solution_notebook())
    asks = (f"import subprocess\nsubprocess.run(['git', '-C', {str(course)!r}, 'show', 'HEAD:nbgrader_config.py'],"
            " check=True)\nwrong_term, right_gb = 'gradient', 142.5")
    submit(course, "thief", answered({"table": reads, "smallest": stays, "mistake": asks}))
    marks = {mark.student: mark for mark in grade(course, shut_in=True)}
    assert (marks["honest"].score, marks["honest"].look_at) == (18, "")
    assert marks["thief"].score == 18 - 4 - 3 - 2
    assert marks["thief"].look_at == "table: solutions/; smallest: subprocess; mistake: subprocess"
    assert not (course / "left.txt").exists()
    assert [p for p in psutil.process_iter() if p.name() == "sleep" and "998" in p.cmdline()] == []


def test_without_bubblewrap_it_says_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ValueError, match="apt-get install bubblewrap, or grade without --sandbox"), sandbox(tmp_path):
        pass


@needs_bwrap
def test_the_environment_is_as_before(tmp_path, monkeypatch):
    monkeypatch.setenv("JUPYTER_PATH", "mine")
    monkeypatch.delenv("JUPYTER_RUNTIME_DIR", raising=False)
    before = dict(os.environ)
    with sandbox(tmp_path):
        assert os.environ["JUPYTER_PATH"] != "mine"
    assert dict(os.environ) == before


def test_what_the_sandbox_hides_a_class_does_not_get():
    left_out = {line.split()[0].lstrip("/") for line in (ROOT / ".gitattributes").read_text().splitlines()
                if "export-ignore" in line}
    assert left_out == set(UNSEEN) - {"build", ".git"}
