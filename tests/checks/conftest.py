"""Start the server of processes first, so that no deadline counts its start; leave most answers to `make soak`.

An answer on real ranks costs a tenth of a second to half of one, and there are hundreds.  `make test` tries a few for
each exercise, taken evenly from its list; `make soak` tries all the others.
"""
from collections import defaultdict

import pytest

from helpers.checks.judge import other_process
from helpers.run.launch import warm_up


@pytest.fixture(scope="session", autouse=True)
def _warm():
    warm_up()
    other_process.answers(int, [{}])


@pytest.fixture
def impatient(monkeypatch):
    """A short deadline, for functions that never end."""
    monkeypatch.setattr(other_process, "DEADLINE_S", 0.3)


ON_RANKS = ("ddp", "data_sharding", "fsdp", "zero", "test_building", "test_measured")
MOST = {"test_a_right": 3, "test_a_wrong": 6, "test_an_odd": 3, "test_other_numbers": 3, "test_right_numbers": 1}


def pytest_collection_modifyitems(items):
    groups = defaultdict(list)
    for item in items:
        kind = next((kind for kind in MOST if item.name.startswith(kind)), None)
        if kind and hasattr(item, "callspec") and any(part in item.nodeid for part in ON_RANKS):
            groups[item.path, item.originalname, item.callspec.params.get("name"), MOST[kind]].append(item)
    for (*_, most), group in groups.items():
        tried = {group[round(place * (len(group) - 1) / max(most - 1, 1))].nodeid for place in range(most)}
        for item in group:
            if item.nodeid not in tried:
                item.add_marker(pytest.mark.soak)
