"""Point every Binder and Colab link at the repository this checkout came from.

    python -m sources.links

The repository's address stands in one place: `repository` under [project.urls]
in pyproject.toml.  `links` reads `git remote get-url origin`, writes that line,
and then the links of the README, of the lessons' sources and of the built
notebooks, and the commands that fetch the course.  A built cell whose text changes gets the name the builder would
give it, so that nothing has to be executed again.
"""
from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import NamedTuple

import nbformat

from sources.build import load

ROOT = Path(__file__).resolve().parent.parent
PLACES = ("README.md", "sources/lessons/*.py", "notebooks/*.ipynb")
SLUG = r"[\w.-]+/[\w.-]+"               # owner/name
REPOSITORY = re.compile(rf'^(repository = "https://github\.com/){SLUG}(")', re.MULTILINE)
ORIGIN = re.compile(r"(?:https://(?:[^/@]+@)?github\.com/|git@github\.com:|ssh://git@(?:ssh\.)?github\.com(?::\d+)?/)"
                    r"(?P<slug>[\w.-]+/[\w.-]+?)(?:\.git)?/?", re.IGNORECASE)
OUTSIDE = r"\s()\[\]<>\"'`\\"           # what ends a link in Markdown, HTML and JSON
LINK = re.compile(r"https://(?:mybinder\.org/v2|colab\.research\.google\.com/github)/"
                  rf"[^{OUTSIDE}]*[^{OUTSIDE}.,;:]")
FETCH = re.compile(rf"(?:git clone |git\+)https://github\.com/{SLUG}")      # commands that fetch the course
LINK_SLUG = re.compile(rf"(https://mybinder\.org/v2/gh/(?={SLUG}/)|https://colab\.research\.google\.com/github/(?={SLUG}/)|"
                       rf"git clone https://github\.com/|git\+https://github\.com/){SLUG}")
NOTEBOOK = re.compile(r"notebooks/([^/?&#]+\.ipynb)$")


class WrongLink(NamedTuple):
    file: str
    link: str
    why: str


def binder_link(slug: str, notebook: str) -> str:
    return f"https://mybinder.org/v2/gh/{slug}/HEAD?urlpath=lab/tree/notebooks/{notebook}"


def colab_link(slug: str, notebook: str) -> str:
    return f"https://colab.research.google.com/github/{slug}/blob/main/notebooks/{notebook}"


def links_in(text: str) -> list[str]:
    """All links that start a notebook on Binder or Colab, and all that fetch the course; badges are not links."""
    return LINK.findall(text) + FETCH.findall(text)


def recorded_slug(root: Path) -> str:
    """owner/name as pyproject.toml has it."""
    text = _read(root / "pyproject.toml")
    address = tomllib.loads(text).get("project", {}).get("urls", {}).get("repository", "")
    if not REPOSITORY.search(text) or not (found := ORIGIN.fullmatch(address)):
        raise ValueError('pyproject.toml needs the line repository = "https://github.com/OWNER/NAME" '
                         "under [project.urls]")
    return found["slug"]


def origin_slug(root: Path) -> str:
    """owner/name of the repository on GitHub that `origin` stands for."""
    asked = subprocess.run(["git", "-C", root, "remote", "get-url", "origin"], capture_output=True, text=True)
    if asked.returncode:
        raise ValueError(f"git has no origin to take the links' address from ({asked.stderr.strip()}): "
                         "git remote add origin https://github.com/OWNER/NAME")
    if not (found := ORIGIN.fullmatch(asked.stdout.strip())):
        address = re.sub("(https?://)[^/@]*@", r"\1", asked.stdout.strip())         # without a password
        raise ValueError(f"origin is {address}, and Binder and Colab open notebooks from GitHub: "
                         "git remote set-url origin https://github.com/OWNER/NAME")
    return found["slug"]


def wrong_links(root: Path) -> list[WrongLink]:
    """Every link that is not to a notebook that exists, in the repository that pyproject.toml names."""
    slug = recorded_slug(root)
    return [WrongLink(str(file.relative_to(root)), link, why) for file in _files(root)
            for link in links_in(_read(file)) if (why := _why_wrong(link, slug, root))]


def _why_wrong(link: str, slug: str, root: Path) -> str:
    if FETCH.fullmatch(link):
        return "" if link.endswith(f"github.com/{slug}") else f"it should fetch github.com/{slug}"
    if not (notebook := NOTEBOOK.search(link)):
        return "it ends in no notebooks/NN_topic.ipynb"
    right = (binder_link if "mybinder" in link else colab_link)(slug, notebook[1])
    if link != right:
        return f"it should be {right}"
    return "" if (root / notebook[0]).exists() else f"there is no {notebook[0]}"


def point_to(slug: str, root: Path) -> list[Path]:
    """Write the slug into pyproject.toml and all links; return the files that changed."""
    recorded_slug(root)                                         # refuse before anything is written
    changed = [_rewrite(root / "pyproject.toml", REPOSITORY, rf"\g<1>{slug}\2")]
    changed += [_rewrite(file, LINK_SLUG, rf"\g<1>{slug}") for file in _files(root)]
    for source in sorted(root.glob("sources/lessons/[0-9]*.py")):
        _rename_cells(root / "notebooks" / f"{source.stem}.ipynb", source)
    return [file for file in changed if file]


def _rewrite(file: Path, pattern: re.Pattern, new: str) -> Path | None:
    before = _read(file)
    if (after := pattern.sub(new, before)) == before:
        return None
    file.write_bytes(after.encode())
    return file


def _rename_cells(notebook: Path, source: Path) -> None:
    """Give built cells the names the builder gives them, if they still say what the source says."""
    if not notebook.exists():
        return
    built, fresh = nbformat.read(notebook, 4), load(source)
    names = [cell.id for cell in fresh.cells]
    if [c.source for c in built.cells] == [c.source for c in fresh.cells] and [c.id for c in built.cells] != names:
        for cell, name in zip(built.cells, names, strict=True):
            cell.id = name
        nbformat.write(built, notebook)


def _files(root: Path) -> list[Path]:
    return [file for place in PLACES for file in sorted(root.glob(place))]


def _read(file: Path) -> str:
    return file.read_bytes().decode()                           # as it is, line ends too


def main(root: Path = ROOT) -> int:
    try:
        slug = origin_slug(root)
        for file in point_to(slug, root):
            print(f"{file.relative_to(root)} now points to {slug}")
    except (ValueError, OSError) as error:
        print(error)
        return 1
    wrong = wrong_links(root)
    for link in wrong:
        print(f"{link.file}: {link.link}: {link.why}")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
