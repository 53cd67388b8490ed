"""Note every call of torch.distributed that a rank makes.

`install` replaces the functions of torch.distributed, in this process only,
by ones that leave a span and say where the rank is.  Rank programs stay plain
torch.distributed code.  Collectives inside C++ (those of DDP's backward) and
functional collectives (those of DTensor) are not seen.

Where the rank is stands in a small file, see place.py.
"""
from __future__ import annotations

import functools
import os
import threading
import time
from dataclasses import replace
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from helpers.facts.trace import Span, Trace
from helpers.run.measure.place import DONE, STARTED, WAITING, Place, write_place

POINT_TO_POINT = ("send", "recv", "isend", "irecv", "batch_isend_irecv")
COLLECTIVES = (
    "broadcast", "reduce", "all_reduce", "gather", "scatter", "barrier", "monitored_barrier",
    "reduce_scatter", "reduce_scatter_tensor", "reduce_scatter_single",
    "all_gather", "all_gather_into_tensor", "all_gather_single", "all_to_all", "all_to_all_single",
    "all_gather_object", "gather_object", "broadcast_object_list", "scatter_object_list",
)

_spans: Trace = []
_counts = {True: 0, False: 0}                   # of point-to-point calls, and of collectives
_handed_over = {"sent": 0, "received": 0}       # bytes given to calls, for systems whose kernel does not count


def install(rank: int, path: Path) -> None:
    """Record this process's calls from now on; `path` is the file that says where it is."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT)
    inside = threading.local()

    def record(name: str, point_to_point: bool):
        original = getattr(c10d, name)

        @functools.wraps(original)
        def recorded(*args, **kwargs):
            if getattr(inside, "call", False):      # all_gather_object calls all_gather: one call of the learner
                return original(*args, **kwargs)
            _counts[point_to_point] += 1
            inside.call, start, label = True, time.perf_counter(), f"{name} {_counts[point_to_point]}"
            place = Place(name, WAITING, _counts[point_to_point], _counts[False], point_to_point,
                          _is_of_a_group(args, kwargs))
            write_place(file, place)
            try:
                result = original(*args, **kwargs)
                write_place(file, replace(place, state=STARTED if isinstance(result, dist.Work) else DONE))
                return result
            finally:
                inside.call = False
                _note(Span(rank, name, start, time.perf_counter(), label, _size(args, kwargs)), args)

        setattr(c10d, name, recorded)
        setattr(dist, name, recorded)

    for name in (*POINT_TO_POINT, *COLLECTIVES):
        record(name, name in POINT_TO_POINT)


def count_anew() -> None:
    """Number calls from 1 again: what comes next is a piece of work of its own."""
    _counts.update({True: 0, False: 0})


def spans() -> Trace:
    """All calls so far, as a trace of this rank."""
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


def _is_of_a_group(args: tuple, kwargs: dict) -> bool:
    groups = [a for a in (*args, kwargs.get("group")) if isinstance(a, dist.ProcessGroup)]
    return bool(groups) and groups[0] is not dist.group.WORLD


def _size(args: tuple, kwargs: dict) -> int:
    tensors = [a for a in (*args, *kwargs.values()) if isinstance(a, torch.Tensor)]
    return _bytes(tensors[0]) if tensors else 0


def _bytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()
