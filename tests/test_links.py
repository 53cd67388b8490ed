"""Links to Binder and Colab open this repository's notebooks, and `make links` makes them do so."""
import subprocess
from pathlib import Path

import nbformat
import pytest

from sources import build, links
from sources.links import binder_link, colab_link, links_in, main, origin_slug, point_to, recorded_slug, wrong_links

ROOT = Path(__file__).resolve().parent.parent
OLD, NEW = "your-name/training-parallelism", "ring-school/course.2"
BADGE = "https://mybinder.org/badge_logo.svg"
PYPROJECT = f"""[project]
name = "x"

[project.urls]
repository = "https://github.com/{OLD}"
other = "https://github.com/pytorch/pytorch"
"""
README = f"""# Course

[![Binder]({BADGE})]({binder_link(OLD, "01_memory.ipynb")}) and {colab_link(OLD, "01_memory.ipynb")}.
See https://github.com/pytorch/pytorch and {OLD}, too.\r
"""
LESSON = f"""# %% [markdown]
# # Memory
# [Binder]({binder_link(OLD, "01_memory.ipynb")}) · [Colab]({colab_link(OLD, "01_memory.ipynb")})

# %%
1 + 1
"""


@pytest.fixture(autouse=True)
def _own_git(monkeypatch):
    """A git hook tells git, by variables, which repository it runs for; the user may rewrite addresses."""
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")


@pytest.fixture
def tree(tmp_path):
    """A small course, built, without a remote."""
    for folder in ("sources/lessons", "notebooks"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text(PYPROJECT)
    (tmp_path / "README.md").write_bytes(README.encode())
    source = tmp_path / "sources/lessons/01_memory.py"
    source.write_text(LESSON)
    notebook = build.load(source)
    notebook.cells[1].execution_count = 1
    notebook.cells[1].outputs = [nbformat.v4.new_output("execute_result", {"text/plain": "2"}, execution_count=1)]
    nbformat.write(notebook, tmp_path / "notebooks/01_memory.ipynb")
    git(tmp_path, "init", "-q")
    return tmp_path


def git(root: Path, *words: str) -> None:
    subprocess.run(["git", "-C", root, *words], check=True)


def contents(root: Path) -> dict[str, bytes]:
    return {str(f.relative_to(root)): f.read_bytes() for f in root.rglob("*") if f.is_file() and ".git" not in f.parts}


def test_every_link_of_the_course_opens_a_notebook_of_the_repository():
    assert wrong_links(ROOT) == []


@pytest.mark.parametrize("address", [
    f"https://github.com/{NEW}", f"https://github.com/{NEW}.git", f"https://github.com/{NEW}/",
    f"https://someone:secret@github.com/{NEW}.git", f"git@github.com:{NEW}.git", f"git@github.com:{NEW}",
    f"ssh://git@github.com/{NEW}.git", f"ssh://git@ssh.github.com:443/{NEW}.git",
])
def test_origin_may_be_https_or_ssh(tree, address):
    git(tree, "remote", "add", "origin", address)
    assert origin_slug(tree) == NEW


def test_without_origin_the_error_says_how_to_add_it(tree, capsys):
    before = contents(tree)
    assert main(tree) == 1
    assert "git remote add origin https://github.com/OWNER/NAME" in capsys.readouterr().out
    assert contents(tree) == before


@pytest.mark.parametrize("address", [
    "https://gitlab.com/a/b.git", "/somewhere/else.git", "https://notgithub.com/a/b", "https://github.com/a",
    "https://evil.org/https://github.com/a/b",
])
def test_an_origin_that_is_not_on_github_is_refused(tree, address, capsys):
    git(tree, "remote", "add", "origin", address)
    before = contents(tree)
    assert main(tree) == 1
    assert f"origin is {address}, and" in capsys.readouterr().out
    assert contents(tree) == before


def test_a_password_in_the_address_is_not_shown(tree, capsys):
    git(tree, "remote", "add", "origin", "https://someone:secret@gitlab.com/a/b.git")
    assert main(tree) == 1
    assert "secret" not in capsys.readouterr().out


def test_all_links_follow_and_all_other_text_stays(tree):
    before = contents(tree)
    git(tree, "remote", "add", "origin", f"git@github.com:{NEW}.git")
    assert main(tree) == 0
    after = contents(tree)
    assert recorded_slug(tree) == NEW
    assert wrong_links(tree) == []
    assert after["pyproject.toml"] == before["pyproject.toml"].replace(OLD.encode(), NEW.encode())
    for name in ("README.md", "sources/lessons/01_memory.py"):
        moved = before[name].replace(f"gh/{OLD}".encode(), f"gh/{NEW}".encode())
        assert after[name] == moved.replace(f"github/{OLD}".encode(), f"github/{NEW}".encode())


def test_a_built_notebook_stays_current(tree):
    """The builder names cells by their text, so a new link is a new name."""
    source, notebook = tree / "sources/lessons/01_memory.py", tree / "notebooks/01_memory.ipynb"
    outputs = nbformat.read(notebook, 4).cells[1].outputs
    point_to(NEW, tree)
    assert build.is_current(source, notebook)
    assert nbformat.read(notebook, 4).cells[1].outputs == outputs


def test_a_stale_notebook_is_not_made_to_look_current(tree):
    source, notebook = tree / "sources/lessons/01_memory.py", tree / "notebooks/01_memory.ipynb"
    source.write_text(LESSON.replace("1 + 1", "1 + 2"))
    point_to(NEW, tree)
    assert not build.is_current(source, notebook)
    assert wrong_links(tree) == []


def test_twice_changes_nothing_more(tree):
    assert point_to(NEW, tree)
    once = contents(tree)
    assert point_to(NEW, tree) == []
    assert contents(tree) == once


def test_without_its_line_in_pyproject_nothing_is_written(tree):
    (tree / "pyproject.toml").write_text(PYPROJECT.replace("repository", "homepage"))
    before = contents(tree)
    with pytest.raises(ValueError, match="needs the line repository"):
        point_to(NEW, tree)
    assert contents(tree) == before


@pytest.mark.parametrize(("link", "why"), [
    (binder_link(NEW, "01_memory.ipynb"), "it should be " + binder_link(OLD, "01_memory.ipynb")),
    (colab_link(NEW, "01_memory.ipynb"), "it should be " + colab_link(OLD, "01_memory.ipynb")),
    (binder_link(OLD, "02_gone.ipynb"), "there is no notebooks/02_gone.ipynb"),
    (colab_link(OLD, "02_gone.ipynb"), "there is no notebooks/02_gone.ipynb"),
    (colab_link(OLD, "01_memory.ipynb").replace("main", "dev"), "it should be"),
    (binder_link(OLD, "01_memory.ipynb").replace("HEAD", "main"), "it should be"),
    (binder_link(OLD, "01_memory.ipynb").replace("lab/", ""), "it should be"),
    (f"https://mybinder.org/v2/gh/{OLD}/HEAD", "it ends in no notebooks/"),
])
@pytest.mark.parametrize("file", ["README.md", "sources/lessons/01_memory.py", "notebooks/01_memory.ipynb"])
def test_a_wrong_link_is_found_in_every_place(tree, file, link, why):
    (tree / file).write_text((tree / file).read_text().replace(binder_link(OLD, "01_memory.ipynb"), link))
    (wrong,) = wrong_links(tree)
    assert (wrong.file, wrong.link) == (file, link)
    assert wrong.why.startswith(why)


def test_links_end_where_markdown_html_json_or_a_sentence_ends_them():
    link = binder_link(OLD, "01_memory.ipynb")
    assert links_in(f'[a]({link}) <{link}> "{link}\\n" `{link}` {link}. {BADGE}') == [link] * 5


def test_what_is_wrong_after_make_links_is_said(tree, capsys):
    (tree / "notebooks/01_memory.ipynb").unlink()
    git(tree, "remote", "add", "origin", f"https://github.com/{NEW}")
    assert links.main(tree) == 1
    assert "README.md: " + binder_link(NEW, "01_memory.ipynb") in capsys.readouterr().out


def test_commands_that_fetch_the_course_are_links_too():
    text = "git clone https://github.com/a/b\npip install git+https://github.com/a/b\nsee https://github.com/a/b"
    assert links.links_in(text) == ["git clone https://github.com/a/b", "git+https://github.com/a/b"]
    assert links.LINK_SLUG.sub(r"\g<1>c/d", text).splitlines() == [
        "git clone https://github.com/c/d", "pip install git+https://github.com/c/d", "see https://github.com/a/b"]
