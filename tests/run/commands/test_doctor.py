"""The environment check finds what is wrong and says how to mend it."""
import pytest

from helpers.run.commands import doctor
from helpers.run.launch import RankFailed


def mending(monkeypatch, name: str, value) -> str:
    monkeypatch.setattr(doctor, name, value)
    return repr(doctor.check_environment())


def test_all_is_well_here():
    assert doctor.check_environment().healthy
    assert repr(doctor.check_environment()).endswith("All is well.")


def test_the_command_says_the_same(in_a_row):
    run = in_a_row["doctor"]
    assert (run.status, run.out.strip(), run.err) == (0, repr(doctor.check_environment()), "")


def test_too_little_memory_is_found(monkeypatch):
    assert "MEND  10000000.0 GB of memory are free\n      Only" in mending(monkeypatch, "NEEDED_MEMORY", 1e16)


def test_a_full_disk_is_found(monkeypatch):
    assert "or set TMPDIR to another folder" in mending(monkeypatch, "NEEDED_DISK", 1e18)


def test_another_torch_is_found(monkeypatch):
    assert "tested was 1.0" in mending(monkeypatch, "_requirements", lambda: ["torch==1.0"])


def test_an_old_python_is_found(monkeypatch):
    monkeypatch.setattr(doctor.sys, "version_info", (3, 9))
    assert "make PYTHON=python3.11 lab" in str(doctor._python())


def test_helpers_on_the_path_but_not_installed_is_found(monkeypatch):
    def missing(name):
        raise doctor.importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(doctor.importlib.metadata, "version", missing)
    assert "pip install --no-deps -e ." in str(doctor._helpers())


@pytest.mark.parametrize("error", [RankFailed("rank 0 of 2 was killed"), OSError("Windows cannot fork")])
def test_ranks_that_do_not_start_are_told_with_the_reason(monkeypatch, error):
    def fails(*args, **kwargs):
        raise error

    report = mending(monkeypatch, "launch", fails)
    assert f"MEND  two ranks can be started and can talk\n      {error}" in report
    assert report.endswith("restart the kernel, and run this again.")
