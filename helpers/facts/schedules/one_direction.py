"""GPipe and 1F1B: one stage on each rank, microbatches in one direction.

    GPipe  | F0 F1 F2 F3 B0 B1 B2 B3        all forwards, then all backwards: holds every microbatch
    1F1B   | F0 F1 B0 F2 B1 F3 B2 B3        no more forwards ahead than keep the last rank busy: holds few

Sources: Huang et al. 2019, arXiv:1811.06965, figure 2c; Narayanan et al. 2021, arXiv:2104.04473, figure 4.
"""
from __future__ import annotations

from helpers.facts.schedules.rhythm import check_counts, steps_of_rhythm
from helpers.facts.schedules.schedule import Schedule

F, B = ("F", 0), ("B", 0)


def gpipe(num_ranks: int, num_microbatches: int) -> Schedule:
    """All forwards, then all backwards in the same order, as in PyTorch; every rank holds all microbatches at once.

    Raises `BadValue` unless both are whole numbers of at least 1.  Source: arXiv:1811.06965, figure 2c.
    """
    check_counts(num_ranks, num_microbatches)
    m = num_microbatches
    steps = tuple(steps_of_rhythm([F] * m + [B] * m, [rank], [range(m)]) for rank in range(num_ranks))
    return Schedule("GPipe", steps, num_ranks, m)


def one_f_one_b(num_ranks: int, num_microbatches: int) -> Schedule:
    """Warm up, then alternate one forward with one backward, then drain.

    Rank r holds at most num_ranks - r microbatches at once, however many there are.
    Raises `BadValue` unless both are whole numbers of at least 1.  Source: arXiv:2104.04473, figure 4.
    """
    check_counts(num_ranks, num_microbatches)
    m = num_microbatches
    steps = []
    for rank in range(num_ranks):
        warmup = min(num_ranks - 1 - rank, m)
        steps.append(steps_of_rhythm([F] * warmup + [F, B] * (m - warmup) + [B] * warmup, [rank], [range(m)]))
    return Schedule("1F1B", tuple(steps), num_ranks, m)
