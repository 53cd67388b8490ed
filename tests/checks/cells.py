"""The cells of an exercise set, run as the grader runs them: one after the other, whatever fails."""
import ast
import contextlib
import io
import json
import re
from dataclasses import dataclass
from pathlib import Path

SOURCES = Path(__file__).resolve().parents[2] / "sources" / "exercises"
SOLUTION = re.compile(r"^( *)### BEGIN SOLUTION\n.*?^ *### END SOLUTION\n", re.M | re.S)
HIDDEN = re.compile(r"^### BEGIN HIDDEN TESTS\n.*?^### END HIDDEN TESTS\n", re.M | re.S)


@dataclass
class Cell:
    """One code cell, and what running it gave: the value of its last line, or an error, and what was printed."""

    name: str
    points: float               # 0 unless it is graded
    code: str
    value: object = None
    error: Exception | None = None
    printed: str = ""


def solved(name: str) -> list[Cell]:
    """The cells as the author has them."""
    return _cells((SOURCES / f"{name}.py").read_text())


def blank(name: str) -> list[Cell]:
    """The cells as a learner gets them: without solutions and hidden tests."""
    text = SOLUTION.sub(r"\1# YOUR CODE HERE\n\1raise NotImplementedError()\n", (SOURCES / f"{name}.py").read_text())
    return _cells(HIDDEN.sub("", text))


def changed(text: str, *changes: tuple[int, str, str]) -> str:
    """An order as text, with a piece of some ranks' lines replaced."""
    lines = text.split()
    for rank, old, new in changes:
        assert old in lines[rank]
        lines[rank] = lines[rank].replace(old, new)
    return "\n".join(lines)


def run(cells: list[Cell]) -> dict[str, Cell]:
    """Run all cells in one namespace; by name."""
    namespace = {"__name__": "__main__"}
    for cell in cells:
        run_one(cell, namespace)
    return {cell.name: cell for cell in cells}


def run_one(cell: Cell, namespace: dict) -> None:
    """Run a cell in a namespace, and write down what came of it."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        try:
            cell.value = _run(cell.code, namespace)
        except Exception as error:
            cell.error = error
    cell.printed = printed.getvalue()


def _cells(text: str) -> list[Cell]:
    cells = []
    for part in re.split(r"^# %% ", text, flags=re.M)[1:]:
        heading, _, code = part.partition("\n")
        settings = json.loads(heading.partition("nbgrader=")[2] or "{}")
        name = settings.get("grade_id") or heading.partition('id="')[2].rstrip('"')
        if "[markdown]" not in heading:
            cells.append(Cell(name, settings.get("points", 0), code))
    return cells


def _run(code: str, namespace: dict) -> object:
    *before, last = ast.parse(code).body
    if not isinstance(last, ast.Expr):
        before, last = [*before, last], None
    exec(compile(ast.Module(before, []), "<cell>", "exec"), namespace)
    return eval(compile(ast.Expression(last.value), "<cell>", "eval"), namespace) if last else None
