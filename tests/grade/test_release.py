"""exercises/ is what nbgrader makes of solutions/, byte for byte, and gives nothing away."""
import re
import shutil

import nbformat
import pytest

from helpers.grade.release import leaks, release, secrets
from tests.grade.course import ROOT, SET, SETS, new_course, release_notebook

POINTS = {"01_memory": 20, "02_collectives": 22, "03_ddp": 19, "04_data_sharding": 18, "05_zero": 18, "06_fsdp": 19,
          "07_activations": 16, "09_pipeline": 18, "10_zero_bubble": 19}
NUM_EXERCISES = {"01_memory": 6, "02_collectives": 7, "03_ddp": 6, "04_data_sharding": 6, "05_zero": 5, "06_fsdp": 5,
                 "07_activations": 5, "09_pipeline": 5,
                 "10_zero_bubble": 5}               # 01 has its written answer inside exercise 2
NUM_CHECKS = {"01_memory": 6, "02_collectives": 6, "03_ddp": 5, "04_data_sharding": 5, "05_zero": 4, "06_fsdp": 4,
              "07_activations": 4, "09_pipeline": 4, "10_zero_bubble": 4}


FEW = (SET, "09_pipeline")


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    folder = new_course(tmp_path_factory.mktemp("course"))
    release(folder)
    return folder


def test_the_committed_release_is_current_to_the_byte(course):
    for made in sorted((course / "exercises").rglob("*.ipynb")):
        assert made.read_bytes() == (ROOT / made.relative_to(course)).read_bytes(), "make release"
    assert {p.name for p in (ROOT / "exercises").iterdir()} == {p.name for p in (ROOT / "solutions").iterdir()}


def test_a_second_release_gives_the_same_bytes(tmp_path):
    course = new_course(tmp_path, FEW)
    release(course)
    before = {p: p.read_bytes() for p in (course / "exercises").rglob("*.ipynb")}
    release(course)
    assert {p: p.read_bytes() for p in (course / "exercises").rglob("*.ipynb")} == before


def test_a_release_leaves_no_gradebook_behind(course):
    assert {p.name for p in course.iterdir()} == {"exercises", "nbgrader_config.py", "solutions"}


def test_a_retired_set_goes_and_data_beside_a_solution_comes_along(tmp_path):
    course = new_course(tmp_path, FEW)
    (course / "exercises/00_retired").mkdir(parents=True)
    (course / "solutions" / SET / "figures.csv").write_text("1,2")
    release(course)
    assert {str(p.relative_to(course)) for p in (course / "exercises").rglob("*") if p.is_file()} == {
        *(f"exercises/{name}/{name}.ipynb" for name in FEW), f"exercises/{SET}/figures.csv"}


def test_nothing_leaks_from_the_committed_exercises():
    assert leaks(ROOT) == []


def test_the_leak_test_knows_what_to_look_for():
    """The first line of each kind: a solution, a hidden test, a model answer."""
    assert {'sharded_from = {"parameter": 3, "gradient": 2}',
            "points += check_functions.check_bytes_per_rank_unseen(bytes_per_rank)",
            "So 9 is where the model state fits, not where training runs.",
            "points += building.check_mended_all_reduce_unseen(mended)", "predicted_bytes = 5 * 600 * 4",
            "place, have = (mesh.rank - source) % n, 1",
            "(mse_loss(ddp(inputs), targets) * len(inputs) / num_samples).backward()",
            "points += accumulation.check_accumulation_unseen(step)",
            "(losses.sum() * dist.get_world_size() / count).backward()",
            "points += gradient_shards.check_hook_unseen(shard_gradients)",
            "whole = torch.cat([p.grad.reshape(-1) for p in bucket]).div_(mesh.world_size)",
            "upstream = upstream @ lent(*layer)",
            "points += peaks.check_peak_unseen(peak)", "points += filling.check_fill_unseen(fill)"} <= secrets(ROOT)


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
    course = new_course(tmp_path, FEW)
    path = course / "solutions" / SET / f"{SET}.ipynb"
    path.write_text(path.read_text().replace("BEGIN HIDDEN TESTS", "BEGIN HIDDEN TEST", 1))
    with pytest.raises((ValueError, RuntimeError)):
        release(course)
    assert not (course / "exercises").exists()


def test_every_set_is_looked_at():
    assert set(SETS) == set(POINTS) == set(NUM_EXERCISES)


@pytest.mark.parametrize("name", SETS)
def test_points_add_up_to_what_the_title_says(name):
    settings = [cell.metadata.get("nbgrader", {}) for cell in release_notebook(name).cells]
    assert sum(one.get("points", 0) for one in settings) == POINTS[name]
    assert f"{POINTS[name]} points" in release_notebook(name).cells[0].source


@pytest.mark.parametrize("name", SETS)
def test_the_points_of_the_headlines_add_up_too(name):
    text = "\n".join(cell.source for cell in release_notebook(name).cells if cell.cell_type == "markdown")
    headlines = re.findall(r"^## (\d+)\. .*\(([\d +]+) points?\)$", text, re.M)
    assert [int(number) for number, _ in headlines] == list(range(1, NUM_EXERCISES[name] + 1))
    assert sum(int(one) for _, points in headlines for one in points.split("+")) == POINTS[name]


@pytest.mark.parametrize("name", SETS)
def test_every_exercise_has_its_parts(name):
    """Statement with points, an answer cell, a locked check, three folded hints."""
    cells = {cell.id: cell for cell in release_notebook(name).cells}
    checks = [one.removesuffix("-check") for one in cells if one.endswith("-check")]
    assert len(checks) == NUM_CHECKS[name]
    for one in checks:
        assert "point" in cells[f"{one}-statement"].source
        assert cells[one].metadata.nbgrader.solution
        assert cells[f"{one}-check"].metadata.get("editable") is False
        assert "HIDDEN" not in cells[f"{one}-check"].source
        assert cells[f"{one}-hints"].source.count("<details><summary>Hint") == 3
