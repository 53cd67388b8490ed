"""The frames of a ring all-reduce: what every rank holds before each step, and what is on its way.

Rank r starts with 10**r in every chunk, so digit r of what a chunk holds says
whether rank r has been added.  The frames are those of the course's own ring, played on the virtual clock.
"""
from __future__ import annotations

from dataclasses import dataclass

import numpy

from helpers.facts.errors import BadValue
from helpers.run.collectives import VirtualMesh, play, ring_all_reduce

MOST_RANKS = 6                  # boxes that stay readable


@dataclass(frozen=True)
class RingFrame:
    """One moment: `held[rank][chunk]` is a sum of 10**r, `moving[rank]` the chunk that it is about to send."""

    step: int                   # number of the step that comes next, from 1; after the last one there is none
    num_steps: int
    held: tuple[tuple[int, ...], ...]
    moving: tuple[int, ...]     # empty in the last frame

    @property
    def reduces(self) -> bool:
        """Whether the step that comes next is one of the reduce-scatter."""
        return self.step <= self.num_steps // 2


def ring_frames(world_size: int = 4) -> list[RingFrame]:
    """2 (N-1) + 1 frames."""
    if type(world_size) is not int or not 2 <= world_size <= MOST_RANKS:
        raise BadValue(f"world_size is a whole number from 2 to {MOST_RANKS}, not {world_size!r}")
    seen = play(_watched, world_size).results           # by rank: what it held before each step, and what it sent
    num_steps = 2 * (world_size - 1)
    frames = []
    for number in range(num_steps + 1):
        held = tuple(rank[number][0] for rank in seen)
        moving = tuple(rank[number][1] for rank in seen) if number < num_steps else ()
        frames.append(RingFrame(number + 1, num_steps, held, moving))
    return frames


def _watched(mesh: VirtualMesh) -> list[tuple[tuple[int, ...], int | None]]:
    """What this rank held before each exchange and which chunk it sent; at last what it holds in the end."""
    tensor, seen, exchange = numpy.full(mesh.world_size, 10**mesh.rank), [], mesh.exchange

    def watched(outgoing: numpy.ndarray, *others) -> None:
        chunk = (outgoing.__array_interface__["data"][0] - tensor.__array_interface__["data"][0]) // tensor.itemsize
        seen.append((tuple(tensor.tolist()), chunk))
        exchange(outgoing, *others)

    mesh.exchange = watched
    ring_all_reduce(mesh, tensor)
    return [*seen, (tuple(tensor.tolist()), None)]


def parts_in(held: int, world_size: int) -> list[int]:
    """The ranks that a sum of 10**r has in it."""
    return [rank for rank in range(world_size) if held // 10**rank % 10]
