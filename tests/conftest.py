"""Tests mirror helpers/; the folder says what a test needs."""
from pathlib import Path

import hypothesis
import pytest

hypothesis.settings.register_profile("course", derandomize=True, deadline=None, database=None)
hypothesis.settings.load_profile("course")
TESTS = Path(__file__).parent
MARKS = {"run": "ranks", "checks": "ranks", "grade": "grading", "browser": "browser"}


def pytest_collection_modifyitems(items):
    for item in items:
        folder = Path(item.fspath).relative_to(TESTS).parts[0]
        if folder in MARKS:
            item.add_marker(getattr(pytest.mark, MARKS[folder]))
