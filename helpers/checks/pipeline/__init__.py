"""Checks of exercise set 09: the order of 1F1B, the fullest moment, balanced stages, a mended order."""
from helpers.checks.pipeline import balancing, mended_order, peaks, rank_order
from helpers.run.launch import preload

__all__ = ["balancing", "mended_order", "peaks", "rank_order"]

preload(__name__)
