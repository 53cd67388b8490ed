"""A course folder of its own, and submissions made from the release."""
import shutil
from pathlib import Path

import nbformat

ROOT = Path(__file__).resolve().parent.parent.parent
SET = "01_memory"               # the one that submissions are made of
SETS = sorted(path.name for path in (ROOT / "exercises").iterdir())


def new_course(folder: Path, sets: tuple[str, ...] = ()) -> Path:
    """Solutions, of these exercise sets or of all, and settings of this course."""
    for name in sets or SETS:
        shutil.copytree(ROOT / "solutions" / name, folder / "solutions" / name)
    shutil.copy(ROOT / "nbgrader_config.py", folder)
    return folder


def release_notebook(name: str = SET) -> nbformat.NotebookNode:
    return nbformat.read(ROOT / "exercises" / name / f"{name}.ipynb", 4)


def solution_notebook() -> nbformat.NotebookNode:
    return nbformat.read(ROOT / "solutions" / SET / f"{SET}.ipynb", 4)


def answered(answers: dict[str, str]) -> nbformat.NotebookNode:
    """The release with the sources of some cells replaced, and the solution's in all other answer cells."""
    notebook, solutions = release_notebook(), {cell.id: cell.source for cell in solution_notebook().cells}
    for cell in notebook.cells:
        if cell.metadata.get("nbgrader", {}).get("solution"):
            cell.source = answers.get(cell.id, solutions[cell.id])
    assert set(answers) <= set(solutions)
    return notebook


def submit(course: Path, student: str, notebook: nbformat.NotebookNode) -> None:
    target = course / "grading/submitted" / student / SET / f"{SET}.ipynb"
    target.parent.mkdir(parents=True)
    nbformat.write(notebook, target)
