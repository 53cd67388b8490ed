"""Errors whose message is the whole explanation.

A learner who gets one wants the message, not the lines of the course's own
code that led to it, so IPython is told to show nothing else.
"""
from __future__ import annotations


class CourseError(Exception):
    """Base of the errors that explain themselves; a notebook shows their message without a traceback."""

    def _render_traceback_(self) -> list[str]:       # IPython's hook for custom tracebacks
        return f"{type(self).__name__}: {self}".splitlines()


class BadValue(CourseError, ValueError):
    """An argument that cannot be meant; the message says what to give instead.  It is a `ValueError`."""
