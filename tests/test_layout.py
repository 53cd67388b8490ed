"""The rooms of the house: no hall, no circle, no name with two meanings, and words about failures made in one place."""
import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.test_architecture import imports

ROOT = Path(__file__).resolve().parent.parent
MOST_FILES = 14                         # of Python, in one folder
FAILURES = {"RankFailed", "RankHung"}
TAKES_APART = {"replace", "split", "splitlines", "partition", "rpartition", "removeprefix", "removesuffix",
               "startswith", "endswith", "find", "index"}

SEARCHES = {"sub", "search", "match", "findall"}


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".").removesuffix(".__init__")


MODULES = {name_of(path): path for path in sorted((ROOT / "helpers").rglob("*.py"))}
TREES = {name: ast.parse(path.read_text()) for name, path in MODULES.items()}
FOLDERS = sorted({path.parent for top in ("helpers", "tests") for path in (ROOT / top).rglob("*.py")})


def imported(name: str) -> set[str]:
    """The modules of helpers that a module imports, inside functions too."""
    found = set()
    for _, full in imports(MODULES[name].relative_to(ROOT).as_posix(), TREES[name]):
        while full and full not in MODULES:
            full = full.rpartition(".")[0]
        found |= {full} if full.startswith("helpers.") else set()
    return found - {name}


def circles(edges: dict[str, set[str]]) -> list[list[str]]:
    """What is left when everything that leads to nothing further has been taken away again and again."""
    left = {name: set(others) for name, others in edges.items()}
    while ends := [name for name, others in left.items() if not others & left.keys()]:
        for name in ends:
            del left[name]
    return [sorted(left)] if left else []


def folder(name: str) -> str:
    return name if MODULES[name].name == "__init__.py" else name.rpartition(".")[0]


EDGES = {name: imported(name) for name in MODULES}


@pytest.mark.parametrize("path", FOLDERS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_no_folder_is_a_hall(path):
    assert len(list(path.glob("*.py"))) <= MOST_FILES


def test_no_two_modules_import_each_other_in_a_circle():
    assert circles(EDGES) == []


def test_no_two_folders_import_each_other_in_a_circle():
    """A package imports from packages beside or below it in one direction only; its own `__init__` belongs to it."""
    edges = defaultdict(set)
    for name, others in EDGES.items():
        edges[folder(name)] |= {folder(other) for other in others} - {folder(name)}
    assert circles(edges) == []


def test_a_circle_is_found():
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}) == [["a", "b", "c", "d"]]
    assert circles({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


def test_every_test_is_in_a_tier():
    """`make fast` leaves four folders out, and tests that start ranks; each other tier names its own folders."""
    makefile = (ROOT / "Makefile").read_text()
    assert "$(foreach folder,run checks grade browser,--ignore=tests/$(folder))" in makefile
    for folders in ("tests/run tests/checks tests/compare", " tests/grade\n", " tests/browser\n"):
        assert folders in makefile
    with_ranks = {path.relative_to(ROOT).parts[1] for path in (ROOT / "tests").rglob("test_*.py")
                  if "mark.ranks" in path.read_text() and path != Path(__file__)}
    assert with_ranks <= {"run", "checks", "compare"}


def test_a_topic_has_one_name_in_all_layers():
    """A folder or module named after a topic is spelt as the lesson's folder of exercises is."""
    topics = {path.name[3:] for path in (ROOT / "solutions").iterdir() if path.is_dir()}
    checks = {path.name for path in (ROOT / "helpers" / "checks").iterdir() if path.is_dir()} - {"judge", "__pycache__"}
    assert checks == topics


def public(kind: type) -> dict[str, list[str]]:
    """Where each public class or function of helpers is defined."""
    places = defaultdict(list)
    for name, tree in TREES.items():
        for node in tree.body:
            if isinstance(node, kind) and not node.name.startswith("_"):
                places[node.name].append(name)
    return places


MAY_BE_TWICE = {"main"}                 # of `python -m helpers`, of `python -m helpers.grade`, and of a rank


@pytest.mark.parametrize("kind", [ast.ClassDef, ast.FunctionDef], ids=["classes", "functions"])
def test_a_public_name_has_one_meaning(kind):
    assert {name: places for name, places in public(kind).items()
            if len(places) > 1 and name not in MAY_BE_TWICE} == {}


def caught_failures(tree: ast.AST) -> Iterator[tuple[str, ast.ExceptHandler]]:
    """Names that RankFailed or RankHung are caught under, alone or among others."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ExceptHandler) and node.name and node.type is not None:
            kinds = {one.id for one in ast.walk(node.type) if isinstance(one, ast.Name)}
            if kinds & (FAILURES | {"CourseError"}):
                yield node.name, node


def taken_apart(tree: ast.AST) -> list[int]:
    """Lines in which the text of a failure is searched or cut."""
    return sorted({line for name, handler in caught_failures(tree) for line in _lines(name, handler)})


def _lines(name: str, handler: ast.ExceptHandler) -> Iterator[int]:
    def is_text(node: ast.AST) -> bool:
        return isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("str", "repr") and any(
            isinstance(one, ast.Name) and one.id == name for one in ast.walk(node))

    texts = {target.id for node in ast.walk(handler) if isinstance(node, ast.Assign) and is_text(node.value)
             for target in node.targets if isinstance(target, ast.Name)}

    def speaks(node: ast.AST) -> bool:
        return is_text(node) or (isinstance(node, ast.Name) and node.id in texts)

    for node in ast.walk(handler):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            on_text = node.func.attr in TAKES_APART and speaks(node.func.value)
            with_re = getattr(node.func.value, "id", "") == "re" or node.func.attr in SEARCHES
            if on_text or (with_re and any(map(speaks, node.args))):
                yield node.lineno
        elif isinstance(node, ast.Compare) and any(map(speaks, [node.left, *node.comparators])):
            yield node.lineno


AUTHORS = [path for top in ("helpers", "sources") for path in sorted((ROOT / top).rglob("*.py"))]


@pytest.mark.parametrize("path", AUTHORS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_nobody_reads_the_words_of_a_failure_back(path):
    assert taken_apart(ast.parse(path.read_text())) == []


CATCH = "try:\n    launch(f, 2)\nexcept (RankFailed, ValueError) as error:\n    "


@pytest.mark.parametrize("code", [
    "words = FRAME.sub('', str(error))", "words = str(error).replace('a', 'b')",
    "found = re.search('rank', str(error))",
    "text = str(error)\n    first = text.splitlines()[0]", "hung = 'not done after' in str(error)",
    "words = str(error)\n    hung = 'not done' in words"])
def test_words_that_are_read_back_are_found(code):
    assert taken_apart(ast.parse(CATCH + code)) != []


@pytest.mark.parametrize("code", [
    "words = str(error)", "first = error.headline", "ranks = [r.rank for r in error.records]",
    "print(f'it fails: {error}')"])
def test_fields_and_whole_words_are_fine(code):
    assert taken_apart(ast.parse(CATCH + code)) == []
