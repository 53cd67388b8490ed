"""Checks of exercise set 04: the accuracy of an evaluation whose samples ranks share, some of them twice."""
from __future__ import annotations

from dataclasses import dataclass, replace

import torch
import torch.distributed as dist

from helpers.checks.judge import forbidden
from helpers.checks.judge.other_process import Raised
from helpers.checks.judge.real_ranks import runs_in_order
from helpers.checks.judge.verdict import Verdict, first_wrong, is_number, plain, score, shown, unseen
from helpers.facts.data_sharding import count
from helpers.run.launch import Run

CLOSE = 1e-4


@dataclass(frozen=True)
class Evaluation:
    """Samples dealt out to ranks, those that are predicted wrongly, and whether padding gives all ranks as many."""

    world_size: int
    num_samples: int
    wrong: tuple[int, ...]
    padded: bool = True

    def samples_of(self, rank: int) -> list[int]:
        """The numbers of the samples that a rank evaluates, in its order."""
        order = list(range(self.num_samples))
        while self.padded and len(order) % self.world_size:
            order += order[:self.world_size - len(order) % self.world_size]
        return order[rank::self.world_size]


SEEN = Evaluation(4, 9, (0, 1, 2)), Evaluation(4, 8, (3,)), Evaluation(3, 10, (0, 9))
OTHERS = Evaluation(5, 3, (1,)), Evaluation(1, 4, (0,)), Evaluation(5, 5, ()), Evaluation(5, 7, tuple(range(7)))


def check_accuracy(function: object) -> float:
    """2 points: every sample counts once, padded or not."""
    padded, not_padded = _wrong_accuracies(function, SEEN)
    return score([Verdict(1, "padded by a DistributedSampler", padded), Verdict(1, "not padded", not_padded)],
                 "It does not depend on the number of ranks.")


@unseen
def check_accuracy_unseen(function: object) -> float:
    """1 point: fewer samples than ranks, one rank, all right, all wrong."""
    return score([Verdict(1, "other sizes", first_wrong(_wrong_accuracies(function, OTHERS)))], "It holds anywhere.")


def _wrong_accuracies(function: object, cases: tuple[Evaluation, ...]) -> list[str | None]:
    """What is wrong where ranks are padded, and where they are not."""
    padded, not_padded = ([replace(case, padded=pads) for case in cases] for pads in (True, False))
    runs = dict(runs_in_order(_accuracy, function, [*padded, *not_padded], forbidden.MEANS))
    if not_padded[0] not in runs:                       # a padded case fails; the others may not
        runs |= runs_in_order(_accuracy, function, not_padded, forbidden.MEANS)
    return [first_wrong(_wrong_accuracy(case, runs[case]) for case in each if case in runs)
            for each in (padded, not_padded)]


def _wrong_accuracy(case: Evaluation, run: Run | Raised) -> str | None:
    if isinstance(run, Raised):
        return run.words
    num_right = case.num_samples - len(case.wrong)
    right = num_right / case.num_samples
    for rank, got in enumerate(run.results):
        if not is_number(got):
            return f"rank {rank} returned {got}; a number is asked for"
        if not abs(got - right) < CLOSE:
            return (f"{num_right} of {case.num_samples} samples are right, on {count(case.world_size, 'rank')}: "
                    f"rank {rank} says {got:.4f}, expected {right:.4f}{_known_mistake(run.results, case)}")
    return None


def _known_mistake(got: list[float], case: Evaluation) -> str:
    """Which known mistake gives what all ranks say."""
    n, num_samples = case.world_size, case.num_samples
    ranks = [[index not in case.wrong for index in case.samples_of(one)] for one in range(n)]
    num_right, num_draws = sum(map(sum, ranks)), sum(map(len, ranks))
    own = [sum(one) / max(1, len(one)) for one in ranks]
    known = {": a repeated sample counts twice": [num_right / num_draws] * n,
             ": a repeated sample counts twice, but not in the divisor": [num_right / num_samples] * n,
             ": that is the mean of the ranks' accuracies": [sum(own) / n] * n,
             ": that is each rank's own accuracy": own,
             ": that is each rank's own share of all samples": [sum(one) / num_samples for one in ranks]}
    return next((words for words, said in known.items()
                 if all(is_number(one) and abs(one - value) < CLOSE for one, value in zip(got, said, strict=True))), "")


def _accuracy(function, rank: int, world_size: int, case: Evaluation) -> float | str:
    mine = case.samples_of(rank)
    correct = torch.tensor([index not in case.wrong for index in mine], dtype=torch.bool)
    value = plain(function(torch.tensor(mine, dtype=torch.int64), correct, case.num_samples))
    dist.barrier()
    return value if is_number(value) else shown(value)
