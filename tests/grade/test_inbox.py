"""Whatever is in the inbox has a line: it is graded, or there are words that say where it belongs."""
import pytest

from helpers.grade.inbox import submissions

SETS = ["01_memory", "09_pipeline"]


def found(root, *files: str) -> dict[str, tuple]:
    for file in files:
        (root / "grading/submitted" / file).parent.mkdir(parents=True, exist_ok=True)
        (root / "grading/submitted" / file).write_text("{}")
    return {f"{one.student}/{one.assignment}": (one.file and one.file.name, one.trouble, one.note)
            for one in submissions(root, SETS)}


def test_a_notebook_in_its_place_is_found(tmp_path):
    assert found(tmp_path, "ada/01_memory/01_memory.ipynb") == {"ada/01_memory": ("01_memory.ipynb", "", "")}


def test_the_only_notebook_of_another_name_is_taken_and_said(tmp_path):
    assert found(tmp_path, "ada/01_memory/01_memory (1).ipynb") == {
        "ada/01_memory": ("01_memory (1).ipynb", "", "graded: '01_memory (1).ipynb', the only one there")}


@pytest.mark.parametrize(("files", "words"), [
    (["fay/09_pipeline.ipynb"], "move it to grading/submitted/fay/09_pipeline/09_pipeline.ipynb"),
    (["hal/9_pipeline/09_pipeline.ipynb"], "no exercise set is called '9_pipeline': name the folder as one of"),
    (["ivy_09_pipeline.ipynb"], "put the notebook at grading/submitted/STUDENT/09_pipeline/09_pipeline.ipynb"),
    (["joe/01_memory/a.ipynb", "joe/01_memory/b.ipynb"], "there is no 01_memory.ipynb, but 'a.ipynb', 'b.ipynb'"),
    (["kim/01_memory/notes.txt"], "there is no 01_memory.ipynb, but no notebook: leave one of that name")])
def test_what_stands_elsewhere_has_a_line_that_says_where_it_belongs(tmp_path, files, words):
    (file, trouble, _), = found(tmp_path, *files).values()
    assert file is None
    assert words in trouble


def test_an_empty_folder_has_a_line(tmp_path):
    (tmp_path / "grading/submitted/lou").mkdir(parents=True)
    assert found(tmp_path) == {"lou/": (None, "the folder is empty", "")}


@pytest.mark.parametrize("place", ["mia", "mia/01_memory", "mia/01_memory/01_memory.ipynb"])
def test_a_link_is_no_submission(tmp_path, place):
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "grading/submitted" / place
    link.parent.mkdir(parents=True)
    link.symlink_to(tmp_path / "elsewhere")
    (one,) = submissions(tmp_path, SETS)
    assert one.file is None
    assert one.trouble
