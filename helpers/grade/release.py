"""Make exercises/ from solutions/ with nbgrader, and look for what must not be in it."""
from __future__ import annotations

import re
import shutil
import tempfile
from pathlib import Path

import nbformat

from helpers.grade.course import api, assignments, run

MARKERS = re.compile(r"(###|===)\s*(BEGIN|END)\b.*", re.IGNORECASE)     # mistyped ones, too
SECRET = re.compile(r"### BEGIN (?:SOLUTION|HIDDEN TESTS)\n(.*?)### END (?:SOLUTION|HIDDEN TESTS)", re.DOTALL)
TELLING = 15                    # a shorter line says nothing: `return`, `else:`


def release(root: Path) -> list[Path]:
    """Write exercises/ anew and return its files; the same solutions give the same bytes.

    nbgrader works in a folder of its own, so that neither a gradebook nor a
    half-written notebook is left here when it fails.
    """
    with tempfile.TemporaryDirectory() as name:
        copy = Path(name)
        shutil.copytree(root / "solutions", copy / "solutions")
        shutil.copy(root / "nbgrader_config.py", copy)
        course = api(copy)
        for assignment in assignments(copy):
            run(f"releasing {assignment}", course.generate_assignment(assignment, force=True, create=True))
        if found := leaks(copy):
            raise ValueError("a release would give answers away:\n" + "\n".join(found))
        made = [file.relative_to(copy) for file in sorted((copy / "exercises").rglob("*")) if file.is_file()]
        shutil.rmtree(root / "exercises.old", ignore_errors=True)
        shutil.copytree(copy / "exercises", root / "exercises.new")
    if (root / "exercises").exists():
        (root / "exercises").rename(root / "exercises.old")
    (root / "exercises.new").rename(root / "exercises")
    shutil.rmtree(root / "exercises.old", ignore_errors=True)
    return [root / file for file in made]


def leaks(root: Path) -> list[str]:
    """Each line of exercises/ that stands between markers in solutions/, or is a marker itself."""
    found, hidden = [], sorted(secrets(root))
    for released in sorted((root / "exercises").rglob("*")):
        if released.is_file() and ".ipynb_checkpoints" not in released.parts:
            text = _text(released)
            found += [f"{released.relative_to(root)}: marker {m.group()}" for m in MARKERS.finditer(text)]
            found += [f"{released.relative_to(root)}: {line}" for line in hidden
                      if line in {shown.strip() for shown in text.splitlines()}]
    return found


def secrets(root: Path) -> set[str]:
    """The telling lines of all solutions, hidden tests and model answers, without those that a stub shows, too."""
    hidden, shown = set(), set()
    for notebook in sorted((root / "solutions").rglob("*.ipynb")):
        for cell in nbformat.read(notebook, 4).cells:
            grading = cell.metadata.get("nbgrader", {})
            is_answer = cell.cell_type == "markdown" and grading.get("solution")
            hidden |= {line for part in ([cell.source] if is_answer else SECRET.findall(cell.source))
                       for line in map(str.strip, part.splitlines()) if len(line) >= TELLING}
            shown |= set() if is_answer else set(map(str.strip, SECRET.sub("", cell.source).splitlines()))
    return hidden - shown


def _text(file: Path) -> str:
    if file.suffix != ".ipynb":
        return file.read_text(errors="replace")
    return "\n".join(cell.source for cell in nbformat.read(file, 4).cells)
