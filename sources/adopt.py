"""Bring a notebook that was edited in JupyterLab back into its source.

    python -m sources.adopt notebooks/01_memory.ipynb
    python -m sources.adopt solutions/01_memory/01_memory.ipynb

Then `make notebooks` builds it again, with outputs and cell names in order.
"""
from __future__ import annotations

import re
import sys
from pathlib import Path

import jupytext
import nbformat

from sources.build import KEPT, ROOT, targets


def adopt(notebook: Path) -> Path:
    """Write the notebook's cells over its source; return the source."""
    sources = {target.resolve(): source for source, target in targets().items()}
    if notebook.resolve() not in sources:
        known = ", ".join(str(t.relative_to(ROOT)) for t in targets().values())
        raise ValueError(f"{notebook} has no source. Give one of: {known}. "
                         "exercises/ are made from solutions/ by `make release`.")
    read, source = nbformat.read(notebook, 4), sources[notebook.resolve()]
    named = set(re.findall(r'^# %%.* id="([\w-]+)"', source.read_text(), re.MULTILINE))
    for cell in read.cells:
        cell.metadata = {key: value for key, value in cell.metadata.items() if key in KEPT - {"editable", "deletable"}}
        if cell.id in named:
            cell.metadata["id"] = cell.id
    read.metadata = {"jupytext": {"notebook_metadata_filter": "-all"}}          # no header
    source.write_text(jupytext.writes(read, fmt="py:percent"))
    return source


def main() -> int:
    if len(sys.argv) != 2:
        print("usage: make adopt NB=notebooks/NN_topic.ipynb")
        return 2
    try:
        print(f"{adopt(Path(sys.argv[1])).relative_to(ROOT)} written; now: make notebooks")
    except (ValueError, OSError) as error:
        print(error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
