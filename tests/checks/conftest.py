"""Start the server of processes first, so that no deadline counts its start."""
import pytest

from helpers.checks.judge import other_process
from helpers.run.launch import warm_up


@pytest.fixture(scope="session", autouse=True)
def _warm():
    warm_up()
    other_process.answers(int, [{}])


@pytest.fixture
def impatient(monkeypatch):
    """A deadline of a second, for functions that never end."""
    monkeypatch.setattr(other_process, "DEADLINE_S", 1.0)
