"""exercises/ is what nbgrader makes of solutions/, byte for byte, and gives nothing away."""
import shutil

import nbformat
import pytest

from helpers.grade.release import leaks, release, secrets
from tests.grade.course import ROOT, SET, new_course, release_notebook


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    folder = new_course(tmp_path_factory.mktemp("course"))
    release(folder)
    return folder


def test_the_committed_release_is_current_to_the_byte(course):
    for made in sorted((course / "exercises").rglob("*.ipynb")):
        assert made.read_bytes() == (ROOT / made.relative_to(course)).read_bytes(), "make release"
    assert {p.name for p in (ROOT / "exercises").iterdir()} == {p.name for p in (ROOT / "solutions").iterdir()}


def test_a_second_release_gives_the_same_bytes(course):
    before = {p: p.read_bytes() for p in (course / "exercises").rglob("*.ipynb")}
    release(course)
    assert {p: p.read_bytes() for p in (course / "exercises").rglob("*.ipynb")} == before


def test_a_release_leaves_no_gradebook_behind(course):
    assert {p.name for p in course.iterdir()} == {"exercises", "nbgrader_config.py", "solutions"}


def test_a_retired_set_goes_and_data_beside_a_solution_comes_along(tmp_path):
    course = new_course(tmp_path)
    (course / "exercises/00_retired").mkdir(parents=True)
    (course / "solutions" / SET / "figures.csv").write_text("1,2")
    release(course)
    assert {str(p.relative_to(course)) for p in (course / "exercises").rglob("*") if p.is_file()} == {
        f"exercises/{SET}/{SET}.ipynb", f"exercises/{SET}/figures.csv"}


def test_nothing_leaks_from_the_committed_exercises():
    assert leaks(ROOT) == []


def test_the_leak_test_knows_what_to_look_for():
    """The first line of each kind: a solution, a hidden test, a model answer."""
    assert {'sharded_from = {"parameter": 3, "gradient": 2}',
            "points += check_functions.check_bytes_per_rank_unseen(bytes_per_rank)",
            "So 9 is where the model state fits, not where training runs."} <= secrets(ROOT)


@pytest.mark.parametrize("secret", ['sharded_from = {"parameter": 3, "gradient": 2}', "### BEGIN HIDDEN TESTS",
                                    "So 9 is where the model state fits, not where training runs."])
def test_a_leak_is_found(tmp_path, secret):
    shutil.copytree(ROOT / "solutions", tmp_path / "solutions")
    shutil.copytree(ROOT / "exercises", tmp_path / "exercises")
    notebook = nbformat.read(tmp_path / "exercises" / SET / f"{SET}.ipynb", 4)
    notebook.cells[3].source += f"\n    {secret}"
    nbformat.write(notebook, tmp_path / "exercises" / SET / f"{SET}.ipynb")
    assert len(leaks(tmp_path)) == 1
    (tmp_path / "exercises" / SET / "notes.py").write_text(secret)
    assert len(leaks(tmp_path)) == 2


def test_a_mistyped_marker_stops_the_release(tmp_path):
    """nbgrader itself would release the hidden tests, and say that all went well."""
    course = new_course(tmp_path)
    path = course / "solutions" / SET / f"{SET}.ipynb"
    path.write_text(path.read_text().replace("BEGIN HIDDEN TESTS", "BEGIN HIDDEN TEST", 1))
    with pytest.raises((ValueError, RuntimeError)):
        release(course)
    assert not (course / "exercises").exists()


def test_points_add_up_to_twenty():
    assert sum(cell.metadata.get("nbgrader", {}).get("points", 0) for cell in release_notebook().cells) == 20


def test_every_exercise_has_its_parts():
    """Statement with points, an answer cell, a locked check, three folded hints."""
    cells = {cell.id: cell for cell in release_notebook().cells}
    names = [name.removesuffix("-check") for name in cells if name.endswith("-check")]
    assert len(names) == 6
    for name in names:
        assert "point" in cells[f"{name}-statement"].source
        assert cells[name].metadata.nbgrader.solution
        assert cells[f"{name}-check"].metadata.get("editable") is False
        assert cells[f"{name}-hints"].source.count("<details><summary>Hint") == 3
