"""Build notebooks from plain text, and prove that the built ones agree.

    python -m sources.build             build what has changed; execute lessons
    python -m sources.build --all       build everything
    python -m sources.build --check     build nothing; fail if a built notebook is stale

sources/lessons/NN_topic.py    -> notebooks/NN_topic.ipynb             executed, outputs kept
sources/exercises/NN_topic.py  -> solutions/NN_topic/NN_topic.ipynb    not executed; nbgrader's source

Sources are in jupytext's percent format.  The builder names the cells itself,
by `id="..."`, nbgrader's grade_id or content, so that the same source gives the same
bytes.  Timings and widget state, which never repeat, are left out.
"""
from __future__ import annotations

import argparse
import hashlib
import sys
import time
from pathlib import Path

import jupytext
import nbformat
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parent.parent
KEPT = {"tags", "nbgrader", "editable", "deletable", "jupyter"}
KERNEL = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"


def targets() -> dict[Path, Path]:
    """Each source with the notebook that is built from it."""
    lessons = {s: ROOT / "notebooks" / f"{s.stem}.ipynb" for s in sorted((ROOT / "sources/lessons").glob("[0-9]*.py"))}
    exercises = {s: ROOT / "solutions" / s.stem / f"{s.stem}.ipynb"
                 for s in sorted((ROOT / "sources/exercises").glob("[0-9]*.py"))}
    return lessons | exercises


def load(source: Path) -> nbformat.NotebookNode:
    """The notebook of a source, without outputs."""
    notebook, seen = jupytext.read(source), {}
    for cell in notebook.cells:
        name = cell.metadata.get("id") or cell.metadata.get("nbgrader", {}).get("grade_id") or \
            _digest(cell.cell_type + cell.source)
        cell.metadata = {key: value for key, value in cell.metadata.items() if key in KEPT}
        seen[name] = count = seen.get(name, 0) + 1
        cell.id = name if count == 1 else f"{name}-{count}"
    notebook.metadata = {"kernelspec": KERNEL, "language_info": {"name": "python"}}
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    nbformat.validate(notebook)
    return notebook


def execute(notebook: nbformat.NotebookNode, folder: Path) -> None:
    """Run all cells in `folder` and keep the outputs that repeat."""
    NotebookClient(notebook, timeout=120, record_timing=False, kernel_name="python3",
                   resources={"metadata": {"path": str(folder)}}).execute()
    notebook.metadata.pop("widgets", None)
    notebook.metadata["language_info"] = {"name": "python"}
    for cell in notebook.cells:
        if cell.cell_type == "code":        # a widget without its kernel is an error message; a progress line is empty
            cell.outputs = [o for o in cell.outputs if "data" not in o or (o.data and WIDGET_VIEW not in o.data)]


def is_current(source: Path, target: Path) -> bool:
    """Whether the built notebook has the source's cells, and was executed in order if it is a lesson."""
    if not target.exists():
        return False
    built = nbformat.read(target, 4)
    counts = [cell.execution_count for cell in built.cells if cell.cell_type == "code"]
    ran = counts == list(range(1, len(counts) + 1)) if _is_lesson(source) else not any(counts)
    return ran and _cells(load(source)) == _cells(built)


def build(source: Path, target: Path) -> None:
    notebook, started = load(source), time.monotonic()
    target.parent.mkdir(parents=True, exist_ok=True)
    if _is_lesson(source):
        execute(notebook, target.parent)
    partial = target.with_suffix(".partial")            # whole or not at all
    nbformat.write(notebook, partial)
    partial.rename(target)
    print(f"{target.relative_to(ROOT)}  {time.monotonic() - started:.0f} s, {target.stat().st_size / 1e3:.0f} kB")


def _is_lesson(source: Path) -> bool:
    return source.parent.name == "lessons"


def _cells(notebook: nbformat.NotebookNode) -> list[tuple]:
    return [(c.id, c.cell_type, c.source, dict(c.metadata)) for c in notebook.cells]


def _digest(text: str) -> str:
    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()[:12]


def main() -> int:
    arguments = argparse.ArgumentParser(prog="python -m sources.build", description=__doc__.split("\n")[0])
    arguments.add_argument("--check", action="store_true", help="build nothing, fail if a notebook is stale")
    arguments.add_argument("--all", action="store_true", help="build what is current, too")
    options = arguments.parse_args()
    stale = [(s, t) for s, t in targets().items() if options.all or not is_current(s, t)]
    if options.check:
        for _, target in stale:
            print(f"{target.relative_to(ROOT)} is not what its source says: make notebooks")
        return bool(stale)
    for source, target in stale:
        build(source, target)
    return 0


if __name__ == "__main__":
    sys.exit(main())
