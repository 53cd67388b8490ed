"""environment.yml says what pyproject.toml says, in the form that Binder reads."""
import copy
import os
import re
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).resolve().parent.parent
CONDA_NAMES = {"matplotlib-base": "matplotlib"}         # conda's name -> PyPI's
CPU_INDEX = "--extra-index-url https://download.pytorch.org/whl/cpu"
FOR_READERS = {"pytest", "nbval"}                       # the dev packages that the course's reader uses
LOCAL = re.compile(r"^(-e|--editable|-r|--requirement|-c|--constraint|\.|/|~)|file:|^\S+/\S*$|@")
PIN = re.compile(r"([A-Za-z0-9_.-]+)(.*)")


def disagreements(environment: dict, pyproject: dict) -> list[str]:
    """All that is wrong with a parsed environment.yml, given the parsed pyproject.toml."""
    conda = [line for line in environment["dependencies"] if isinstance(line, str)]
    pip = [line for part in environment["dependencies"] if isinstance(part, dict) for line in part["pip"]]
    return [*_channels(environment), *_python(conda, pyproject), *_pins(conda, pyproject), *_pip(pip, pyproject)]


def _channels(environment: dict) -> list[str]:
    channels = environment["channels"]
    return [] if channels == ["conda-forge", "nodefaults"] else [f"channels are {channels}"]


def _python(conda: list[str], pyproject: dict) -> list[str]:
    version = _table(conda).get("python", "")
    if not re.fullmatch(r"=3\.\d+", version):
        return [f"python{version}: Binder reads only the form python=3.11"]
    wanted = pyproject["project"]["requires-python"]
    return [] if version[1:] in SpecifierSet(wanted) else [f"python{version}, but requires-python is {wanted}"]


def _pins(conda: list[str], pyproject: dict) -> list[str]:
    have = {CONDA_NAMES.get(name, name): pin for name, pin in _table(conda).items() if name not in ("python", "pip")}
    runtime = _table(pyproject["project"]["dependencies"])
    known = _table([*pyproject["project"]["optional-dependencies"]["dev"], *pyproject["build-system"]["requires"]])
    needed = (set(runtime) | FOR_READERS | set(_table(pyproject["build-system"]["requires"]))) - {"torch"}
    wrong = [f"{name} is missing" for name in sorted(needed - set(have))]
    for name, pin in have.items():
        if name == "torch" or name.startswith("pytorch"):
            wrong.append(f"{name} comes from conda; it belongs in the pip section")
        elif (wanted := (known | runtime).get(name)) is None:
            wrong.append(f"{name} is not in pyproject.toml")
        elif pin != wanted:
            wrong.append(f"{name}{pin}, but pyproject.toml has {name}{wanted}")
    return wrong


def _pip(pip: list[str], pyproject: dict) -> list[str]:
    torch = "torch" + _table(pyproject["project"]["dependencies"])["torch"]
    wrong = [f"{line} is local: Binder would build all again at each commit"
             for line in pip if line != CPU_INDEX and LOCAL.search(line)]
    return wrong if pip == [CPU_INDEX, torch] else [*wrong, f"the pip section is {pip}, not {[CPU_INDEX, torch]}"]


def _table(lines: list[str]) -> dict[str, str]:
    """Package name to version specifier."""
    return {found[1]: found[2].replace(" ", "") for line in lines if (found := PIN.fullmatch(line.strip()))}


def read() -> tuple[dict, dict]:
    return (yaml.safe_load((ROOT / "environment.yml").read_text()),
            tomllib.loads((ROOT / "pyproject.toml").read_text()))


def test_binder_gets_the_versions_of_pyproject():
    assert disagreements(*read()) == []


def swap(old: str, *new: str):
    """A mistake: `old` becomes `new`, or disappears, in the conda or in the pip section."""
    def mistake(environment: dict) -> None:
        pip = next(part["pip"] for part in environment["dependencies"] if isinstance(part, dict))
        lines = environment["dependencies"] if old in environment["dependencies"] else pip
        at = lines.index(old)
        lines[at:at + 1] = new
    return mistake


def pin_of(name: str) -> str:
    return name + _table(read()[1]["project"]["dependencies"])[name]


MISTAKES = {
    "another version": (swap(pin_of("numpy"), "numpy==1.0"), "numpy==1.0, but"),
    "a range for a pin": (swap(pin_of("nbgrader"), "nbgrader>=0.9"), "nbgrader>=0.9, but"),
    "a runtime dependency left out": (swap(pin_of("psutil")), "psutil is missing"),
    "pytest left out": (lambda e: e["dependencies"].remove(
        next(d for d in e["dependencies"] if str(d).startswith("pytest"))), "pytest is missing"),
    "setuptools left out": (swap("setuptools>=77"), "setuptools is missing"),
    "an unknown package": (swap("pip", "pip", "pandas==2.0"), "pandas is not in"),
    "torch from conda": (swap("pip", "pip", "pytorch-cpu==2.13.0"), "pytorch-cpu comes from conda"),
    "another torch": (swap(pin_of("torch"), "torch==1.0"), "the pip section is"),
    "torch without the CPU index": (swap(CPU_INDEX), "the pip section is"),
    "more than torch from pip": (swap(CPU_INDEX, CPU_INDEX, "einops==0.8"), "the pip section is"),
    "the course from pip": (swap(CPU_INDEX, CPU_INDEX, "-e ."), "-e . is local"),
    "a folder from pip": (swap(CPU_INDEX, CPU_INDEX, "./helpers"), "./helpers is local"),
    "a file from pip": (swap(CPU_INDEX, CPU_INDEX, "x @ file:///x.whl"), "file:///x.whl is local"),
    "conda's own channel": (lambda e: e["channels"].append("defaults"), "channels are"),
    "defaults let in": (lambda e: e["channels"].remove("nodefaults"), "channels are"),
    "an old python": (swap("python=3.11", "python=3.10"), "requires-python is"),
    "a python that Binder cannot read": (swap("python=3.11", "python>=3.11"), "Binder reads only"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_named(mistake):
    environment, pyproject = read()
    break_it, says = MISTAKES[mistake]
    broken = copy.deepcopy(environment)
    break_it(broken)
    assert [w for w in disagreements(broken, pyproject) if says in w], disagreements(broken, pyproject)


def test_a_new_version_in_pyproject_alone_is_noticed():
    environment, pyproject = read()
    dependencies = pyproject["project"]["dependencies"]
    dependencies[:] = [re.sub("==.*", "==99.0", line) for line in dependencies]
    wrong = disagreements(environment, pyproject)
    assert all(any(line.split("==")[0] in w for w in wrong) for line in dependencies)


@pytest.mark.parametrize("script", ["postBuild", ".ci/run"])
def test_a_script_can_run_and_stops_at_the_first_failure(script):
    lines = (ROOT / script).read_text().splitlines()
    assert lines[0] == "#!/bin/bash"
    assert next(line for line in lines[1:] if line and not line.startswith("#")) == "set -euo pipefail"
    assert os.access(ROOT / script, os.X_OK)


def test_nothing_makes_binder_look_elsewhere():
    """repo2docker ignores the root's files when there is a binder folder."""
    assert [name for name in ("binder", ".binder", "Dockerfile", "environment.yaml") if (ROOT / name).exists()] == []
