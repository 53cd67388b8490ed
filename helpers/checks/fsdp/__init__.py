"""Checks of exercise set 06: a layer at a time, units, clipping, and a step in numbers."""
from helpers.checks.fsdp import clipping, layer_at_a_time, step_numbers, wrapping
from helpers.run.launch import preload

__all__ = ["clipping", "layer_at_a_time", "step_numbers", "wrapping"]

preload(__name__)
