"""Checks of exercise set 03: gradients in buckets, on real ranks.

Inputs explain themselves: gradient k of rank r is (k+1) 10**r, so the digits of a wrong mean say whose part is missing.
"""
from __future__ import annotations

from dataclasses import dataclass

import torch

from helpers.checks.elsewhere import Raised
from helpers.checks.ranks import on_ranks
from helpers.checks.verdict import Verdict, first_wrong, score, shown, unseen
from helpers.facts.buckets import buckets
from helpers.run.launch import Run

RELATIVE = 1e-5


@dataclass(frozen=True)
class Gradients:
    """Shapes of the gradients of a model, and the limit of a bucket."""

    shapes: tuple[tuple[int, ...], ...]
    bucket_bytes: int
    dtype: torch.dtype = torch.float32

    @property
    def sizes(self) -> list[int]:
        return [torch.Size(shape).numel() * self.dtype.itemsize for shape in self.shapes]


PLAIN = Gradients(((4, 3), (4,), (2, 4), (2,)), 24)
LARGE = Gradients(((64, 512), (512,)) * 8, 256 * 1024)
OTHERS = (Gradients(((3,),), 1), Gradients(((5, 2), (0,), (1,), (7,)), 0),
          Gradients(((2, 2), (3, 1), ()), 10**9, torch.float64))


def check_buckets(function: object) -> float:
    """3 points: the mean, one all_reduce a bucket, no message longer than a bucket."""
    runs = {case: on_ranks(_reduce, function, case, 4) for case in (PLAIN, LARGE)}
    mean, calls, order = (first_wrong(look(run, case) for case, run in runs.items())
                          for look in (_not_mean, _too_many_calls, _unlike))
    later = mean and "judged once the means are right"
    return score([Verdict(1, "every gradient is the mean", mean),
                  Verdict(1, "one all_reduce for each bucket", later or calls),
                  Verdict(1, "filled from the last gradient", later or order)],
                 "Buckets leave in the order in which backward fills them.")


@unseen
def check_buckets_unseen(function: object) -> float:
    """1 point: other shapes, limits and numbers of ranks."""
    wrongs = []
    for case, world_size in zip(OTHERS, (3, 2, 1), strict=True):
        run = on_ranks(_reduce, function, case, world_size)
        wrongs += [_not_mean(run, case, world_size) or _too_many_calls(run, case)]
    return score([Verdict(1, "other shapes, limits, dtypes, numbers of ranks", first_wrong(wrongs))],
                 "It holds anywhere.")


def _reduce(function, rank: int, world_size: int, case: Gradients) -> list[list[float] | str]:
    gradients = [torch.full(shape, (k + 1) * 10.0**rank, dtype=case.dtype) for k, shape in enumerate(case.shapes)]
    kept = list(gradients)
    function(gradients, case.bucket_bytes)
    return [sorted(set(g.reshape(-1).tolist()))[:3] if isinstance(g, torch.Tensor) and tuple(g.shape) == shape
            else shown(g) for g, shape in zip(kept, case.shapes, strict=True)]


def _not_mean(run: Run | Raised, case: Gradients, world_size: int = 4) -> str | None:
    if isinstance(run, Raised):
        return run.words
    total = sum(10.0**rank for rank in range(world_size))
    for rank, held in enumerate(run.results):
        for k, (values, size) in enumerate(zip(held, case.sizes, strict=True)):
            mean = (k + 1) * total / world_size
            if size and not (len(values) == 1 and abs(values[0] - mean) <= RELATIVE * mean):
                return (f"gradient {k} {list(case.shapes[k])} on rank {rank} of {world_size} has {_said(values)}, "
                        f"expected {mean:g} everywhere (rank r had {k + 1} times 10**r)"
                        + _known(values, mean, (k + 1) * 10.0**rank, world_size))
    return None


def _known(values: list[float] | str, mean: float, own: float, world_size: int) -> str:
    if len(values) != 1 or isinstance(values, str):
        return ""
    named = {mean * world_size: ": that is the sum", own: ": that is its own, not the mean. Is it filled in place?",
             mean / world_size: ": that is divided twice", own / world_size: ": that is its own, divided"}
    return next((words for value, words in named.items() if abs(values[0] - value) <= RELATIVE * value), "")


def _said(values: list[float] | str) -> str:
    return values if isinstance(values, str) else ", ".join(f"{value:g}" for value in values) or "nothing"


def _calls(run: Run) -> list[tuple[str, int]]:
    return [(span.kind, span.nbytes) for span in run.trace if span.rank == 0]


def _too_many_calls(run: Run | Raised, case: Gradients) -> str | None:
    if isinstance(run, Raised):
        return run.words
    calls, expected = _calls(run), len(buckets(case.sizes, case.bucket_bytes, case.bucket_bytes))
    if other := [kind for kind, _ in calls if kind != "all_reduce"]:
        return f"{other[0]} is called; all_reduce is enough"
    if len(calls) != expected:
        return (f"{len(calls)} all_reduces for gradients of {', '.join(map(str, case.sizes[:4]))}"
                f"{', ...' if len(case.sizes) > 4 else ''} bytes and buckets of {case.bucket_bytes:,} bytes, expected "
                f"{expected}")
    return None


def _unlike(run: Run | Raised, case: Gradients) -> str | None:
    if isinstance(run, Raised):
        return run.words
    sent = [nbytes for kind, nbytes in _calls(run) if kind == "all_reduce"]
    expected = [sum(case.sizes[k] for k in bucket)
                for bucket in buckets(case.sizes, case.bucket_bytes, case.bucket_bytes)]
    if sent == expected:
        return None
    hint = ": start with the last gradient" if sent == expected[::-1] else ""
    return f"messages of {_listed(sent)} bytes, expected {_listed(expected)}{hint}"


def _listed(sizes: list[int]) -> str:
    return ", ".join(f"{size:,}" for size in sizes[:6]) + (", ..." if len(sizes) > 6 else "")
