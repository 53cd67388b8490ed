"""Checks of exercise set 03: buckets, accumulation, learning rates, a step's bytes, and where ranks diverge."""
from helpers.checks.ddp import accumulation, buckets, rates

__all__ = ["accumulation", "buckets", "rates"]
