"""Checks of exercise set 05: gradients that are reduced and freed from inside backward.

Inputs explain themselves: parameter k of rank r gets the gradient (k+1) 10**r, so the digits of a wrong mean say whose
part is missing.
"""
from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import nn

from helpers.checks.elsewhere import Raised
from helpers.checks.ranks import on_ranks
from helpers.checks.sharded_adam import OWN_ZERO
from helpers.checks.verdict import Verdict, first_wrong, score, unseen
from helpers.predict.comm import bytes_sent
from helpers.run.collectives import Chunks
from helpers.run.launch import Run
from helpers.run.meters import live_tensor_bytes, wire

SOME_BYTES = 20_000             # of messages: so many that their headers hardly count
NUM_BACKWARDS = 2


@dataclass(frozen=True)
class Model:
    """Shapes of parameters in the order of forward, and which of them, from the last one, make a bucket."""

    shapes: tuple[tuple[int, ...], ...]
    buckets: tuple[tuple[int, ...], ...]
    world_size: int = 4

    def elements(self, bucket: tuple[int, ...]) -> list[int]:
        """For each element of a bucket, the number of its parameter."""
        return [k for k in bucket for _ in range(math.prod(self.shapes[k]))]

    @property
    def num_elements(self) -> int:
        return sum(map(math.prod, self.shapes))


PLAIN = Model(((3,), (2, 4), (5,), (4, 3)), ((3,), (2, 1), (0,)))
LARGE = Model(((100, 101),) * 6, ((5, 4), (3, 2), (1, 0)))
OTHERS = (Model(((2, 2), (3,), (1,), (4,)), ((3, 2), (1,), (0,)), 3), Model(((3, 3), (2,)), ((1, 0),), 2),
          Model(((4,), (2,)), ((1,), (0,)), 1), Model(((50, 50),) * 4, ((3,), (2,), (1,), (0,)), 3))


def check_hook(function: object) -> float:
    """4 points: shards of the mean, which add up; buckets freed one after another; bytes of a reduce_scatter."""
    runs = _runs(function, (PLAIN, LARGE))
    first, second, alive, sent = (first_wrong(look(run, model) for model, run in runs.items())
                                  for look in (_first, _second, _alive, _sent))
    later = first and "judged once the shards are right"
    return score([Verdict(1, "shards of the mean", first), Verdict(1, "a second backward adds", later or second),
                  Verdict(1, "one bucket alive at a time", later or alive),
                  Verdict(1, "a reduce_scatter's bytes", later or sent)], "Gone before the next bucket comes.")


@unseen
def check_hook_unseen(function: object) -> float:
    """1 point: other shapes, buckets and numbers of ranks."""
    runs = _runs(function, OTHERS)
    wrong = first_wrong(look(run, model) for model, run in runs.items() for look in (_first, _second, _alive, _sent))
    return score([Verdict(1, "other shapes, buckets, numbers of ranks", wrong)], "It holds anywhere.")


def _runs(function: object, models: tuple[Model, ...]) -> dict[Model, Run | Raised]:
    """Until one fails: one deadline is long enough."""
    runs = {}
    for model in models:
        runs[model] = on_ranks(_backward, function, model, model.world_size, OWN_ZERO)
        if isinstance(runs[model], Raised):
            break
    return runs


@dataclass
class Seen:
    """What one rank had after each backward: shards, parameters that still had a gradient, and the most alive."""

    shards: list[dict[int, list[float] | str]]
    left: list[list[int]]
    together: tuple[int, ...]           # buckets that were alive at once
    grown: int                          # bytes by which live tensors grew at the worst, without the shards
    sent: int


def _backward(function, rank: int, world_size: int, model: Model) -> Seen:
    parameters = [nn.Parameter(torch.zeros(shape)) for shape in model.shapes]
    numbers = {parameter: k for k, parameter in enumerate(parameters)}
    bucket_of = {parameters[k]: number for number, bucket in enumerate(model.buckets) for k in bucket}
    returned = function([[parameters[k] for k in bucket] for bucket in model.buckets])
    seen, before = Seen([], [], (), 0, 0), live_tensor_bytes()

    def look(_) -> None:
        together = {bucket_of[p] for p in parameters if p.grad is not None}
        seen.together = max(seen.together, tuple(sorted(together)), key=len)
        seen.grown = max(seen.grown, live_tensor_bytes() - before)

    for parameter in parameters:                # called after the learner's own hooks
        parameter.register_post_accumulate_grad_hook(look)
    for _ in range(NUM_BACKWARDS):
        with wire() as sent:
            sum((k + 1) * 10.0**rank * parameter.sum() for parameter, k in numbers.items()).backward()
        shards = returned if isinstance(returned, dict) else {}
        seen.shards.append({number: _plain(shards.get(number)) for number in range(len(model.buckets))})
        seen.left.append([k for parameter, k in numbers.items() if parameter.grad is not None])
        seen.sent = sent.sent
    return seen


def _plain(shard: object) -> list[float] | str:
    if not isinstance(shard, torch.Tensor):
        return "no tensor"
    return shard.tolist() if shard.ndim == 1 else f"a tensor of shape {list(shard.shape)}"


def _first(run: Run | Raised, model: Model) -> str | None:
    return run.words if isinstance(run, Raised) else _wrong_shards(run, model, 0)


def _second(run: Run | Raised, model: Model) -> str | None:
    return run.words if isinstance(run, Raised) else _wrong_shards(run, model, 1)


def _wrong_shards(run: Run, model: Model, backward: int) -> str | None:
    total, n = sum(10.0**rank for rank in range(model.world_size)), model.world_size
    for rank, seen in enumerate(run.results):
        if seen.left[backward]:
            return f"after backward, parameter {seen.left[backward][0]} on rank {rank} still has a gradient"
        for number, bucket in enumerate(model.buckets):
            owners = Chunks(torch.tensor(model.elements(bucket)), n)[rank].tolist()
            right = [(backward + 1) * (k + 1) * total / n for k in owners]
            got = seen.shards[backward][number]
            if isinstance(got, str):
                return f"shards[{number}] on rank {rank} is {got}, expected one of {len(right)} elements"
            if len(got) != len(right):
                return f"shards[{number}] on rank {rank} has {len(got)} elements, expected {len(right)}"
            for one, expected, k in zip(got, right, owners, strict=True):
                if not abs(one - expected) <= 1e-5 * expected:
                    return (f"shards[{number}] of rank {rank}, in backward {backward + 1}: {one:.10g}, expected "
                            f"{expected:.10g} (parameter {k} of rank r has {k + 1} times 10**r)"
                            + _why(one, expected, n, backward, (k + 1) * 10.0**rank))
    return None


def _why(got: float, expected: float, n: int, backward: int, own: float) -> str:
    known = {": that is the sum": expected * n, ": that is divided twice": expected / n,
             ": that is its own gradient": own * (backward + 1), ": that is its own gradient, divided": own / n}
    if backward:
        known |= {": the second backward has replaced the first": expected / 2,
                  ": something of the first backward counts twice": expected * 1.5}
    return next((words for words, value in known.items() if abs(got - value) <= 1e-5 * value), "")


def _alive(run: Run | Raised, model: Model) -> str | None:
    if isinstance(run, Raised):
        return run.words
    largest = max(sum(math.prod(model.shapes[k]) for k in bucket) for bucket in model.buckets)
    shards = -(-model.num_elements // model.world_size) + len(model.buckets)
    most = 4 * (2 * largest + 1.2 * shards) + SOME_BYTES
    for rank, seen in enumerate(run.results):
        if len(seen.together) > 1:
            return f"on rank {rank}, gradients of buckets {_listed(seen.together)} were alive at the same time"
        if seen.grown > most:
            return (f"on rank {rank}, {seen.grown / 4:,.0f} elements were alive in backward; the largest bucket has "
                    f"{largest:,}, all shards {shards:,}. Is a view of a bucket kept?")
    return None


def _sent(run: Run | Raised, model: Model) -> str | None:
    if isinstance(run, Raised):
        return run.words
    least = bytes_sent("reduce_scatter", 4 * model.num_elements, model.world_size)
    sent = max(seen.sent for seen in run.results)
    if least < SOME_BYTES or sent <= 1.05 * least:
        return None
    hint = ": that is an all_reduce's" if sent <= 2.1 * least else ""
    return f"a rank sends {sent:,} bytes in a backward, expected {least:,.0f} and some headers{hint}"


def _listed(numbers: tuple[int, ...]) -> str:
    return " and ".join(map(str, numbers))
