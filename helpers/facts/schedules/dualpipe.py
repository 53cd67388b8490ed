"""DualPipe and DualPipeV: a forward overlaps a backward, so messages hide behind computing.

    DualPipe     p stages on p ranks, each stage twice: microbatches enter at both ends
    DualPipeV    the same folded in the middle: p stages on p / 2 ranks, each stage once

Both have one rhythm.  A rank's chunk 0 is that through which it sees microbatches early, chunk 1 the late one.

Source: DeepSeek-AI 2024, arXiv:2412.19437, section 3.2.1 and figure 5; README of deepseek-ai/DualPipe (PP stands there
for stages).  DualPipeV: Sea AI Lab's "cut-in-half".
"""
from __future__ import annotations

from helpers.facts.errors import BadValue
from helpers.facts.schedules.rhythm import Beat, check_counts, steps_of_rhythm
from helpers.facts.schedules.schedule import Schedule

F0, B0, I0, F1, B1, I1, W = ("F", 0), ("B", 0), ("I", 0), ("F", 1), ("B", 1), ("I", 1), ("W",)


def dualpipe(num_ranks: int, num_microbatches: int) -> Schedule:
    """Rank r holds stages r and num_ranks - 1 - r; the second half of the microbatches enters at the last rank.

    Raises `BadValue` unless both numbers are even and there are at least twice as many microbatches as ranks.
    Source: arXiv:2412.19437, figure 5; README of deepseek-ai/DualPipe.
    """
    check_dualpipe(num_ranks, num_microbatches)
    half, steps = num_microbatches // 2, []
    for rank in range(num_ranks):
        near = min(rank, num_ranks - 1 - rank)                  # steps from the end at which chunk 0 enters
        ways = [range(half), range(half, 2 * half)]             # down from rank 0, up from the last rank
        stages = [near, num_ranks - 1 - near]
        steps.append(steps_of_rhythm(_rhythm(near, num_ranks // 2, half), stages, ways if rank == near else ways[::-1]))
    return Schedule("DualPipe", tuple(steps), num_ranks, num_microbatches)


def dualpipe_v(num_ranks: int, num_microbatches: int) -> Schedule:
    """Rank r holds stages r and 2 num_ranks - 1 - r: DualPipe, folded in the middle.

    Raises `BadValue` unless there are at least twice as many microbatches as ranks.  Source: as of `dualpipe`.
    """
    check_dualpipe_v(num_ranks, num_microbatches)
    steps = tuple(steps_of_rhythm(_rhythm(rank, num_ranks, num_microbatches), [rank, 2 * num_ranks - 1 - rank],
                       [range(num_microbatches)] * 2) for rank in range(num_ranks))
    return Schedule("DualPipeV", steps, 2 * num_ranks, num_microbatches)


def check_dualpipe(num_ranks: int, num_microbatches: int) -> None:
    """Raises `BadValue` for sizes that DualPipe does not take."""
    check_counts(num_ranks, num_microbatches)
    if num_ranks % 2 or num_microbatches % 2 or num_microbatches < 2 * num_ranks:
        raise BadValue(f"DualPipe takes an even number of ranks and an even number of microbatches, at least twice as "
                       f"many as ranks; not {num_ranks} and {num_microbatches}")


def check_dualpipe_v(num_ranks: int, num_microbatches: int) -> None:
    """Raises `BadValue` for sizes that DualPipeV does not take."""
    check_counts(num_ranks, num_microbatches)
    if num_microbatches < 2 * num_ranks:
        raise BadValue(f"DualPipeV takes at least twice as many microbatches as ranks, not {num_microbatches} for "
                       f"{num_ranks}")


def _rhythm(rank: int, n: int, num_microbatches: int) -> list[Beat]:
    """The eight phases of the README for rank `rank` of the n from an end to the middle."""
    rest = n - 1 - rank
    main = [(F0, B1), (F1, B0)] * (num_microbatches - 2 * n + rank + 1)
    if rank == n - 1:
        main[:1] = [F0, B1]                                     # the middle rank has nothing to hide there yet
    drain = [B1, B0] * (rank + 1)
    split = [{B0: I0, B1: I1}[beat] for beat in drain[rank + 1:]]
    return ([F0] * (2 * rest) + [F0, F1] * (rank + 1) + [I1, W, F1] * rest
            + main + [B1, (F1, B0)] * rest
            + drain[:rank + 1] + split + [W, I0] * rest + [W] * (rank + 1))
