"""Interleaved 1F1B: each rank holds several chunks of the model, so filling and draining take less time.

    rank 0 of 2, 2 chunks    0F0 0F1 2F0 2F1 2B0 ...        stages 0 and 2; rank 1 has stages 1 and 3

Stage s is on rank s mod num_ranks.  Microbatches go through in groups of num_ranks: a group passes the first chunk of
all ranks, then the second.  Where microbatches are not a multiple of ranks, groups differ by one (Megatron asks for a
multiple, Llama 3's schedule does not).

Sources: Narayanan et al. 2021, arXiv:2104.04473, section 2.2 and figure 4; Llama 3, arXiv:2407.21783, section 3.3.2.
"""
from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from helpers.facts.schedules.rhythm import check_counts
from helpers.facts.schedules.schedule import Action, Schedule


def interleaved(num_ranks: int, num_microbatches: int, num_chunks: int = 2) -> Schedule:
    """Interleaved 1F1B with `num_chunks` stages on each rank: rank r holds stages r, r + num_ranks, ...

    Raises `BadValue` unless all three are whole numbers of at least 1.
    Source: arXiv:2104.04473, section 2.2; arXiv:2407.21783, section 3.3.2.
    """
    check_counts(num_ranks, num_microbatches, num_chunks=num_chunks)
    groups = _groups(num_ranks, num_microbatches)
    steps = tuple(_order(rank, num_ranks, num_chunks, groups) for rank in range(num_ranks))
    return Schedule("interleaved 1F1B", steps, num_ranks * num_chunks, num_microbatches)


def _groups(num_ranks: int, num_microbatches: int) -> list[range]:
    """Microbatches in as many groups as have at least num_ranks each, the larger ones first."""
    num_groups = max(1, num_microbatches // num_ranks)
    size, larger = divmod(num_microbatches, num_groups)
    starts = [i * size + min(i, larger) for i in range(num_groups + 1)]
    return [range(start, end) for start, end in pairwise(starts)]


def _order(rank: int, num_ranks: int, num_chunks: int, groups: list[range]) -> tuple[Action, ...]:
    forwards = list(_through_chunks("F", rank, num_ranks, range(num_chunks), groups))
    backwards = list(_through_chunks("B", rank, num_ranks, range(num_chunks)[::-1], groups))
    warmup = min((num_chunks - 1) * len(groups[0]) + 2 * (num_ranks - 1 - rank), len(forwards))
    order = forwards[:warmup]
    for forward, backward in zip(forwards[warmup:], backwards, strict=False):
        order += [forward, backward]
    return (*order, *backwards[len(forwards) - warmup:])


def _through_chunks(kind: str, rank: int, num_ranks: int, chunks: range, groups: list[range]) -> Iterator[Action]:
    for group in groups:
        for chunk in chunks:
            for microbatch in group:
                yield Action(kind, chunk * num_ranks + rank, microbatch)
