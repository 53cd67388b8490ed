"""A submission as a list of cells that the grader has made itself.

Everything comes from the exercise as the instructor has it; of the submission only text is taken: that of answer cells,
by their names, and that of cells which the student has added, where they stand.  Tags, metadata, order, cell types and
outputs of the file mean nothing.
"""
from __future__ import annotations

import ast
import json
import threading
from dataclasses import dataclass, field, replace
from pathlib import Path

import nbformat

MOST_BYTES = 20 * 2**20         # of a submitted file
MOST_CELLS = 500
_parsing = threading.Lock()
GIVEN, ANSWER, CHECK, WRITTEN, TEXT, OWN = "given", "answer", "check", "written", "text", "own"


@dataclass(frozen=True)
class GradedCell:
    """A cell of a submission, as it is graded.

    kind       GIVEN (code that comes with the exercise), ANSWER, CHECK, WRITTEN (an answer in words), TEXT, or OWN,
               which the student has added
    metadata   nbgrader's, from the release
    released   its text as students got it
    """

    kind: str
    name: str
    source: str
    metadata: dict = field(default_factory=dict)
    released: str = ""

    @property
    def is_code(self) -> bool:
        """Whether it is run."""
        return self.kind in (GIVEN, ANSWER, CHECK, OWN)


def exercise(source: Path, release: Path) -> list[GradedCell]:
    """The cells of an exercise set, checks with their hidden tests, answers as they were released."""
    released = {_name(cell): cell for cell in nbformat.read(release, 4).cells}
    cells = []
    for cell in nbformat.read(source, 4).cells:
        name, grading = _name(cell), cell.metadata.get("nbgrader") or {}
        twin = released.get(name, cell)
        kind = _kind(cell.cell_type, grading)
        text = cell.source if kind in (GIVEN, CHECK, TEXT) else twin.source
        cells.append(GradedCell(kind, name, text, dict(twin.metadata), twin.source))
    return cells


def rebuilt(cells: list[GradedCell], submission: Path) -> tuple[list[GradedCell], list[str]]:
    """The cells with what the student has written, and what a person should know; `ValueError` says why not."""
    known = {cell.name: cell for cell in cells}
    texts, own, last, seen = {}, {}, "", set()
    for kind, name, text in _read(submission):
        if name in known and known[name].kind != OWN:
            if name in seen:
                raise ValueError(f"cell {name!r} stands twice in the notebook: delete the copy, then grade again")
            seen.add(name)
            last, texts[name] = name, text
        elif kind == "code":
            own.setdefault(last, []).append(GradedCell(OWN, name if name in known else "", text))
    result = list(own.get("", []))
    for cell in cells:
        if cell.kind == OWN:                    # a cell to try things in: the student's version of it, if it is there
            continue
        taken = cell.kind in (ANSWER, WRITTEN) and cell.name in texts
        result.append(replace(cell, source=texts[cell.name]) if taken else cell)
        result += own.get(cell.name, [])
    missing = [cell.name for cell in cells if cell.kind in (ANSWER, WRITTEN) and cell.name not in texts]
    if len(missing) == sum(cell.kind in (ANSWER, WRITTEN) for cell in cells):
        raise ValueError(f"{submission.name} has none of the answer cells of this exercise: is it another notebook?")
    return result, [f"cell {name!r} was deleted" for name in missing]


def parsed(source: str) -> ast.Module:
    """`ast.parse`, by one thread at a time: Python 3.11's fails when threads take turns in it."""
    with _parsing:
        return ast.parse(source)


def _kind(cell_type: str, grading: dict) -> str:
    if not grading.get("grade_id"):
        return OWN if cell_type == "code" else TEXT
    if cell_type != "code":
        return WRITTEN if grading.get("solution") else TEXT
    return ANSWER if grading.get("solution") else CHECK if grading.get("grade") else GIVEN


def _name(cell: dict) -> str:
    """nbgrader's name, or the id that cells have since format 4.5."""
    metadata = cell.get("metadata")
    grading = metadata.get("nbgrader") if isinstance(metadata, dict) else None
    name = grading.get("grade_id") if isinstance(grading, dict) else None
    return str(name or cell.get("id") or "")


def _read(file: Path) -> list[tuple[str, str, str]]:
    """Type, name and text of each cell of a file that somebody has handed in."""
    if file.is_symlink() or not file.is_file():
        raise ValueError(f"{file.name} is no file of its own but a link or a folder: put the notebook itself there")
    if file.stat().st_size > MOST_BYTES:
        raise ValueError(f"{file.name} has {file.stat().st_size / 1e6:,.0f} MB; a notebook of more than "
                         f"{MOST_BYTES / 1e6:,.0f} MB is not graded: clear its outputs, then grade again")
    try:
        read = json.loads(file.read_bytes().decode("utf-8-sig", errors="replace"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{file.name} cannot be read as a notebook, it is no JSON: {str(error)[:200]}") from None
    if not isinstance(read, dict) or not isinstance(read.get("cells"), list):
        old = isinstance(read, dict) and "worksheets" in read
        raise ValueError(f"{file.name} cannot be read as a notebook: it has no cells"
                         + (", since its format is older than 4: open it in JupyterLab and save it" if old else ""))
    if len(read["cells"]) > MOST_CELLS:
        raise ValueError(f"{file.name} has {len(read['cells']):,} cells; more than {MOST_CELLS} are not graded")
    return [_cell(file, number, cell) for number, cell in enumerate(read["cells"])]


def _cell(file: Path, number: int, cell: object) -> tuple[str, str, str]:
    source = cell.get("source", "") if isinstance(cell, dict) else None
    if isinstance(source, list) and all(isinstance(line, str) for line in source):
        source = "".join(source)
    if not isinstance(source, str):
        raise ValueError(f"{file.name} cannot be read as a notebook: cell {number + 1} has no text")
    return str(cell.get("cell_type")), _name(cell), source.encode(errors="replace").decode()
