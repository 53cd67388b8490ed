"""Outputs of cells, as the notebook stores them that nbgrader takes marks from and students read."""
from __future__ import annotations

import re
from copy import deepcopy

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from helpers.grade.apart.rebuild import OWN, TEXT, WRITTEN, GradedCell

HIDDEN = re.compile(r"^### BEGIN HIDDEN TESTS\n.*?^### END HIDDEN TESTS\n?", re.DOTALL | re.MULTILINE)
SHOWN = {"text/plain", "image/png", "image/jpeg"}       # HTML could run scripts in a reader's page


def as_shown(output: object) -> dict | None:
    """An output of a student's process as a notebook can have it; None if it is not known, or could run scripts."""
    if not isinstance(output, dict):
        return None
    match output.get("output_type"):
        case "stream":
            return {"output_type": "stream", "name": "stdout", "text": str(output.get("text"))}
        case "error":
            lines = output.get("traceback")
            return an_error(str(output.get("ename")), str(output.get("evalue")),
                          [str(line) for line in lines] if isinstance(lines, list) else [])
        case "display_data":
            data = output.get("data")
            kept = {kind: str(data[kind]) for kind in SHOWN & set(data)} if isinstance(data, dict) else {}
            return {"output_type": "display_data", "data": kept, "metadata": {}} if kept else None
    return None


def for_students(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """The notebook without hidden tests and what they say."""
    shown_to_all = deepcopy(notebook)
    for cell in shown_to_all.cells:
        cell.source = HIDDEN.sub("", cell.source)
        for output in cell.get("outputs", []):
            if output.get("metadata", {}).pop("hidden", False):
                output["data"] = {"text/plain": "(and hidden cases, whose points are in the mark of this cell)"}
    return shown_to_all


def an_error(name: str, words: str, lines: list[str] | None = None) -> dict:
    """An error, as a notebook stores it."""
    return {"output_type": "error", "ename": name, "evalue": words, "traceback": lines or [f"{name}: {words}"]}


def as_notebook(cells: list[GradedCell], outputs: dict[int, list[dict]]) -> nbformat.NotebookNode:
    """The cells of a submission with their outputs, by number."""
    made = []
    for number, cell in enumerate(cells):
        if cell.kind in (TEXT, WRITTEN):
            made.append(new_markdown_cell(cell.source, metadata=cell.metadata))
        else:
            made.append(new_code_cell(cell.source, metadata={} if cell.kind == OWN else cell.metadata,
                                      outputs=[nbformat.from_dict(each) for each in outputs.get(number, [])]))
        made[-1]["id"] = f"cell-{number}"
    kernel = {"name": "python3", "language": "python", "display_name": "Python 3 (ipykernel)"}
    return new_notebook(cells=made, metadata={"kernelspec": kernel, "language_info": {"name": "python"}})
