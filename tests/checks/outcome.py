"""What a check makes of an answer: points and words."""
import contextlib
import io

import pytest

from helpers.checks.judge.verdict import CheckFailed


def outcome(check, *answer) -> tuple[float, str]:
    """Points and words; a `CheckFailed` is 0 points, any other exception is an error of the check."""
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            points = check(*answer)
    except CheckFailed as failure:
        return 0.0, str(failure)
    assert type(points) is float
    return points, printed.getvalue()


def named(cases: dict) -> list:
    """Parameters of a test, each with the name of the answer as its id."""
    return [pytest.param(*case, id=name) for name, case in cases.items()]
