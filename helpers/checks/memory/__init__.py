"""Checks of exercise set 01: bytes of model state, by hand, by function, and measured."""
from helpers.checks.memory import functions, measured, values

__all__ = ["functions", "measured", "values"]
