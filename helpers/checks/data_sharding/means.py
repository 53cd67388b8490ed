"""Checks of exercise set 04: means over ranks that have different numbers of samples."""
from __future__ import annotations

import math
import operator
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from helpers.checks.judge import forbidden
from helpers.checks.judge.other_process import Raised
from helpers.checks.judge.real_ranks import runs_in_order
from helpers.checks.judge.verdict import Verdict, score, unseen
from helpers.run.launch import Run
from helpers.run.measure.meters import wire
from helpers.run.models import regression

CLOSE = 1e-4
MOST_BYTES_MORE = 3_000         # a number from each rank, with gloo's headers or pickled, is less; all losses are more
NUM_FEATURES = 1000             # so that a second reduction of the gradients costs more than the numbers of samples


@dataclass(frozen=True)
class Counts:
    """How many samples each rank has."""

    counts: tuple[int, ...]

    @property
    def world_size(self) -> int:
        """How many ranks there are."""
        return len(self.counts)


EVEN, RAGGED = Counts((200, 200)), Counts((400, 400, 150, 50))
OTHERS = Counts((5, 0)), Counts((2, 1, 9)), Counts((3,))


def check_backward(function: object) -> float:
    """3 points: the gradient of the mean over all samples, evenly and unevenly shared, for one number more."""
    runs = dict(runs_in_order(_gradient, function, (EVEN, RAGGED), forbidden.MEANS))
    even = _by_rank(runs[EVEN], EVEN)
    ragged = even if isinstance(even, Raised) else _by_rank(runs[RAGGED], RAGGED)
    wrong = _not_the_mean(ragged)
    return score([Verdict(1, "ranks with as many samples", _not_the_mean(even)),
                  Verdict(1, "ranks with 400, 400, 150 and 50", wrong),
                  Verdict(1, "few bytes more than the gradient's", "judged once the gradient is right" if wrong else
                          _too_many_bytes(ragged))], "Every sample weighs as much as every other.")


@unseen
def check_backward_unseen(function: object) -> float:
    """1 point: a rank without samples, other numbers of ranks."""
    wrong = None
    for case, run in runs_in_order(_gradient, function, OTHERS, forbidden.MEANS):
        if wrong := _not_the_mean(_by_rank(run, case)):
            break
    return score([Verdict(1, "a rank without samples, one rank, three", wrong)], "It holds anywhere.")


@dataclass(frozen=True)
class BatchGradients:
    """Of each rank: its gradient [1000], or None; and bytes beyond those of DDP."""

    by_rank: list[list[float] | None]
    bytes_more: list[int]
    counts: tuple[int, ...]


def _by_rank(run: Run | Raised, case: Counts) -> BatchGradients | Raised:
    return run if isinstance(run, Raised) else BatchGradients(*map(list, zip(*run.results, strict=True)), case.counts)


def _data(counts: tuple[int, ...]) -> list[tuple[torch.Tensor, torch.Tensor]]:
    x, y = regression(sum(counts), NUM_FEATURES, 1).tensors
    return list(zip(x.split(counts), y.split(counts), strict=True))


def _gradient(function, rank: int, world_size: int, case: Counts) -> tuple[list[float] | None, int]:
    inputs, targets = _data(case.counts)[rank]
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
            return ("the gradient is not that of the mean over all samples: "
                    + _known_mistake(got, expected, of_means, len(data)))
    return None


def _known_mistake(got: list[float], expected: list[float], of_means: list[float], num_ranks: int) -> str:
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
