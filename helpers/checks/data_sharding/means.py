"""Checks of exercise set 04: means over ranks that have different numbers of samples."""
from __future__ import annotations

import math
import operator
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from helpers.checks.judge import forbidden
from helpers.checks.judge.other_process import Raised
from helpers.checks.judge.real_ranks import on_ranks
from helpers.checks.judge.verdict import Verdict, first_wrong, is_number, plain, score, shown, unseen
from helpers.facts.data_sharding import count
from helpers.run.measure.meters import wire
from helpers.run.models import regression

CLOSE = 1e-4
MOST_BYTES_MORE = 3_000         # a number from each rank, with gloo's headers or pickled, is less; all losses are more
NUM_FEATURES = 1000             # so that a second reduction of the gradients costs more than the numbers of samples


def check_backward(function: object) -> float:
    """3 points: the gradient of the mean over all samples, evenly and unevenly shared, for one number more."""
    even = _gradients(function, (200, 200))
    ragged = even if isinstance(even, Raised) else _gradients(function, (400, 400, 150, 50))
    wrong = _not_the_mean(ragged)
    return score([Verdict(1, "ranks with as many samples", _not_the_mean(even)),
                  Verdict(1, "ranks with 400, 400, 150 and 50", wrong),
                  Verdict(1, "few bytes more than the gradient's", "judged once the gradient is right" if wrong else
                          _too_many_bytes(ragged))], "Every sample weighs as much as every other.")


@unseen
def check_backward_unseen(function: object) -> float:
    """1 point: a rank without samples, other numbers of ranks."""
    wrong = None
    for counts in ((5, 0), (2, 1, 9), (3,)):
        if wrong := _not_the_mean(_gradients(function, counts)):
            break                                       # one deadline is long enough
    return score([Verdict(1, "a rank without samples, one rank, three", wrong)], "It holds anywhere.")


@dataclass(frozen=True)
class BatchGradients:
    """Of each rank: its gradient [1000], or None; and bytes beyond those of DDP."""

    by_rank: list[list[float] | None]
    bytes_more: list[int]
    counts: tuple[int, ...]


def _gradients(function: object, counts: tuple[int, ...]) -> BatchGradients | Raised:
    run = on_ranks(_gradient, function, counts, len(counts), forbidden.MEANS)
    return run if isinstance(run, Raised) else BatchGradients(*map(list, zip(*run.results, strict=True)), counts)


def _data(counts: tuple[int, ...]) -> list[tuple[torch.Tensor, torch.Tensor]]:
    x, y = regression(sum(counts), NUM_FEATURES, 1).tensors
    return list(zip(x.split(counts), y.split(counts), strict=True))


def _gradient(function, rank: int, world_size: int, counts: tuple[int, ...]) -> tuple[list[float] | None, int]:
    inputs, targets = _data(counts)[rank]
    ddp = DistributedDataParallel(_linear())
    with wire() as plainly:
        _losses(ddp, inputs, targets).sum().backward()
    ddp.zero_grad()
    with wire() as moved:
        function(_losses(ddp, inputs, targets))
    got = ddp.module.weight.grad
    return None if got is None else got.reshape(-1).tolist(), moved.sent - plainly.sent


def _linear() -> nn.Module:
    torch.manual_seed(0)
    return nn.Linear(NUM_FEATURES, 1)


def _losses(model: nn.Module, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return (model(inputs) - targets).square().squeeze(1)


def _of_one(part: tuple[torch.Tensor, torch.Tensor]) -> list[float]:
    """The gradient of one process."""
    with torch.random.fork_rng(devices=[]):
        alone = _linear()
    _losses(alone, *part).mean().backward()
    return alone.weight.grad.reshape(-1).tolist()


def _not_the_mean(found: BatchGradients | Raised) -> str | None:
    if isinstance(found, Raised):
        return found.words
    data = _data(found.counts)
    expected = _of_one(tuple(map(torch.cat, zip(*data, strict=True))))
    own = [_of_one(part) if len(part[0]) else [0.0] * NUM_FEATURES for part in data]
    of_means = [math.fsum(column) / len(data) for column in zip(*own, strict=True)]
    for rank, got in enumerate(found.by_rank):
        if got is None:
            return f"rank {rank} has no gradient: is backward called?"
        if not _alike(got, expected):
            return "the gradient is not that of the mean over all samples: " + _why(got, expected, of_means, len(data))
    return None


def _why(got: list[float], expected: list[float], of_means: list[float], num_ranks: int) -> str:
    if not all(map(math.isfinite, got)):
        return "it has numbers that are not finite. Is something divided by 0?"
    if _alike(got, of_means):
        return "that is the mean of the ranks' means"
    factor = math.fsum(map(operator.mul, got, expected)) / math.fsum(map(operator.mul, expected, expected))
    if not _alike(got, [factor * one for one in expected]) or factor <= 0:
        return "nor is it a multiple of it. Is backward called once, on one number?"
    if math.isclose(factor, num_ranks, rel_tol=1e-3):
        return f"it is {num_ranks} times too large. What is left when DDP has divided by the number of ranks?"
    if math.isclose(factor * num_ranks, 1, rel_tol=1e-3):
        return f"it is {num_ranks} times too small. DDP divides by the number of ranks, too"
    return f"it is {factor:.3g} times too large" if factor > 1 else f"it is {1 / factor:.3g} times too small"


def _alike(one: list[float], other: list[float]) -> bool:
    return math.dist(one, other) <= CLOSE * math.hypot(*other)


def _too_many_bytes(found: BatchGradients) -> str | None:
    more = max(found.bytes_more)
    return None if more < MOST_BYTES_MORE else f"{more:,} bytes more than DDP's are sent: the counts are enough"


CASES = [(4, 9, (0, 1, 2)), (2, 8, (3,)), (3, 10, (0, 9))]                  # ranks, samples, which are wrong
MORE_CASES = [(5, 3, (1,)), (1, 4, (0,)), (4, 4, ()), (3, 7, tuple(range(7)))]


def check_accuracy(function: object) -> float:
    """2 points: every sample counts once, padded or not."""
    return score([Verdict(1, what, _wrong_accuracy(function, CASES, padded))
                  for what, padded in (("padded by a DistributedSampler", True), ("not padded", False))],
                 "It does not depend on the number of ranks.")


@unseen
def check_accuracy_unseen(function: object) -> float:
    """1 point: fewer samples than ranks, one rank, all right, all wrong."""
    return score([Verdict(1, "other sizes", first_wrong(_wrong_accuracy(function, MORE_CASES, padded)
                                                        for padded in (True, False)))], "It holds anywhere.")


def _wrong_accuracy(function: object, cases: list[tuple], padded: bool) -> str | None:
    for world_size, num_samples, wrong in cases:
        run = on_ranks(_accuracy, function, (num_samples, wrong, padded), world_size, forbidden.MEANS)
        if isinstance(run, Raised):
            return run.words                            # one deadline is long enough
        right = 1 - len(wrong) / num_samples
        for rank, got in enumerate(run.results):
            if not is_number(got):
                return f"rank {rank} returned {got}; a number is asked for"
            if not abs(got - right) < CLOSE:
                return (f"{num_samples - len(wrong)} of {num_samples} samples are right, on "
                        f"{count(world_size, 'rank')}: rank {rank} says {got:.4f}, expected {right:.4f}"
                        + _known_accuracy(run.results, world_size, num_samples, wrong, padded))
    return None


def _known_accuracy(got: list[float], world_size: int, num_samples: int, wrong: tuple, padded: bool) -> str:
    """Which known mistake gives what all ranks say."""
    ranks = [[index not in wrong for index in _indices(one, world_size, num_samples, padded)]
             for one in range(world_size)]
    num_right, num_draws = sum(map(sum, ranks)), sum(map(len, ranks))
    own = [sum(one) / max(1, len(one)) for one in ranks]
    named = {": a repeated sample counts twice": [num_right / num_draws] * world_size,
             ": a repeated sample counts twice, but not in the divisor": [num_right / num_samples] * world_size,
             ": that is the mean of the ranks' accuracies": [sum(own) / world_size] * world_size,
             ": that is each rank's own accuracy": own,
             ": that is each rank's own share of all samples": [sum(one) / num_samples for one in ranks]}
    return next((words for words, said in named.items()
                 if all(is_number(one) and abs(one - value) < CLOSE for one, value in zip(got, said, strict=True))), "")


def _indices(rank: int, world_size: int, num_samples: int, padded: bool) -> list[int]:
    order = list(range(num_samples))
    while padded and len(order) % world_size:
        order += order[:world_size - len(order) % world_size]
    return order[rank::world_size]


def _accuracy(function, rank: int, world_size: int, case: tuple[int, tuple[int, ...], bool]) -> float | str:
    num_samples, wrong, padded = case
    mine = _indices(rank, world_size, num_samples, padded)
    correct = torch.tensor([index not in wrong for index in mine], dtype=torch.bool)
    value = plain(function(torch.tensor(mine, dtype=torch.int64), correct, num_samples))
    dist.barrier()
    return value if is_number(value) else shown(value)
