"""Grade one submission: from files to a notebook with outputs and points.  Nothing else is read or written.

The student's cells run in one sandbox; at each check, what it asks for is handed over and judged in another.  A cell
that ends its process costs its own exercise: the others are run again without it.
"""
from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator
from dataclasses import dataclass, field

import nbformat

from helpers.grade.apart.answers import serve_answers
from helpers.grade.apart.inside import Ended, Inside
from helpers.grade.apart.judge import serve_checks
from helpers.grade.apart.outputs import an_error, as_notebook, as_shown
from helpers.grade.apart.rebuild import CHECK, GIVEN, GradedCell, parsed

CELL_S = 180.0                  # checks take a few seconds, and a busy machine needs several times that
MOST_RESTARTS = 4


@dataclass
class Graded:
    """A submission that has been run and judged.

    notebook   what nbgrader takes marks from and students get as feedback
    points     of each check cell, by name
    verdicts   (check, points, property, what is wrong or None), in order
    look_at    what a person should look at
    """

    notebook: nbformat.NotebookNode = field(default_factory=nbformat.v4.new_notebook)
    points: dict[str, float] = field(default_factory=dict)
    verdicts: list[tuple[str, float, str, str | None]] = field(default_factory=list)
    look_at: list[str] = field(default_factory=list)


def graded(cells: list[GradedCell], seed: str, sandboxed: bool = True) -> Graded:
    """Run and judge the cells of a submission that `rebuilt` has made."""
    result, outputs = Graded(), {}
    given = [cell.source for cell in cells if cell.kind == GIVEN]
    with _Student(sandboxed) as student, _Judge(sandboxed, given, seed) as judge:
        for number, cell in enumerate(cells):
            if cell.kind == CHECK:
                outputs[number] = _judged(cell, _asked(cell.source, given), student, judge, result)
            elif cell.is_code:
                outputs[number] = student.run(cell)
        result.look_at += student.notes
    result.notebook = as_notebook(cells, outputs)
    return result


def _judged(cell: GradedCell, names: list[str], student: _Student, judge: _Judge, result: Graded) -> list[dict]:
    answers = student.hand_over(names)
    if missing := [name for name in names if name not in answers]:
        result.points[cell.name] = 0.0
        return [an_error("CheckFailed", f"{' and '.join(missing)} is not there: is its cell empty, or did it stop?")]
    said = judge.check(cell.source, answers)
    result.points[cell.name] = float(said["points"])
    result.verdicts += [(cell.name, points, what, wrong) for points, what, wrong in said["verdicts"]]
    if said["broken"]:
        result.look_at.append(f"the check {cell.name!r} itself has failed on this answer, for 0 points: see its output")
    return said["outputs"]


class _Student:
    """A process that runs a student's cells; a new one without the cells at fault, if they end it."""

    def __init__(self, sandboxed: bool):
        self.sandboxed = sandboxed
        self.done: list[GradedCell] = []
        self.notes: list[str] = []
        self.inside: Inside | None = None

    def __enter__(self) -> _Student:
        self._start()
        return self

    def __exit__(self, *_) -> None:
        self._stop()

    def _start(self) -> None:
        self.inside = Inside(serve_answers, sandboxed=self.sandboxed).__enter__()

    def _stop(self) -> None:
        if self.inside:
            self.inside.__exit__()
            self.inside = None

    def run(self, cell: GradedCell) -> list[dict]:
        """The cell's outputs."""
        try:
            said = self._ask({"run": cell.source}).get("outputs")
            outputs = [clean for each in (said if isinstance(said, list) else []) if (clean := as_shown(each))]
            self.done.append(cell)
            return outputs
        except Ended as ended:
            self._again(cell, str(ended))
            return [an_error("Ended", f"this cell was stopped, and is left out of all that follows: {ended}")]

    def hand_over(self, names: list[str]) -> dict:
        """The answers of these names, packed; without those that are not there."""
        try:
            answers = self._ask({"hand_over": names}).get("answers")
            return answers if isinstance(answers, dict) else {}
        except Ended as ended:
            self.notes.append(f"handing over {', '.join(names)} failed: {ended}")
            self._again(None, str(ended))
            return {}

    def _ask(self, request: dict) -> dict:
        if self.inside is None:
            raise Ended("its process was ended too often before")
        return self.inside.ask(request, CELL_S)

    def _again(self, culprit: GradedCell | None, why: str) -> None:
        self._stop()
        if culprit:
            self.notes.append(f"cell {culprit.name or 'of their own'!r} was stopped: {why}")
        if len(self.notes) > MOST_RESTARTS:
            return
        before, self.done = self.done, []
        self._start()
        for cell in before:
            if self.inside:                     # a cell of before may now end the process, too: one culprit more
                self.run(cell)


class _Judge:
    """A process that runs checks; a new one, if what it was given has ended it."""

    def __init__(self, sandboxed: bool, given: list[str], seed: str):
        self.sandboxed, self.given, self.seed = sandboxed, given, seed

    def __enter__(self) -> _Judge:
        self.inside = Inside(serve_checks, unreadable=True, sandboxed=self.sandboxed).__enter__()
        self.inside.ask({"prepare": self.given}, CELL_S)
        self.inside.ask({"seed": self.seed}, CELL_S)
        return self

    def __exit__(self, *_) -> None:
        self.inside.__exit__()

    def check(self, source: str, answers: dict) -> dict:
        """What the check says, with 0 points if it could not end."""
        try:
            return self.inside.ask({"check": source, "answers": answers}, CELL_S)
        except Ended as ended:
            self.__exit__()
            self.__enter__()
            return {"points": 0.0, "verdicts": [], "broken": True,
                    "outputs": [an_error("Ended", f"the check was stopped: {ended}")]}


def _asked(source: str, given: list[str]) -> list[str]:
    """The names that a check takes from the student: neither its own nor those of given code."""
    names = [node for node in ast.walk(parsed(source)) if isinstance(node, ast.Name)]
    bound = {name for text in [source, *given] for name in _bound(text)}
    return sorted({node.id for node in names} - bound - set(vars(builtins)))


def _bound(source: str) -> Iterator[str]:
    for node in parsed(source).body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield from (alias.asname or alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.name
        else:
            yield from (each.id for each in ast.walk(node) if isinstance(each, ast.Name)
                        and isinstance(each.ctx, ast.Store))
