"""Checks of exercise set 02: collectives built from send and receive, and which to choose."""
from helpers.checks.collectives import building, choosing

__all__ = ["building", "choosing"]
