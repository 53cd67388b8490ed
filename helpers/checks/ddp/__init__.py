"""Checks of exercise set 03: buckets, accumulation, learning rates, a step in numbers, and where ranks diverge."""
from helpers.checks.ddp import accumulation, buckets, divergence, rates, step_numbers
from helpers.run.launch import preload

__all__ = ["accumulation", "buckets", "divergence", "rates", "step_numbers"]

preload(__name__)
