"""Of a file that is handed in only the text of answers counts, however odd the file is."""
import json

import pytest

from helpers.grade.apart.rebuild import ANSWER, CHECK, OWN, WRITTEN, exercise, rebuilt
from tests.grade.course import ROOT, SET, release_notebook

CELLS = exercise(ROOT / "solutions" / SET / f"{SET}.ipynb", ROOT / "exercises" / SET / f"{SET}.ipynb")


def handed_in(folder, change=lambda notebook: None, encode=lambda text: text.encode()):
    notebook = json.loads((ROOT / "exercises" / SET / f"{SET}.ipynb").read_text())
    change(notebook)
    file = folder / f"{SET}.ipynb"
    file.write_bytes(encode(json.dumps(notebook)))
    return file


def cell_of(notebook: dict, name: str) -> dict:
    return next(cell for cell in notebook["cells"] if cell["metadata"].get("nbgrader", {}).get("grade_id") == name)


def text_of(cells: list, name: str) -> str:
    return next(cell.source for cell in cells if cell.name == name)


def test_an_untouched_release_is_the_exercise(tmp_path):
    cells, notes = rebuilt(CELLS, handed_in(tmp_path))
    assert ([(c.kind, c.name) for c in cells], notes) == ([(c.kind, c.name) for c in CELLS], [])
    assert {c.kind for c in cells} >= {ANSWER, CHECK, WRITTEN, OWN}
    assert "### BEGIN HIDDEN TESTS" in text_of(cells, "bytes-check")
    assert "sharded_from" not in "".join(c.source for c in cells)


def test_text_of_answers_is_taken_and_nothing_else(tmp_path):
    def change(notebook):
        for cell in notebook["cells"]:
            cell["metadata"]["tags"] = ["skip-execution"]
        cell_of(notebook, "table")["source"] = ["x = 1\n", "y = 2"]
        cell_of(notebook, "table")["cell_type"] = "raw"
        cell_of(notebook, "table-check")["source"] = "20.0"
        cell_of(notebook, "table-check")["metadata"]["nbgrader"]["points"] = 99
        cell_of(notebook, "setup")["source"] = "import evil"
        notebook["cells"].reverse()

    cells, _ = rebuilt(CELLS, handed_in(tmp_path, change))
    assert text_of(cells, "table") == "x = 1\ny = 2"
    assert text_of(cells, "table-check") == text_of(CELLS, "table-check")
    assert text_of(cells, "setup") == text_of(CELLS, "setup")
    named = [cell.name for cell in cells if cell.kind != OWN]
    assert named == [cell.name for cell in CELLS if cell.kind != OWN]
    assert not any("tags" in cell.metadata for cell in cells)


def test_cells_that_a_student_has_added_stay_where_they_are(tmp_path):
    def change(notebook):
        notebook["cells"].insert(4, {"cell_type": "code", "metadata": {}, "source": "mine = 1", "outputs": []})

    cells, _ = rebuilt(CELLS, handed_in(tmp_path, change))
    place = next(n for n, cell in enumerate(cells) if cell.source == "mine = 1")
    assert (cells[place].kind, cells[place - 1].name) == (OWN, "table")


@pytest.mark.parametrize("encode", [
    lambda text: b"\xef\xbb\xbf" + text.encode(), lambda text: text.replace("Try it", "\\ud800").encode(),
    lambda text: text.replace('"nbformat_minor": 5', '"nbformat_minor": 4').encode(),
    lambda text: text.replace('"nbformat_minor": 5', '"nbformat_minor": 99').encode()],
    ids=["a byte order mark", "a lone surrogate", "format 4.4 with ids", "a format to come"])
def test_odd_but_right_files_are_taken(tmp_path, encode):
    cells, notes = rebuilt(CELLS, handed_in(tmp_path, encode=encode))
    assert (len(cells), notes) == (len(CELLS), [])
    assert all(cell.source.encode() is not None for cell in cells)


def test_a_deleted_answer_is_said(tmp_path):
    cells, notes = rebuilt(CELLS, handed_in(tmp_path, lambda nb: nb["cells"].remove(cell_of(nb, "bytes"))))
    assert notes == ["cell 'bytes' was deleted"]
    assert text_of(cells, "bytes") == text_of(CELLS, "bytes")


@pytest.mark.parametrize(("content", "words"), [
    ("", "it is no JSON"), ("{", "it is no JSON"), ("[" * 100_000, "it is no JSON"), ("[]", "it has no cells"),
    ('{"cells": 3}', "it has no cells"), ('{"worksheets": []}', "older than 4: open it in JupyterLab and save it"),
    ('{"cells": [3]}', "cell 1 has no text"), ('{"cells": [{"source": {}}]}', "cell 1 has no text"),
    ('{"cells": []}', "none of the answer cells of this exercise"),
    (json.dumps({"cells": [{"source": "", "cell_type": "code"}] * 501}), "501 cells; more than 500 are not graded")])
def test_what_is_no_notebook_is_said_in_words(tmp_path, content, words):
    file = tmp_path / f"{SET}.ipynb"
    file.write_text(content)
    with pytest.raises(ValueError, match=words):
        rebuilt(CELLS, file)


def test_a_copied_cell_is_named(tmp_path):
    with pytest.raises(ValueError, match="cell 'table' stands twice in the notebook: delete the copy"):
        rebuilt(CELLS, handed_in(tmp_path, lambda nb: nb["cells"].append(cell_of(nb, "table"))))


def test_a_link_is_no_submission(tmp_path):
    link = tmp_path / "link.ipynb"
    link.symlink_to(ROOT / "solutions" / SET / f"{SET}.ipynb")
    with pytest.raises(ValueError, match="but a link or a folder"):
        rebuilt(CELLS, link)


def test_a_file_that_is_too_large_is_not_read(tmp_path):
    file = handed_in(tmp_path)
    file.write_bytes(file.read_bytes() + b" " * 21 * 2**20)
    with pytest.raises(ValueError, match="clear its outputs"):
        rebuilt(CELLS, file)


def test_the_release_of_this_test_is_the_one_that_is_committed():
    assert release_notebook().cells
