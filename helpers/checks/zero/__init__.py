"""Checks of exercise set 05: a sharded Adam, gradient shards, and a step in numbers."""
from helpers.checks.zero import gradient_shards, sharded_adam, step_numbers
from helpers.run.launch import preload

__all__ = ["gradient_shards", "sharded_adam", "step_numbers"]

preload(__name__)
