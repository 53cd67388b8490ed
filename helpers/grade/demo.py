"""A class of thirty to try grading on: right, blank, partly right, with well-known mistakes, and hostile submissions.

They are written into a course folder of their own, build/demo-class, and graded there by `make demo-class`.
"""
from __future__ import annotations

import shutil
from pathlib import Path

import nbformat

SET = "01_memory"
RIGHT = 'gb_per_rank = {"DDP": 208, "ZeRO-1": 71.5, "ZeRO-2": 48.75, "ZeRO-3": 26}'
SHARED = "    shared = {'parameter': 3, 'gradient': 2}\n"
BYTES = "def bytes_per_rank(params, ranks, stage, recipe):\n"
ANSWERS = {         # student: the cells of set 01 that are not those of the solution
    "gibibytes": {"table": RIGHT.replace("26", "24.2")},
    "shards_all": {"table": RIGHT.replace("48.75", "26").replace("71.5", "26")},
    "no_master": {"table": RIGHT.replace("208", "156")},
    "a_list": {"table": "gb_per_rank = [208, 71.5, 48.75, 26]"},
    "fractions": {"smallest": 'smallest = {"mixed": 8.67, "mixed, fp32 gradients": 9.75, "mixed, no master": 6.5}'},
    "one_too_few": {"smallest": 'smallest = {"mixed": 8, "mixed, fp32 gradients": 9, "mixed, no master": 6}'},
    "divides_all": {"bytes": BYTES + "    return params * sum(recipe.values()) / ranks"},
    "ints_only": {"bytes": BYTES + SHARED + "    return sum(params * b // (ranks if stage >= shared.get(t, 1) else 1)\n"
                                            "               for t, b in recipe.items())"},
    "forgets_buffers": {"layers": "def most_layers(card_bytes, ranks, layer_params, other_params, reserve_bytes):\n"
                                  "    return (card_bytes - reserve_bytes) * ranks // 16 // layer_params"},
    "wrong_row": {"mistake": 'wrong_term, right_gb = "master", 86.25'},
    "misspells": {"bytes": BYTES + "    retrun 0"},
    "never_ends": {"layers": "def most_layers(**sizes):\n    while True:\n        pass"},
}
HOSTILE = {
    "exits": {"table": "import os\nos._exit(0)"},
    "patches": {"table": "import math\nmath.isclose = lambda *a, **k: True\ngb_per_rank = {}"},
    "stands_in": {"table": "import sys\nsys.modules['helpers.checks.memory.values'] = None\ngb_per_rank = {}"},
    "reads": {"table": "open('solutions/01_memory/01_memory.ipynb').read()"},
    "forks": {"table": "import os, time\nfor _ in range(9999):\n    os.fork() or time.sleep(60)"},
}


def demo_class(root: Path) -> Path:
    """Write the class anew and return its course folder."""
    course = root / "build/demo-class"
    shutil.rmtree(course, ignore_errors=True)
    shutil.copytree(root / "solutions", course / "solutions")
    shutil.copy(root / "nbgrader_config.py", course)
    for source in sorted((root / "solutions").glob("*/*.ipynb")):
        _submit(course, f"right_{source.stem[:2]}", source.stem, nbformat.read(source, 4))
    for name in (SET, "02_collectives", "09_pipeline"):
        _submit(course, f"blank_{name[:2]}", name, nbformat.read(root / "exercises" / name / f"{name}.ipynb", 4))
    for student, answers in (ANSWERS | HOSTILE).items():
        notebook = nbformat.read(root / "solutions" / SET / f"{SET}.ipynb", 4)
        for cell in notebook.cells:
            cell.source = answers.get(cell.get("id"), cell.source)
        _submit(course, student, SET, notebook)
    misplaced = course / "grading/submitted/misplaces" / f"{SET}.ipynb"
    misplaced.parent.mkdir()
    shutil.copy(root / "exercises" / SET / f"{SET}.ipynb", misplaced)
    return course


def _submit(course: Path, student: str, name: str, notebook: nbformat.NotebookNode) -> None:
    file = course / "grading/submitted" / student / name / f"{name}.ipynb"
    file.parent.mkdir(parents=True)
    nbformat.write(notebook, file)
