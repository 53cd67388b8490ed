"""Checks of exercise set 04: means over ranks that have different numbers of samples."""
from __future__ import annotations

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from helpers.checks.elsewhere import FORBIDDEN, Raised
from helpers.checks.ranks import on_ranks
from helpers.checks.verdict import Verdict, first_wrong, is_number, plain, score, shown, unseen
from helpers.run.data import regression
from helpers.run.meters import wire

OWN_MEANS = (*FORBIDDEN, "helpers.run.data")
CLOSE = 1e-5
MOST_BYTES_MORE = 2_000         # a collective of one number, with gloo's headers, takes a few hundred
NUM_FEATURES = 6


def check_backward(function: object) -> float:
    """3 points: the gradient of the mean over all samples, evenly and unevenly shared, for one number more."""
    even, ragged = (on_ranks(_gradient, function, _data(counts), len(counts), OWN_MEANS)
                    for counts in ((4, 4), (8, 8, 3, 1)))
    wrong = _not_the_mean(ragged)
    return score([Verdict(1, "ranks with as many samples", _not_the_mean(even)),
                  Verdict(1, "ranks with 8, 8, 3 and 1", wrong),
                  Verdict(1, "few bytes more than the gradient's", "judged once the gradient is right" if wrong else
                          _too_many_bytes(ragged))], "Every sample weighs as much as every other.")


@unseen
def check_backward_unseen(function: object) -> float:
    """1 point: a rank without samples, other numbers of ranks."""
    wrongs = [_not_the_mean(on_ranks(_gradient, function, _data(counts), len(counts), OWN_MEANS))
              for counts in ((5, 0), (2, 1, 9), (3,))]
    return score([Verdict(1, "a rank without samples, one rank, three", first_wrong(wrongs))], "It holds anywhere.")


def _data(counts: tuple[int, ...]) -> list[tuple[torch.Tensor, torch.Tensor]]:
    x, y = regression(sum(counts), NUM_FEATURES, 1).tensors
    return list(zip(x.split(counts), y.split(counts), strict=True))


def _gradient(function, rank: int, world_size: int, data: list) -> tuple:
    """Gradient under DDP, that of one process on all samples, that of the mean of means; bytes beyond DDP's own."""
    torch.manual_seed(0)
    ddp = DistributedDataParallel(nn.Linear(NUM_FEATURES, 1))
    inputs, targets = data[rank]
    with wire() as plainly:
        _losses(ddp, inputs, targets).sum().backward()
    ddp.zero_grad()
    with wire() as moved:
        function(_losses(ddp, inputs, targets))
    got = ddp.module.weight.grad
    alone = nn.Linear(NUM_FEATURES, 1)
    alone.load_state_dict(ddp.module.state_dict())
    expected = _of_one(alone, *map(torch.cat, zip(*data, strict=True)))
    means = torch.stack([_of_one(alone, *part) for part in data if len(part[0])])
    return None if got is None else got.clone(), expected, means.mean(0), moved.sent - plainly.sent


def _losses(model: nn.Module, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return (model(inputs) - targets).square().squeeze(1)


def _of_one(alone: nn.Module, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    alone.zero_grad()
    _losses(alone, inputs, targets).mean().backward()
    return alone.weight.grad.clone()


def _not_the_mean(run) -> str | None:
    if isinstance(run, Raised):
        return run.words
    for rank, (got, expected, of_means, _) in enumerate(run.results):
        if got is None:
            return f"rank {rank} has no gradient: is backward called?"
        factor = (got.norm() / expected.norm()).item()
        for right, words in ((expected, None), (of_means, "that is the mean of the ranks' means"),
                             (expected * factor, f"it is {factor:.3g} times too large")):
            if (got - right).norm() <= CLOSE * right.norm():
                if words:
                    return f"the gradient is not that of the mean over all samples: {words}"
                break
        else:
            return "the gradient is not that of the mean over all samples, nor a multiple of it"
    return None


def _too_many_bytes(run) -> str | None:
    more = max(result[3] for result in run.results)
    return None if more < MOST_BYTES_MORE else f"{more:,} bytes more than DDP's are sent: the counts are enough"


CASES = [(4, 9, (0, 1, 2)), (2, 8, (3,)), (3, 10, (0, 9))]                  # ranks, samples, which are wrong
MORE_CASES = [(5, 3, (1,)), (1, 4, (0,)), (4, 4, ()), (3, 7, tuple(range(7)))]


def check_accuracy(function: object) -> float:
    """2 points: every sample counts once, padded or not."""
    return score([Verdict(1, what, first_wrong(_wrong_accuracy(function, *case, padded) for case in CASES))
                  for what, padded in (("padded by a DistributedSampler", True), ("not padded", False))],
                 "It does not depend on the number of ranks.")


@unseen
def check_accuracy_unseen(function: object) -> float:
    """1 point: fewer samples than ranks, one rank, all right, all wrong."""
    return score([Verdict(1, "other sizes", first_wrong(_wrong_accuracy(function, *case, padded) for case in MORE_CASES
                                                        for padded in (True, False)))], "It holds anywhere.")


def _wrong_accuracy(function: object, world_size: int, num_samples: int, wrong: tuple[int, ...], padded: bool,
                    ) -> str | None:
    run = on_ranks(_accuracy, function, (num_samples, wrong, padded), world_size, OWN_MEANS)
    if isinstance(run, Raised):
        return run.words
    right = 1 - len(wrong) / num_samples
    for rank, got in enumerate(run.results):
        if not is_number(got):
            return f"rank {rank} returned {got if isinstance(got, str) else shown(got)}; a number is asked for"
        if not abs(got - right) < CLOSE:
            own = list(range(num_samples))[rank::world_size]
            alone = own and abs(got - sum(index not in wrong for index in own) / len(own)) < CLOSE
            return (f"{num_samples - len(wrong)} of {num_samples} samples are right, on {world_size} ranks: rank "
                    f"{rank} says {got:.4f}, expected {right:.4f}" + (": that is its own accuracy" if alone else ""))
    return None


def _accuracy(function, rank: int, world_size: int, case: tuple[int, tuple[int, ...], bool]) -> float | str:
    num_samples, wrong, padded = case
    order = list(range(num_samples))
    while padded and len(order) % world_size:
        order += order[:world_size - len(order) % world_size]
    indices = torch.tensor(order[rank::world_size], dtype=torch.int64)
    correct = torch.tensor([index not in wrong for index in order[rank::world_size]], dtype=torch.bool)
    value = plain(function(indices, correct, num_samples))
    dist.barrier()
    return value if is_number(value) else shown(value)
