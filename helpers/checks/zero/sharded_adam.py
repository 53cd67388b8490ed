"""Checks of exercise set 05: Adam with a shard on each rank, against torch's Adam on the mean gradient.

Gradients are as small as Adam's epsilon, else Adam would forgive a sum for a mean.
"""
from __future__ import annotations

import gc
import math
from dataclasses import dataclass

import torch

from helpers.checks.judge import forbidden
from helpers.checks.judge.live_peak import settled
from helpers.checks.judge.real_ranks import judged_on_ranks, too_little_sent
from helpers.checks.judge.verdict import Verdict, first_wrong, score, unseen
from helpers.predict.collectives import step_elements_sent
from helpers.run.launch import Run
from helpers.run.measure.meters import live_tensor_bytes, wire

NUM_STEPS, RATE = 3, 0.1
SMALL = 3e-8                    # of gradients; Adam's epsilon is 1e-8
CLOSE = 1e-4                    # of a rate: what three steps may differ by
SOME_BYTES = 4096               # step counters, and the like


@dataclass(frozen=True)
class AdamCase:
    """Shapes of the parameters, and how many ranks share them."""

    shapes: tuple[tuple[int, ...], ...]
    world_size: int = 4

    @property
    def num_elements(self) -> int:
        """Elements of all parameters together."""
        return sum(math.prod(shape) for shape in self.shapes)

    @property
    def shard(self) -> int:
        """Elements of the largest shard."""
        return -(-self.num_elements // self.world_size)

    @property
    def most_bytes(self) -> int:
        """That a rank may keep between steps."""
        return 3 * 4 * self.shard + SOME_BYTES

    def parameters(self) -> list[torch.Tensor]:
        """Fresh parameters, the same on every rank."""
        generator = torch.Generator().manual_seed(1)
        return [torch.randn(shape, generator=generator, dtype=torch.float32) for shape in self.shapes]

    def gradients(self, rank: int, step: int) -> list[torch.Tensor]:
        """The gradients of one rank in one step, in the shapes of the parameters."""
        generator = torch.Generator().manual_seed(100 * rank + step + 2)
        return [SMALL * torch.randn(shape, generator=generator, dtype=torch.float32) for shape in self.shapes]


PLAIN, LARGE = AdamCase(((3, 4), (5,), (2, 1, 3))), AdamCase(((100, 1000), (3,)))
OTHERS = (AdamCase(((2, 3), (), (7,)), 3), AdamCase(((2,),), 3), AdamCase(((4, 4), (8,)), 1),
          AdamCase(((333, 31), (1,), (40, 40)), 3))


def check_optimizer(optimizer_class: object) -> float:
    """4 points: equal to Adam on the mean, in place; state of a shard; bytes of two halves of an all_reduce."""
    runs, unlike = judged_on_ranks(_train, optimizer_class, (PLAIN, LARGE), forbidden.ZERO, _unlike)
    later = unlike and "judged once the parameters are right"
    kept, sent = (first_wrong(look(run, job) for job, run in runs.items()) for look in (_kept, _sent))
    return score([Verdict(1, "parameters as Adam makes them", unlike),
                  Verdict(2, "a rank keeps a shard", later or kept),
                  Verdict(1, "a step sends what DDP sends", later or sent)], "Stage 1, and nobody pays for it.")


@unseen
def check_optimizer_unseen(optimizer_class: object) -> float:
    """1 point: other shapes and numbers of ranks, also fewer elements than ranks."""
    _, wrong = judged_on_ranks(_train, optimizer_class, OTHERS, forbidden.ZERO,
                               lambda run, job: _unlike(run, job) or _kept(run, job) or _sent(run, job))
    return score([Verdict(1, "other shapes and numbers of ranks", wrong)], "It holds anywhere.")


def _train(optimizer_class, rank: int, world_size: int, job: AdamCase) -> tuple[list[list[float]], int, int]:
    """What views of the parameters hold after three steps, by how much memory grew, and bytes sent in the last step."""
    parameters = job.parameters()
    views = [parameter.view(-1) for parameter in parameters]
    gc.collect()
    before = live_tensor_bytes()
    optimizer = optimizer_class(list(parameters), RATE)
    for step in range(NUM_STEPS):
        for parameter, gradient in zip(parameters, job.gradients(rank, step), strict=True):
            parameter.grad = gradient
        with wire() as sent:
            optimizer.step()
    for parameter in parameters:
        parameter.grad = None
    del gradient
    gc.collect()
    grown = settled(lambda: live_tensor_bytes() - before, job.most_bytes)
    return [view.tolist() for view in views], grown, sent.sent


def _expected(job: AdamCase, ranks: list[int], scale: float = 1.0, remembers: bool = True, **rate: float,
              ) -> list[float]:
    """torch's Adam on the mean of the gradients of `ranks`."""
    parameters, rate = job.parameters(), {"lr": RATE} | rate
    adam = torch.optim.Adam(parameters, **rate)
    for step in range(NUM_STEPS):
        each = zip(*(job.gradients(rank, step) for rank in ranks), strict=True)
        for parameter, gradients in zip(parameters, each, strict=True):
            parameter.grad = scale * sum(gradients) / len(ranks)
        adam = adam if remembers else torch.optim.Adam(parameters, **rate)
        adam.step()
    return [value for parameter in parameters for value in parameter.reshape(-1).tolist()]


def _unlike(run: Run, job: AdamCase) -> str | None:
    right = _expected(job, list(range(job.world_size)))
    for rank, (held, _, _) in enumerate(run.results):
        got = [value for values in held for value in values]
        place = next((n for n, (one, other) in enumerate(zip(got, right, strict=True))
                      if not abs(one - other) <= CLOSE * RATE), None)
        if place is not None:
            return (f"{_of(job)}, element {place} on rank {rank} is {got[place]:.6g} after {NUM_STEPS} steps, expected "
                    f"{right[place]:.6g}{_known_mistake(got, place, job, rank)}")
    return too_little_sent(run, NUM_STEPS * _least(job))


def _known_mistake(got: list[float], place: int, job: AdamCase, rank: int) -> str:
    """Which known mistake makes this number."""
    ranks = list(range(job.world_size))
    start = [value for parameter in job.parameters() for value in parameter.reshape(-1).tolist()]
    known = {": it has not moved. Is it in a shard, and each shard handed round, and changed in place, by Adam?": start,
             ": that is the sum of the gradients, not their mean": _expected(job, ranks, job.world_size),
             ": that is its own gradient, not the mean": _expected(job, [rank]),
             ": that is divided twice": _expected(job, ranks, 1 / job.world_size),
             ": Adam has forgotten its moments between steps": _expected(job, ranks, remembers=False),
             ": that is Adam's own rate, not lr": _expected(job, ranks, lr=1e-3)}
    return next((words for words, values in known.items() if abs(values[place] - got[place]) <= CLOSE * RATE), "")


def _kept(run: Run, job: AdamCase) -> str | None:
    rank, grown = max(enumerate(grown for _, grown, _ in run.results), key=lambda pair: pair[1])
    if grown <= job.most_bytes:
        return None
    a_shard = grown <= job.most_bytes + 4 * job.shard and job.world_size > 2
    hint = "the gradient of the shard kept, too" if a_shard else "a view of something whole kept, or whole moments"
    return (f"{_of(job)}, rank {rank} keeps {grown / 4:,.0f} elements between steps, and 3 shards are "
            f"{3 * job.shard:,}. Is {hint}?")


def _least(job: AdamCase) -> float:
    """Bytes that a rank must send in a step."""
    return 4 * step_elements_sent(job.num_elements, 1, job.world_size)


def _sent(run: Run, job: AdamCase) -> str | None:
    least, sent = _least(job), max(sent for _, _, sent in run.results)
    if least < 10 * SOME_BYTES or sent <= 1.05 * least:
        return None
    an_all_reduce = abs(sent - 1.5 * least) <= 0.05 * least
    hint = ": as much as with an all_reduce of gradients, which gloo's reduce_scatter is, too" if an_all_reduce else ""
    return (f"a rank sends {sent:,} bytes in a step with {job.num_elements:,} elements on {job.world_size} ranks, "
            f"expected {least:,.0f} and some headers{hint}")


def _of(job: AdamCase) -> str:
    return f"of {job.num_elements:,} elements on {job.world_size} ranks"
