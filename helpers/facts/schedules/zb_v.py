"""ZB-V: two chunks on each rank, placed like a V, so that the rank that starts a microbatch also ends it.

    rank 0 of 4 holds stages 0 and 7, rank 3 holds 3 and 4

The memory of 1F1B, the same on all ranks, and no bubble in a rank's own span if F = I = W.

Source: Qi, Wan, Huang, Lin 2023, arXiv:2401.10241, section 6 and figure 7.
"""
from __future__ import annotations

from helpers.facts.schedules.rhythm import Beat, check_counts, steps_of_rhythm
from helpers.facts.schedules.schedule import Schedule

F0, I0, W0, F1, I1, W1 = ((kind, chunk) for chunk in (0, 1) for kind in "FIW")


def zb_v(num_ranks: int, num_microbatches: int) -> Schedule:
    """ZB-V: rank r holds stages r and 2 num_ranks - 1 - r.

    Raises `BadValue` unless both are whole numbers of at least 1.  Source: arXiv:2401.10241, section 6, figure 7.
    """
    check_counts(num_ranks, num_microbatches)
    steps = tuple(steps_of_rhythm(_rhythm(rank, num_ranks, num_microbatches), [rank, 2 * num_ranks - 1 - rank],
                       [range(num_microbatches)] * 2) for rank in range(num_ranks))
    return Schedule("ZB-V", steps, 2 * num_ranks, num_microbatches)


def _rhythm(rank: int, p: int, num_microbatches: int) -> list[Beat]:
    """Fill; turn round; steady state; drain; what is left of W."""
    steady = max(num_microbatches, 2 * p - 1) - p
    return ([F0] * (2 * (p - rank) - 1) + [F1, F0] * rank + [F1, I1, W1] * (p - rank)
            + [F0, I0, W0, F1, I1, W1] * steady
            + [I0, I1] * rank + [I0, W0] * (p - rank)
            + [W1] * rank + [W0] * rank)
