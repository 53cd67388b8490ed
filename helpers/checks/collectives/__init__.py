"""Checks of exercise set 02: collectives built from send and receive, and which to choose."""
from helpers.checks.collectives import building, choosing
from helpers.run.launch import preload

__all__ = ["building", "choosing"]

preload(__name__)
