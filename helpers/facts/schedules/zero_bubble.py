"""ZB-H1 and ZB-H2: backward in two halves, I and W; nobody waits for a W, so W fills bubbles.

    ZB-H1, rank 0 of 3    F F F I W F I W F I W ...     memory of 1F1B, a third of its bubble if F = I = W
    ZB-H2, rank 0 of 3    F F F F F I W F I W ...       nearly twice the memory, no bubble in its own span

Source: Qi, Wan, Huang, Lin 2023, arXiv:2401.10241, section 2.3 and figure 3.
"""
from __future__ import annotations

from helpers.facts.schedules.rhythm import check_counts, steps_of_rhythm
from helpers.facts.schedules.schedule import Schedule, Step

F, I, W = ("F", 0), ("I", 0), ("W",)            # noqa: E741  the field's letter


def zb_h1(num_ranks: int, num_microbatches: int) -> Schedule:
    """ZB-H1: as many forwards before the first backward as 1F1B has; rank r lets r of its W wait for the end.

    Raises `BadValue` unless both are whole numbers of at least 1.  Source: arXiv:2401.10241, section 2.3, figure 3.
    """
    check_counts(num_ranks, num_microbatches)
    steps = tuple(_order(rank, num_ranks - rank, rank, num_microbatches) for rank in range(num_ranks))
    return Schedule("ZB-H1", steps, num_ranks, num_microbatches)


def zb_h2(num_ranks: int, num_microbatches: int) -> Schedule:
    """ZB-H2: as many forwards before the first backward as fill the pipeline; rank r lets 2r of its W wait for the end.

    Raises `BadValue` unless both are whole numbers of at least 1.  Source: arXiv:2401.10241, section 2.3, figure 3.
    """
    check_counts(num_ranks, num_microbatches)
    steps = tuple(_order(rank, 2 * (num_ranks - rank) - 1, 2 * rank, num_microbatches) for rank in range(num_ranks))
    return Schedule("ZB-H2", steps, num_ranks, num_microbatches)


def _order(rank: int, num_forwards: int, num_waiting: int, m: int) -> tuple[Step, ...]:
    """`num_forwards` come before the first I; `num_waiting` W are owed before the first is done."""
    rhythm = [F] * min(num_forwards - 1, m)
    for backward in range(m):
        rhythm += [F, I] + [W] * (backward >= num_waiting)
    return steps_of_rhythm(rhythm + [W] * min(num_waiting, m), [rank], [range(m)])
