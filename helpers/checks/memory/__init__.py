"""Checks of exercise set 01: bytes of model state, by hand, by function, and measured."""
from helpers.checks.memory import functions, measured, values
from helpers.run.launch import preload

__all__ = ["functions", "measured", "values"]

preload(__name__)
