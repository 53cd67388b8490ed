"""Note every call of torch.distributed that a rank makes.

`install` replaces the functions of torch.distributed, in this process only,
by ones that leave a span and say where the rank is.  Rank programs stay plain
torch.distributed code.  Collectives inside C++ (those of DDP's backward) are
not seen.

Where the rank is stands in a small file that the launcher reads when the rank
can no longer answer:  `waits in all_reduce (collective 3)` or, once that call
is over, `is past all_reduce (collective 3)`.  Collectives are numbered from 1 on
each rank, point-to-point calls likewise.
"""
from __future__ import annotations

import functools
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from helpers.facts.trace import Span, Trace

POINT_TO_POINT = ("send", "recv", "isend", "irecv", "batch_isend_irecv")
COLLECTIVES = (
    "broadcast", "reduce", "all_reduce", "gather", "scatter", "barrier", "monitored_barrier",
    "reduce_scatter", "reduce_scatter_tensor", "reduce_scatter_single",
    "all_gather", "all_gather_into_tensor", "all_gather_single", "all_to_all", "all_to_all_single",
    "all_gather_object", "gather_object", "broadcast_object_list", "scatter_object_list",
)
PLACE_BYTES = 96

_spans: Trace = []
_handed_over = 0                # bytes given to communication calls, for systems whose kernel does not count


def install(rank: int, place: Path) -> None:
    """Record this process's calls from now on; `place` is the file that says where it is."""
    file = os.open(place, os.O_WRONLY | os.O_CREAT)
    counts = {"collective": 0, "point-to-point call": 0}
    inside = [False]

    def record(name: str, family: str):
        original = getattr(c10d, name)

        @functools.wraps(original)
        def recorded(*args, **kwargs):
            if inside[0]:                           # all_gather_object calls all_gather: one call of the learner
                return original(*args, **kwargs)
            counts[family] += 1
            inside[0], start, number = True, time.perf_counter(), counts[family]
            _say(file, f"waits in {name} ({family} {number})")
            try:
                result = original(*args, **kwargs)
                _say(file, f"is past {name} ({family} {number})")
                return result
            finally:
                inside[0] = False
                _note(Span(rank, name, start, time.perf_counter(), f"{name} {number}", _size(args, kwargs)))

        setattr(c10d, name, recorded)
        setattr(dist, name, recorded)

    for name in POINT_TO_POINT:
        record(name, "point-to-point call")
    for name in COLLECTIVES:
        record(name, "collective")


def spans() -> Trace:
    return list(_spans)


def bytes_handed_over() -> int:
    return _handed_over


def _note(span: Span) -> None:
    global _handed_over
    _spans.append(span)
    _handed_over += span.nbytes


def _say(file: int, where: str) -> None:
    os.pwrite(file, where.encode().ljust(PLACE_BYTES), 0)


def _size(args: tuple, kwargs: dict) -> int:
    tensors = [a for a in (*args, *kwargs.values()) if isinstance(a, torch.Tensor)]
    return tensors[0].numel() * tensors[0].element_size() if tensors else 0
