"""Note every call of torch.distributed that a rank makes.

`install` replaces the functions of torch.distributed, in this process only,
by ones that leave a span and say where the rank is.  Rank programs stay plain
torch.distributed code.  Collectives inside C++ (those of DDP's backward) and
functional collectives (those of DTensor) are not seen.

Where the rank is stands in a small file that the launcher reads when the rank
can no longer answer: `waits in recv (point-to-point call 1; 3 collectives so far)`
or, once that call is over, `is past recv (...)`.  Collectives are numbered from 1
on each rank, point-to-point calls likewise.
"""
from __future__ import annotations

import functools
import os
import threading
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
PLACE_BYTES = 128
OF_A_GROUP = ", of a group"

_spans: Trace = []
_handed_over = {"sent": 0, "received": 0}       # bytes given to calls, for systems whose kernel does not count


def install(rank: int, place: Path) -> None:
    """Record this process's calls from now on; `place` is the file that says where it is."""
    file = os.open(place, os.O_WRONLY | os.O_CREAT)
    counts = {"collective": 0, "point-to-point call": 0}
    inside = threading.local()

    def record(name: str, family: str):
        original = getattr(c10d, name)

        @functools.wraps(original)
        def recorded(*args, **kwargs):
            if getattr(inside, "call", False):      # all_gather_object calls all_gather: one call of the learner
                return original(*args, **kwargs)
            counts[family] += 1
            inside.call, start, label = True, time.perf_counter(), f"{name} {counts[family]}"
            where = f"{name} ({_numbers(family, counts)}{_group(args, kwargs)})"
            _say(file, f"waits in {where}")
            try:
                result = original(*args, **kwargs)
                _say(file, f"{'has started' if isinstance(result, dist.Work) else 'is past'} {where}")
                return result
            finally:
                inside.call = False
                _note(Span(rank, name, start, time.perf_counter(), label, _size(args, kwargs)), args)

        setattr(c10d, name, recorded)
        setattr(dist, name, recorded)

    for name in POINT_TO_POINT:
        record(name, "point-to-point call")
    for name in COLLECTIVES:
        record(name, "collective")


def spans() -> Trace:
    return list(_spans)


def bytes_handed_over() -> tuple[int, int]:
    """Sizes of all tensors given to calls that send, and to calls that receive."""
    return _handed_over["sent"], _handed_over["received"]


def _note(span: Span, args: tuple) -> None:
    _spans.append(span)
    operations = [(span.kind, span.nbytes)]
    if span.kind == "batch_isend_irecv":
        operations = [(p2p.op.__name__, _bytes(p2p.tensor)) for p2p in args[0]]
    for kind, nbytes in operations:
        for way, others in (("sent", ("recv", "irecv")), ("received", ("send", "isend"))):
            _handed_over[way] += 0 if kind in others else nbytes


def _numbers(family: str, counts: dict[str, int]) -> str:
    """`collective 3`, and in a point-to-point call also how many collectives there were."""
    collectives = counts["collective"]
    so_far = f"; {collectives} collectives so far" if family != "collective" and collectives else ""
    return f"{family} {counts[family]}{so_far}"


def _group(args: tuple, kwargs: dict) -> str:
    groups = [a for a in (*args, kwargs.get("group")) if isinstance(a, dist.ProcessGroup)]
    return OF_A_GROUP if groups and groups[0] is not dist.group.WORLD else ""


def _say(file: int, where: str) -> None:
    os.pwrite(file, where.encode().ljust(PLACE_BYTES), 0)


def _size(args: tuple, kwargs: dict) -> int:
    tensors = [a for a in (*args, *kwargs.values()) if isinstance(a, torch.Tensor)]
    return _bytes(tensors[0]) if tensors else 0


def _bytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()
