"""Checks of exercise set 03: gradients in buckets, on real ranks.

Inputs explain themselves: gradient k of rank r is (k+1) 10**r, so the digits of a wrong mean say whose part is missing.
"""
from __future__ import annotations

from dataclasses import dataclass

import torch

from helpers.checks.judge import forbidden
from helpers.checks.judge.real_ranks import judged_on_ranks
from helpers.checks.judge.verdict import Verdict, first_wrong, score, unseen
from helpers.facts.buckets import buckets
from helpers.predict.collectives import bytes_sent
from helpers.run.launch import Run

RELATIVE = {torch.float32: 1e-5, torch.float64: 1e-12}
SOME_BYTES = 500_000            # sent: so many that the headers of messages hardly count


@dataclass(frozen=True)
class BucketGradients:
    """Shapes of the gradients of a model, and the limit of a bucket."""

    shapes: tuple[tuple[int, ...], ...]
    bucket_bytes: int
    world_size: int = 4
    dtype: torch.dtype = torch.float32
    unit: float = 1.0               # gradient k of rank r is (k+1) 10**r units

    @property
    def sizes(self) -> list[int]:
        """Bytes of each gradient."""
        return [torch.Size(shape).numel() * self.dtype.itemsize for shape in self.shapes]


PLAIN = BucketGradients(((3,), (4, 3), (4,), (2, 4), (2,)), 40)     # one bucket is full to the byte, one is not
LARGE = BucketGradients(((64, 512), (512,)) * 8, 256 * 1024)
OTHERS = (BucketGradients(((2, 2), (3, 1), (5,), ()), 32, 3, torch.float64, 1 / 7),
          BucketGradients(((5, 2), (0,), (1,), (7,)), 0, 3), BucketGradients(((3,), (4, 2), (6,), (2,)), 33, 1),
          BucketGradients(((3, 3),), 10**9, 3))


def check_buckets(function: object) -> float:
    """3 points: the mean, one all_reduce a bucket, buckets filled from the last gradient."""
    runs, mean = judged_on_ranks(_reduce, function, (PLAIN, LARGE), forbidden.DDP, _not_mean)
    calls, order = (first_wrong(look(run, case) for case, run in runs.items()) for look in (_odd_calls, _unlike))
    later = mean and "judged once the means are right"
    return score([Verdict(1, "every gradient is the mean", mean),
                  Verdict(1, "one all_reduce for each bucket", later or calls),
                  Verdict(1, "each message a bucket, the last gradients first", later or order)],
                 "Buckets leave in the order in which backward fills them.")


@unseen
def check_buckets_unseen(function: object) -> float:
    """1 point: other shapes, limits, dtypes and numbers of ranks."""
    _, wrong = judged_on_ranks(_reduce, function, OTHERS, forbidden.DDP,
                               lambda run, case: _not_mean(run, case) or _odd_calls(run, case) or _unlike(run, case))
    return score([Verdict(1, "other shapes, limits, dtypes, numbers of ranks", wrong)], "It holds anywhere.")


def _reduce(function, rank: int, world_size: int, case: BucketGradients) -> list[list[float] | str]:
    gradients = [torch.full(shape, (k + 1) * 10.0**rank * case.unit, dtype=case.dtype)
                 for k, shape in enumerate(case.shapes)]
    kept = list(gradients)
    function(gradients, case.bucket_bytes)
    return [_extremes(g) if tuple(g.shape) == shape else f"another shape, {list(g.shape)}"
            for g, shape in zip(kept, case.shapes, strict=True)]


def _extremes(gradient: torch.Tensor) -> list[float]:
    """The smallest and the largest of its numbers, if it has any; rounding may differ from element to element."""
    numbers = set(gradient.reshape(-1).tolist())
    if odd := [number for number in numbers if number != number]:       # nan is neither small nor large
        return odd[:1]
    return sorted({min(numbers), max(numbers)}) if numbers else []


def _not_mean(run: Run, case: BucketGradients) -> str | None:
    total, n, close = sum(10.0**rank for rank in range(case.world_size)), case.world_size, RELATIVE[case.dtype]
    for rank, held in enumerate(run.results):
        for k, (values, size) in enumerate(zip(held, case.sizes, strict=True)):
            mean, own = (k + 1) * case.unit * total / n, (k + 1) * case.unit * 10.0**rank
            known = {mean * n: ": that is the sum",
                     own: ": that is its own, not the mean. Was its bucket sent, and is it filled in place?",
                     mean / n: ": that is divided twice", own / n: ": that is its own, divided"}
            if isinstance(values, str) or (size and not _all_are(values, mean, close)):
                named = next((words for value, words in known.items() if _all_are(values, value, close)), "")
                return (f"gradient {k} {list(case.shapes[k])} on rank {rank} of {n} has {_said(values)}, expected "
                        f"{mean:.10g} everywhere (rank r had {(k + 1) * case.unit:g} times 10**r){named}")
    return None


def _all_are(values: list[float] | str, value: float, close: float) -> bool:
    """nan and infinity are close to nothing."""
    return isinstance(values, list) and all(abs(one - value) <= close * value for one in values)


def _said(values: list[float] | str) -> str:
    return values if isinstance(values, str) else ", ".join(f"{value:.10g}" for value in values) or "nothing"


def _odd_calls(run: Run, case: BucketGradients) -> str | None:
    calls = [span.kind for span in run.trace if span.rank == 0]
    expected = len(buckets(case.sizes, case.bucket_bytes, case.bucket_bytes))
    least = bytes_sent("all_reduce", sum(case.sizes), case.world_size)
    if other := [kind for kind in calls if kind != "all_reduce"]:
        return f"{other[0]} is called; all_reduce is enough"
    if len(calls) != expected:
        return (f"{len(calls)} all_reduces for gradients of {_listed(case.sizes)} bytes and buckets of "
                f"{case.bucket_bytes:,} bytes, expected {expected}")
    if least > SOME_BYTES and not 0.98 * least < run.wire[0].sent < 1.1 * least:
        return f"rank 0 sends {run.wire[0].sent:,} bytes, expected {least:,.0f} and some headers"
    return None


def _unlike(run: Run, case: BucketGradients) -> str | None:
    sent = [span.nbytes for span in run.trace if (span.rank, span.kind) == (0, "all_reduce")]
    expected, from_the_first = (
        [sum(sizes[k] for k in bucket) for bucket in buckets(sizes, case.bucket_bytes, case.bucket_bytes)]
        for sizes in (case.sizes, case.sizes[::-1]))
    if sent == expected:
        return None
    hint = ": start with the last gradient" if sent in (expected[::-1], from_the_first) else ""
    return f"messages of {_listed(sent) or 'no'} bytes, expected {_listed(expected)}{hint}"


def _listed(sizes: list[int]) -> str:
    return ", ".join(f"{size:,}" for size in sizes[:6]) + (", ..." if len(sizes) > 6 else "")
