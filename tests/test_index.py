"""`help(package)` is an index: every package names what is in it, and every public name explains itself."""
import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

HELPERS = Path(__file__).resolve().parent.parent / "helpers"
NO_MODULES_OF_INTEREST = {"__init__", "__main__"}
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def definitions(body: list[ast.stmt], prefix: str = "") -> Iterator[tuple[str, ast.AST]]:
    """Public functions, classes and methods."""
    for statement in body:
        if isinstance(statement, DEFINITIONS) and not statement.name.startswith("_"):
            yield prefix + statement.name, statement
            if isinstance(statement, ast.ClassDef):
                yield from definitions(statement.body, f"{statement.name}.")


def exported(package: Path) -> list[str]:
    """What `__all__` of a package lists."""
    for statement in tree(package / "__init__.py").body:
        if isinstance(statement, ast.Assign) and getattr(statement.targets[0], "id", "") == "__all__":
            return ast.literal_eval(statement.value)
    return []


def named_in(package: Path) -> set[str]:
    """All that the docstring of a package must name."""
    modules = {path.stem for path in package.glob("*.py")} - NO_MODULES_OF_INTEREST
    folders = {path.parent.name for path in package.glob("*/__init__.py")}
    bodies = [tree(package / f"{module}.py").body for module in modules]
    names = set(exported(package)) or {name for body in bodies for name, _ in definitions(body) if "." not in name}
    return modules | folders | (names if package != HELPERS else set())


MODULES = sorted(HELPERS.rglob("*.py"))
PACKAGES = [path.parent for path in MODULES if path.name == "__init__.py"]


def named(path: Path) -> str:
    return path.relative_to(HELPERS.parent).as_posix()


@pytest.mark.parametrize("package", PACKAGES, ids=named)
def test_a_package_names_what_is_in_it(package):
    words = set(re.findall(r"\w+", ast.get_docstring(tree(package / "__init__.py"))))
    assert named_in(package) - words == set()


@pytest.mark.parametrize("package", PACKAGES, ids=named)
def test_what_the_index_of_a_package_lists_is_there(package):
    """Rows are a name and, below it, indented further, the names in it."""
    rows = re.findall(r"^    (\w+)  ", ast.get_docstring(tree(package / "__init__.py")) + "\n", re.MULTILINE)
    there = {path.stem for path in package.glob("*.py")} | {path.parent.name for path in package.glob("*/__init__.py")}
    assert set(rows) - there == set()


@pytest.mark.parametrize("path", MODULES, ids=named)
def test_every_module_and_public_name_has_a_docstring(path):
    assert ast.get_docstring(tree(path))
    assert [name for name, node in definitions(tree(path).body) if not ast.get_docstring(node)] == []
