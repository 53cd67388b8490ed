"""The shape of the code: who may import whom, how long things may be, what no file may contain."""
import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
MODULES = sorted(p.relative_to(ROOT).as_posix() for p in (ROOT / "helpers").rglob("*.py"))
SOURCES = sorted(p.relative_to(ROOT).as_posix() for folder in ("sources", "benchmarks", "tests")
                 for p in (ROOT / folder).rglob("*.py"))

MAY_IMPORT = {                          # each folder of helpers/: the others that it may import
    "facts": set(),
    "predict": {"facts"},
    "run": {"facts"},
    "compare": {"facts", "predict", "run"},
    "checks": {"facts", "predict", "run", "compare"},
    "grade": {"facts", "predict", "run", "compare", "checks"},
    "": {"facts", "predict", "run", "compare", "checks"},               # helpers/__init__.py and __main__.py
}
ONLY_IN = {                             # a package: the one folder of the project that may import it
    "matplotlib": "helpers/compare/plots",
    "ipywidgets": "helpers/compare/widgets",
}
NOT_FOR = {                             # a folder of helpers/: what it may not import, besides
    "predict": {"torch"},
    "checks": {"helpers.compare.widgets"},
}
STANDARD_LIBRARY_ONLY = {"facts"}
MOST_LINES, MOST_LINES_OF_A_FUNCTION = 200, 30


def violations(path: str, source: str) -> list[str]:
    """All rules that a module of helpers/ breaks; `path` is relative to the repository."""
    tree = ast.parse(source)
    return [f"{path}:{line}: {what}" for line, what in
            sorted([*_broken_imports(path, tree), *_size(source, tree)])]


def _broken_imports(path: str, tree: ast.Module) -> Iterator[tuple[int, str]]:
    layer = _layer(path)
    for line, name in imports(path, tree):
        package, *rest = name.split(".")
        if package in ONLY_IN and not path.startswith(f"{ONLY_IN[package]}/"):
            yield line, f"only {ONLY_IN[package]} imports {package}"
        if any(f"{name}.".startswith(f"{banned}.") for banned in NOT_FOR.get(layer, ())):
            yield line, f"{layer} never imports {name}"
        if package == "helpers":
            yield from ((line, why) for why in _broken_layer(layer, rest))
        elif layer in STANDARD_LIBRARY_ONLY and package not in sys.stdlib_module_names:
            yield line, f"{layer} imports {package}; it may use the standard library only"


def _broken_layer(layer: str, imported: list[str]) -> Iterator[str]:
    if not imported or imported[0] not in MAY_IMPORT:
        yield f"import helpers.{'.'.join(imported)} from the module that defines it"
    elif imported[0] != layer and imported[0] not in MAY_IMPORT[layer]:
        yield f"{layer or 'the top of helpers'} may not import {imported[0]}"


def _size(source: str, tree: ast.Module) -> Iterator[tuple[int, str]]:
    if not ast.get_docstring(tree):
        yield 1, "no docstring"
    if (lines := len(source.splitlines())) > MOST_LINES:
        yield lines, f"{lines} lines, and at most {MOST_LINES} are allowed"
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and _length(node) > MOST_LINES_OF_A_FUNCTION:
            yield node.lineno, f"{node.name} has {_length(node)} lines; {MOST_LINES_OF_A_FUNCTION} are allowed"


def imports(path: str, tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and full name of everything imported, also inside functions, by relative name or by import_module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            here = path.split("/")[:-node.level] if node.level else []
            module = ".".join([*here, *([node.module] if node.module else [])])
            yield from ((node.lineno, f"{module}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if called in ("import_module", "__import__"):
                yield node.lineno, str(node.args[0].value)


def _layer(path: str) -> str:
    """The folder of helpers/ that a module is in; "" at the top, and for what is outside helpers/."""
    parts = path.split("/")
    return parts[1] if parts[0] == "helpers" and len(parts) > 2 else ""


def _length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of the body, without the docstring."""
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    if not body:
        return 0
    first = min([body[0].lineno, *(d.lineno for d in getattr(body[0], "decorator_list", []))])
    return function.end_lineno - first + 1


@pytest.mark.parametrize("path", MODULES)
def test_helpers_keep_the_rules(path):
    assert violations(path, (ROOT / path).read_text()) == []


def test_every_folder_of_helpers_has_its_rule():
    assert {_layer(path) for path in MODULES} <= set(MAY_IMPORT)


LINE = "    x = 1\n"
LONG = 31 * LINE
BROKEN = [
    ("helpers/facts/units.py", "import numpy", "facts imports numpy"),
    ("helpers/facts/units.py", "import torch.nn", "facts imports torch"),
    ("helpers/facts/units.py", "from helpers.predict import memory", "facts may not import predict"),
    ("helpers/facts/schedules/gpipe.py", "import helpers.run.launch", "facts may not import run"),
    ("helpers/predict/memory.py", "import torch", "predict never imports torch"),
    ("helpers/predict/memory.py", "from torch.nn import Linear", "predict never imports torch.nn.Linear"),
    ("helpers/predict/memory.py", "def f():\n    import torch", "predict never imports torch"),
    ("helpers/predict/memory.py", "from importlib import *\nt = import_module('torch')", "predict never imports torch"),
    ("helpers/predict/memory.py", "t = __import__('torch')", "predict never imports torch"),
    ("helpers/predict/memory.py", "try:\n    import torch\nexcept ImportError: pass", "predict never imports torch"),
    ("helpers/predict/memory.py", "from helpers.run.launch import launch", "predict may not import run"),
    ("helpers/predict/memory.py", "from ..run import launch", "predict may not import run"),
    ("helpers/predict/memory.py", "from helpers import run", "predict may not import run"),
    ("helpers/predict/memory.py", "from .. import run", "predict may not import run"),
    ("helpers/predict/memory.py", "import helpers", "import helpers. from"),
    ("helpers/predict/memory.py", "from helpers import launch", "import helpers.launch from"),
    ("helpers/run/launch.py", "from helpers.predict.collectives import bytes_sent", "run may not import predict"),
    ("helpers/run/launch.py", "from helpers.compare import table", "run may not import compare"),
    ("helpers/compare/table.py", "from helpers.checks import memory", "compare may not import checks"),
    ("helpers/compare/table.py", "import matplotlib.pyplot as plt", "only helpers/compare/plots imports matplotlib"),
    ("helpers/compare/widgets/memory.py", "from matplotlib import pyplot",
     "only helpers/compare/plots imports matplotlib"),
    ("helpers/compare/plots/times.py", "from ipywidgets import interact", "only helpers/compare/widgets imports"),
    ("helpers/checks/memory.py", "from helpers.compare.widgets import play", "never imports helpers.compare.widgets"),
    ("helpers/checks/memory.py", "from helpers.compare import widgets", "never imports helpers.compare.widgets"),
    ("helpers/checks/memory.py", "import helpers.grade.loop", "checks may not import grade"),
    ("helpers/__main__.py", "from helpers.grade import loop", "the top of helpers may not import grade"),
    ("helpers/run/launch.py", "x = 1\n" * 200, "201 lines"),
    ("helpers/run/launch.py", f"def f():\n{LONG}", "f has 31 lines"),
    ("helpers/run/launch.py", f"async def f():\n    '''Doc.'''\n{LONG}", "f has 31 lines"),
    ("helpers/run/launch.py", f"class C:\n  def g(self):\n{LONG}", "g has 31 lines"),
    ("helpers/run/launch.py", f"def f():\n    @deco\n    def g(): pass\n{29 * LINE}", "f has 31 lines"),
]
FINE = [
    ("helpers/facts/specs.py", "import math\nfrom dataclasses import dataclass\nfrom helpers.facts.units import GiB"),
    ("helpers/predict/memory.py", "import numpy\nfrom helpers.facts import specs\nfrom . import comm\nimport torches"),
    ("helpers/run/launch.py", "import torch\nfrom helpers.facts.trace import Trace\nfrom ..facts import errors"),
    ("helpers/compare/plots/times.py", "from matplotlib import pyplot\nfrom helpers.predict import collectives"),
    ("helpers/compare/table.py", "from helpers.predict import collectives\nfrom helpers.run import launch"),
    ("helpers/compare/widgets/memory.py", "import ipywidgets\nfrom helpers.compare import plots"),
    ("helpers/checks/memory.py", "import torch\nfrom helpers.compare import table\nfrom . import basics"),
    ("helpers/grade/loop.py", "import nbgrader\nfrom helpers.checks import memory\nfrom helpers.grade import leak"),
    ("helpers/__main__.py", "from helpers.run.launch import launch\nfrom helpers.predict import collectives"),
    ("helpers/run/launch.py", f"def f():\n    '''Many\n\n    lines.\n    '''\n{30 * LINE}"),
    ("helpers/run/launch.py", "x = 1\n" * 199),
    ("helpers/run/rank.py", "from multiprocessing import shared_memory\nsaved = 'shared'\npath = '/dev/shm'"),
]


@pytest.mark.parametrize(("path", "code", "says"), BROKEN)
def test_a_broken_rule_is_named(path, code, says):
    (wrong,) = violations(path, f'"""Doc."""\n{code}')
    assert says in wrong


@pytest.mark.parametrize(("path", "code"), FINE)
def test_what_is_allowed_passes(path, code):
    assert violations(path, f'"""Doc."""\n{code}') == []


@pytest.mark.parametrize("source", ["", "import math\n", "# only a comment\n", "x = 1\n'''late'''\n"])
def test_a_module_without_docstring_is_named(source):
    assert violations("helpers/run/launch.py", source) == ["helpers/run/launch.py:1: no docstring"]


def test_formulas_load_without_torch():
    """Also not by a detour: what facts and predict import is seen to load no torch."""
    names = [path.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for path in MODULES
             if _layer(path) in ("facts", "predict")]
    program = f"import sys\nfor name in {names}: __import__(name)\nprint({'torch'!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True,
                          cwd=ROOT).stdout == "False\n"


MACHINE_PATH = re.compile("/(?:work|root)/")


def machine_paths(name: str, content: bytes) -> list[str]:
    """Places in a text file that name a folder of its author's machine; files with a zero byte are not text."""
    if b"\0" in content:
        return []
    lines = content.decode(errors="replace").splitlines()
    return [f"{name}:{number}: {line.strip()[:100]}" for number, line in enumerate(lines, 1)
            if MACHINE_PATH.search(line)]


def test_no_file_names_a_folder_of_its_authors_machine():
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                            cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a git checkout, so there is no list of the files that are the project's")
    files = [name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]
    assert [place for name in files for place in machine_paths(name, (ROOT / name).read_bytes())] == []


@pytest.mark.parametrize("folder", ["work", "root"])
def test_a_machine_path_is_named(folder):
    assert machine_paths("a.ipynb", f'{{\n "File /{folder}/x.py"}}'.encode()) == [f'a.ipynb:2: "File /{folder}/x.py"}}']
    assert machine_paths("a.png", f"\0/{folder}/".encode()) == []
    assert machine_paths("a.md", f"{folder} and /{folder}ing/".encode()) == []
