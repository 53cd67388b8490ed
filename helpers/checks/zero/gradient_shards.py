"""Checks of exercise set 05: gradients that are reduced and freed from inside backward.

Inputs explain themselves: parameter k of rank r gets the gradient (k+1) 10**r, so the digits of a wrong mean say whose
part is missing.
"""
from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import nn

from helpers.checks.judge import forbidden
from helpers.checks.judge.live_peak import settled
from helpers.checks.judge.real_ranks import judged_on_ranks, too_little_sent
from helpers.checks.judge.verdict import Verdict, first_wrong, score, shown, unseen
from helpers.predict.collectives import bytes_sent
from helpers.run.collectives import Chunks
from helpers.run.launch import Run
from helpers.run.measure.meters import live_tensor_bytes, wire

SOME_BYTES = 20_000             # of messages: so many that their headers hardly count
NUM_BACKWARDS = 2


@dataclass(frozen=True)
class BucketCase:
    """Shapes of parameters in the order of forward, and which of them, from the last one, make a bucket."""

    shapes: tuple[tuple[int, ...], ...]
    buckets: tuple[tuple[int, ...], ...]
    world_size: int = 4

    def elements(self, bucket: tuple[int, ...]) -> list[int]:
        """For each element of a bucket, the number of its parameter."""
        return [k for k in bucket for _ in range(math.prod(self.shapes[k]))]

    @property
    def num_elements(self) -> int:
        """Elements of all parameters together."""
        return sum(map(math.prod, self.shapes))

    @property
    def largest(self) -> int:
        """Elements of the largest bucket."""
        return max(sum(math.prod(self.shapes[k]) for k in bucket) for bucket in self.buckets)

    @property
    def all_shards(self) -> int:
        """Elements of a rank's shards."""
        return -(-self.num_elements // self.world_size) + len(self.buckets)

    @property
    def most_bytes(self) -> float:
        """That may be alive after a hook: all shards, and a bucket that is on its way, beside the one that fills."""
        return 4 * (2 * self.largest + 1.2 * self.all_shards) + SOME_BYTES


PLAIN = BucketCase(((3,), (2, 4), (5,), (4, 3)), ((3,), (2, 1), (0,)))
LARGE = BucketCase(((100, 101),) * 12, ((11, 10), (9, 8), (7, 6), (5, 4), (3, 2), (1, 0)))
OTHERS = (BucketCase(((2, 2), (3,), (1,), (4,)), ((3, 2), (1,), (0,)), 3), BucketCase(((3, 3), (2,)), ((1, 0),), 3),
          BucketCase(((4,), (2,)), ((1,), (0,)), 1), BucketCase(((50, 50),) * 4, ((3,), (2,), (1,), (0,)), 3))


def check_hook(function: object) -> float:
    """4 points: shards of the mean, which add up; buckets freed one after another; bytes of a reduce_scatter."""
    runs, first = judged_on_ranks(_backward, function, (PLAIN, LARGE), forbidden.ZERO, _first)
    later = first and "judged once the shards are right"
    second, alive, sent = (first_wrong(look(run, model) for model, run in runs.items())
                           for look in (_second, _alive, _sent))
    return score([Verdict(1, "shards of the mean", first), Verdict(1, "a second backward adds", later or second),
                  Verdict(1, "one bucket alive at a time", later or alive),
                  Verdict(1, "a reduce_scatter's bytes", later or sent)], "Gone before the next bucket comes.")


@unseen
def check_hook_unseen(function: object) -> float:
    """1 point: other shapes, buckets and numbers of ranks."""
    looks = _first, _second, _alive, _sent
    _, wrong = judged_on_ranks(_backward, function, OTHERS, forbidden.ZERO,
                               lambda run, model: first_wrong(look(run, model) for look in looks))
    return score([Verdict(1, "other shapes, buckets, numbers of ranks", wrong)], "It holds anywhere.")


@dataclass
class BackwardStates:
    """What one rank had after each backward: shards, parameters that still had a gradient, and the most alive."""

    shards: list[dict[int, list[float] | str]]
    left: list[list[int]]
    together: tuple[int, ...]           # buckets that were alive at once
    grown: int                          # bytes by which live tensors grew at the worst, shards included
    sent: int


def _backward(function, rank: int, world_size: int, model: BucketCase) -> BackwardStates:
    parameters = [nn.Parameter(torch.zeros(shape)) for shape in model.shapes]
    numbers = {parameter: k for k, parameter in enumerate(parameters)}
    bucket_of = {parameters[k]: number for number, bucket in enumerate(model.buckets) for k in bucket}
    seen, before = BackwardStates([], [], (), 0, 0), live_tensor_bytes()
    returned = function([[parameters[k] for k in bucket] for bucket in model.buckets])

    def look(_) -> None:
        together = {bucket_of[p] for p in parameters if p.grad is not None}
        seen.together = max(seen.together, tuple(sorted(together)), key=len)
        if seen.grown <= model.most_bytes:                          # else it is known already
            seen.grown = max(seen.grown, settled(lambda: live_tensor_bytes() - before, model.most_bytes))

    for parameter in parameters:                # called after the learner's own hooks
        parameter.register_post_accumulate_grad_hook(look)
    for _ in range(NUM_BACKWARDS):
        with wire() as sent:
            sum((k + 1) * 10.0**rank * parameter.sum() for parameter, k in numbers.items()).backward()
        seen.shards.append({number: _plain(returned, number) for number in range(len(model.buckets))})
        seen.left.append([k for parameter, k in numbers.items() if parameter.grad is not None])
        seen.sent = sent.sent
    return seen


def _plain(shards: object, number: int) -> list[float] | str:
    """A shard in plain numbers, or what there is instead of it."""
    if not isinstance(shards, dict):
        return f"not there, since no dict was returned, but {shown(shards)}"
    if number not in shards:
        return f"not there, only {shown([*shards])} (is it the dict that the hooks fill, by number?)"
    shard = shards[number]
    if not isinstance(shard, torch.Tensor):
        return f"no tensor, but a {type(shard).__name__}"
    return shard.tolist() if shard.ndim == 1 else f"a tensor of shape {list(shard.shape)}"


def _first(run: Run, model: BucketCase) -> str | None:
    return _wrong_shards(run, model, 0) or too_little_sent(run, NUM_BACKWARDS * _least(model))


def _second(run: Run, model: BucketCase) -> str | None:
    return _wrong_shards(run, model, 1)


def _wrong_shards(run: Run, model: BucketCase, backward: int) -> str | None:
    total, n = sum(10.0**rank for rank in range(model.world_size)), model.world_size
    for rank, seen in enumerate(run.results):
        for number, bucket in enumerate(model.buckets):
            owners = Chunks(torch.tensor(model.elements(bucket)), n)[rank].tolist()
            right = [(backward + 1) * (k + 1) * total / n for k in owners]
            got = seen.shards[backward][number]
            if isinstance(got, str):
                return f"shards[{number}] on rank {rank} is {got}. A flat tensor of {len(right)} elements is asked for"
            if left := seen.left[backward]:
                return f"after backward, parameter {left[0]} on rank {rank} has a gradient: set it to None"
            if len(got) != len(right):
                return f"shards[{number}] on rank {rank} has {len(got)} of {len(right)} elements"
            for one, expected, k in zip(got, right, owners, strict=True):
                if not abs(one - expected) <= 1e-5 * expected:
                    return (f"shards[{number}] of rank {rank}, in backward {backward + 1}: {one:.10g}, expected "
                            f"{expected:.10g} (parameter {k} of rank r has {k + 1} times 10**r)"
                            + _known_mistake(one, expected, n, backward, (k + 1) * 10.0**rank))
    return None


def _known_mistake(got: float, expected: float, n: int, backward: int, own: float) -> str:
    known = {": that is the sum": expected * n, ": that is divided twice": expected / n,
             ": that is its own gradient": own * (backward + 1), ": that is its own gradient, divided": own / n}
    if backward:
        known |= {": the second backward has replaced the first": expected / 2,
                  ": something of the first backward counts twice": expected * 1.5}
    return next((words for words, value in known.items() if abs(got - value) <= 1e-5 * value), "")


def _alive(run: Run, model: BucketCase) -> str | None:
    for rank, seen in enumerate(run.results):
        if len(seen.together) > 1:
            return f"on rank {rank}, gradients of buckets {_listed(seen.together)} were alive at the same time"
        if seen.grown > model.most_bytes:
            return (f"on rank {rank}, {seen.grown / 4:,.0f} elements were alive in backward; the largest bucket has "
                    f"{model.largest:,}, all shards {model.all_shards:,}. Is a view of a bucket kept, or are buckets?")
    return None


def _least(model: BucketCase) -> float:
    """Bytes that a rank must send in a backward."""
    return bytes_sent("reduce_scatter", 4 * model.num_elements, model.world_size)


def _sent(run: Run, model: BucketCase) -> str | None:
    least, sent = _least(model), max(seen.sent for seen in run.results)
    if least < SOME_BYTES or sent <= 1.05 * least:
        return None
    an_all_reduce = abs(sent - 2 * least) <= 0.1 * least
    hint = ": as much as an all_reduce, which gloo's reduce_scatter is, too" if an_all_reduce else ""
    return f"a rank sends {sent:,} bytes in a backward, expected {least:,.0f} and some headers{hint}"


def _listed(numbers: tuple[int, ...]) -> str:
    return " and ".join(map(str, numbers))
