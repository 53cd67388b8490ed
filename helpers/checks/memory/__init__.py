"""Checks of exercise set 01: bytes of model state, by hand, by function, and measured.

    functions    functions that a learner has written
                 check_bytes_per_rank, check_bytes_per_rank_unseen, check_most_layers, check_most_layers_unseen
    measured     a rank program that measures its own memory
                 check_measured, check_measured_unseen
    values       values that a learner has worked out
                 check_table, check_smallest, check_mistake
"""
from helpers.checks.memory import functions, measured, values
from helpers.run.launch import preload

__all__ = ["functions", "measured", "values"]

preload(__name__)
