"""One launch for many calls of a rank program: starting ranks costs more than most of what they are asked to do.

    by = in_turn(program, 2, [(8, True), (4, False)])       # program(rank, world_size, 8, True), then (..., 4, False)
    by[8, True]                                             # what each rank returned
"""
import gc
from collections.abc import Callable, Hashable, Iterable, Iterator

from helpers.run.launch import launch, preload


def in_turn(program: Callable, world_size: int, calls: Iterable[tuple[Hashable, ...]], timeout_s: float = 120.0,
            ) -> dict[tuple, list]:
    """By call, what `program` returned on each rank."""
    calls = list(calls)
    results = launch(_each, world_size, program, calls, timeout_s=timeout_s).results
    return {call: [by_rank[number] for by_rank in results] for number, call in enumerate(calls)}


def _each(rank: int, world_size: int, program: Callable, calls: list[tuple]) -> Iterator[object]:
    for call in calls:
        try:
            yield program(rank, world_size, *call)
        except Exception as error:
            error.add_note(f"called with {call}")
            raise
        gc.collect()                        # what measures memory begins as in a process of its own


preload(__name__)
