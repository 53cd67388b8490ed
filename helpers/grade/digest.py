"""What a mark depends on, as one number: as long as it is the same, nothing is graded again.

It depends on the code and the written answers of the submission, on the given cells and checks of its exercise set, on
the modules that these import, and on the settings.  It does not depend on prose, on other sets or on their checks.
"""
from __future__ import annotations

import ast
import functools
import hashlib
import json
import sys
from importlib.metadata import version
from pathlib import Path

from helpers.grade.apart.rebuild import TEXT, GradedCell, parsed
from helpers.grade.apart.sandbox import HELPERS

ALWAYS = ("helpers.grade.apart.judge", "helpers.grade.apart.answers", "helpers.grade.apart.submission")


def digest(cells: list[GradedCell], **settings: object) -> str:
    """Of a submission, as `rebuilt` has made it."""
    parts = [[cell.kind, cell.name, cell.source, str(cell.metadata.get("nbgrader"))] for cell in cells
             if cell.kind != TEXT]
    modules = set().union(*(_reached(name) for name in ALWAYS),
                          *(_imported(cell.source) for cell in cells if cell.is_code and cell.metadata))
    files = {str(file.relative_to(HELPERS)): _hash(file) for file in sorted(modules)}
    kept = [parts, files, settings, sys.version, version("torch"), version("nbgrader")]
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()


def _imported(source: str) -> set[Path]:
    try:
        names = _names(parsed(source))
    except SyntaxError:                 # of a student
        return set()
    return set().union(*(_reached(name) for name in names))


@functools.cache
def _reached(name: str) -> frozenset[Path]:
    """The files that are read when a module of the course is imported."""
    found, waiting, seen = set(), [name], set()
    while waiting:
        module = waiting.pop()
        if module in seen or not (file := _file(module)):
            continue
        seen.add(module)
        found.add(file)
        waiting += [module.rpartition(".")[0], *_names(parsed(file.read_text()))]
    return frozenset(found)


def _names(tree: ast.AST) -> list[str]:
    names = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return [name for name in names if name.partition(".")[0] == "helpers"]


def _file(module: str) -> Path | None:
    place = HELPERS.parent / module.replace(".", "/")
    return next((file for file in (place / "__init__.py", place.with_suffix(".py")) if module and file.is_file()), None)


def _hash(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
