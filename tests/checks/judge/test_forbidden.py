"""What an exercise forbids is there, and where answers are checked it cannot be imported; afterwards it can again."""
import importlib
import importlib.util
import pkgutil
import sys

import pytest

from helpers.checks.judge import forbidden, other_process
from helpers.checks.judge.other_process import Raised
from helpers.run.launch.outcome import RaisedError
from tests.checks.judge import forbidden_answers as answers

LISTS = {name: packages for name, packages in vars(forbidden).items() if name.isupper()}
ENTRIES = sorted({package for packages in LISTS.values() for package in packages})


def test_all_lists_are_looked_at():
    assert set(LISTS) == {"FORMULAS", "COLLECTIVES", "DDP", "SAMPLERS", "MEANS", "ZERO", "SCHEDULES", "SPLIT_BACKWARD"}
    assert all(type(packages) is tuple and set(forbidden.FORMULAS) <= set(packages) for packages in LISTS.values())


@pytest.mark.parametrize("package", ENTRIES)
def test_what_is_forbidden_is_there(package):
    """A misspelt entry forbids nothing."""
    assert importlib.util.find_spec(package) is not None


def modules_of(package: str) -> list[str]:
    found = importlib.import_module(package)
    return [package, *(module.name for module in pkgutil.walk_packages(getattr(found, "__path__", []), f"{package}."))]


@pytest.mark.parametrize("name", LISTS)
def test_what_is_forbidden_cannot_be_imported_over_there_nor_anything_in_it(name):
    names = [module for package in LISTS[name] for module in modules_of(package)]
    assert other_process.answers(answers.imported, [{"names": names}], "text", LISTS[name]) == ["none"]


@pytest.mark.parametrize("package", ENTRIES)
def test_its_name_is_told(package):
    cell = {"__name__": "__main__"}
    exec(compile(f"def function(x):\n    import {package}\n    return 1", "<cell>", "exec"), cell)
    (name,) = [name for name, packages in LISTS.items() if package in packages][:1]
    assert other_process.answers(cell["function"], [{"x": 1}], forbidden=LISTS[name]) == [
        Raised(f"uses {package}, which this exercise asks you to do without")]


def test_what_was_forbidden_is_there_again_afterwards():
    import helpers.predict.memory as before

    with forbidden.forbidding(("helpers.predict", "helpers.facts.network")), pytest.raises(ImportError):
        importlib.import_module("helpers.predict.memory")
    assert sys.modules["helpers.predict.memory"] is before
    assert importlib.import_module("helpers.predict").memory is before


def test_an_import_error_about_something_else_is_no_forbidden_import():
    error = RaisedError("ModuleNotFoundError", "ModuleNotFoundError: No module named 'helpers.predictor'",
                        module="helpers.predictor")
    assert forbidden.forbidden_import(error, forbidden.FORMULAS) is None
    inside = RaisedError("ModuleNotFoundError", "...", module="helpers.predict.comm")
    outside = RaisedError("ValueError", "...", cause=inside)
    assert forbidden.forbidden_import(outside, forbidden.FORMULAS) == "helpers.predict"


@pytest.mark.parametrize(("function", "starts"), [
    (answers.stub, "is not written yet"), (answers.calls_a_stub, "is not written yet"),
    (answers.torch_raises, "raised NotImplementedError: ")])
def test_only_the_learners_own_line_makes_a_stub(function, starts):
    (got,) = other_process.answers(function, [{"x": 1}])
    assert got.words.startswith(starts)
