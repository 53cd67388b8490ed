"""Tests mirror helpers/; the folder says what a test needs."""
from pathlib import Path

import pytest

MARKS = {"run": "ranks", "checks": "ranks", "grade": "grading", "browser": "browser"}


def pytest_collection_modifyitems(items):
    for item in items:
        folder = Path(item.fspath).parent.name
        if folder in MARKS:
            item.add_marker(getattr(pytest.mark, MARKS[folder]))
