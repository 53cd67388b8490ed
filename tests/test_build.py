"""The builder gives the same bytes for the same source, and knows a stale notebook."""
import nbformat
import pytest

from sources import adopt, build

LESSON = '# %% [markdown]\n# # Title\n\n# %% id="sum"\nprint(1 + 1)\n\n# %% tags=["raises-exception"]\n1 / 0\n'


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """A course of one tiny lesson and one exercise."""
    for folder in ("sources/lessons", "sources/exercises", "notebooks"):
        (tmp_path / folder).mkdir(parents=True)
    monkeypatch.setattr(build, "ROOT", tmp_path)
    monkeypatch.setattr(adopt, "ROOT", tmp_path)
    (tmp_path / "sources/lessons/00_tiny.py").write_text(LESSON)
    (tmp_path / "sources/exercises/00_tiny.py").write_text("# %% [markdown]\n# # Exercises\n\n# %%\nx = 1\n")
    return tmp_path


def build_all():
    for source, target in build.targets().items():
        build.build(source, target)


def test_a_lesson_is_executed_and_an_exercise_is_not(tree):
    build_all()
    lesson = nbformat.read(tree / "notebooks/00_tiny.ipynb", 4)
    assert lesson.cells[1].outputs[0].text == "2\n"
    assert lesson.cells[2].outputs[0].ename == "ZeroDivisionError"
    exercise = nbformat.read(tree / "solutions/00_tiny/00_tiny.ipynb", 4)
    assert [c.execution_count for c in exercise.cells if c.cell_type == "code"] == [None]


def test_a_second_build_gives_the_same_bytes(tree):
    build_all()
    before = {t: t.read_bytes() for t in build.targets().values()}
    build_all()
    assert {t: t.read_bytes() for t in build.targets().values()} == before


def test_cells_are_named_by_id_or_content(tree):
    notebook = build.load(tree / "sources/lessons/00_tiny.py")
    assert notebook.cells[1].id == "sum"
    assert "id" not in notebook.cells[1].metadata
    assert notebook.cells[0].id == build.load(tree / "sources/lessons/00_tiny.py").cells[0].id


@pytest.mark.parametrize("change", [
    lambda text: text.replace("1 + 1", "1 + 2"), lambda text: text.replace("Title", "Name"),
    lambda text: text + "\n# %%\n2\n", lambda text: text.replace(' tags=["raises-exception"]', ""),
])
def test_a_changed_source_makes_its_notebook_stale(tree, change):
    build_all()
    source, target = next(iter(build.targets().items()))
    assert build.is_current(source, target)
    source.write_text(change(LESSON))
    assert not build.is_current(source, target)


def test_a_notebook_run_out_of_order_is_stale(tree):
    build_all()
    source, target = next(iter(build.targets().items()))
    notebook = nbformat.read(target, 4)
    notebook.cells[1].execution_count = 7
    nbformat.write(notebook, target)
    assert not build.is_current(source, target)


def test_a_lesson_that_fails_leaves_the_old_notebook(tree):
    build_all()
    source, target = next(iter(build.targets().items()))
    before = target.read_bytes()
    source.write_text(LESSON.replace("print(1 + 1)", "print(nothing)"))
    with pytest.raises(Exception, match="nothing"):
        build.build(source, target)
    assert target.read_bytes() == before
    assert [p.name for p in target.parent.iterdir()] == [target.name]


def test_what_is_edited_in_jupyterlab_can_be_adopted(tree):
    build_all()
    source, target = next(iter(build.targets().items()))
    notebook = nbformat.read(target, 4)
    notebook.cells[0].source = "# Another title"
    nbformat.write(notebook, target)
    adopt.adopt(target)
    assert "# # Another title" in source.read_text()
    assert build.load(source).cells[1].id == "sum"


@pytest.mark.parametrize("source", build.targets(), ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_adopting_an_unchanged_notebook_changes_nothing(source, tmp_path, monkeypatch):
    """For the course's own lessons and exercises: not even a blank line, so that a review shows what was edited."""
    target = build.targets()[source]
    copy = tmp_path / source.name
    copy.write_text(source.read_text())
    monkeypatch.setattr(adopt, "targets", lambda: {copy: target})
    adopt.adopt(target)
    assert copy.read_text() == source.read_text(), "make adopt NB=... once, and commit the source as it then is"


def test_a_notebook_without_source_is_refused(tree):
    with pytest.raises(ValueError, match="has no source"):
        adopt.adopt(tree / "exercises/00_tiny/00_tiny.ipynb")
