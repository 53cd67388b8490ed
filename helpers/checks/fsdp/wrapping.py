"""Checks of exercise set 06: a wrap for FSDP that trains, and gathers one block at a time."""
from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor, nn

from helpers.checks.judge import forbidden
from helpers.checks.judge.real_ranks import judged_on_ranks
from helpers.checks.judge.verdict import Verdict, first_wrong, score, unseen
from helpers.run.launch import Run, launch
from helpers.run.measure.state import state_tensors
from helpers.run.models import GPT

NUM_STEPS, RATE = 3, 2e-3       # not Adam's own rate, so that a forgotten one is seen
CLOSE = 0.05                    # of a rate, at the median: what has no gradient but rounding, Adam moves as far
MORE_UNITS = 3                  # than blocks: the rest of the model, in so many pieces


@dataclass(frozen=True)
class WrapCase:
    """A small GPT whose embedding is also its output layer, and the ranks."""

    layers: int = 6
    hidden: int = 128
    world_size: int = 2

    def model(self) -> GPT:
        """The GPT that is to be wrapped, with the same weights on every rank."""
        torch.manual_seed(self.layers)
        return GPT(self.layers, self.hidden, 4, 64, 8)

    def batches(self) -> Tensor:
        """Token numbers [steps, ranks, 9]: one sequence a rank."""
        return torch.randint(64, (NUM_STEPS, self.world_size, 9), generator=torch.Generator().manual_seed(self.hidden))

    @property
    def block_bytes(self) -> int:
        """Bytes of the parameters of one block."""
        return 4 * (12 * self.hidden**2 + 13 * self.hidden)


SEEN = WrapCase()
OTHERS = (WrapCase(4, 128, 3), WrapCase(8, 96, 3))


def check_wrap(function: object) -> float:
    """3 points: trains as one process does; a block at a time."""
    runs, wrong = judged_on_ranks(_train, function, (SEEN,), forbidden.ZERO, _unlike)
    units = first_wrong(_odd_units(run, job) for job, run in runs.items())
    return score([Verdict(2, "trains as one process does", wrong),
                  Verdict(1, "a block at a time", (wrong and "judged once it trains") or units)],
                 "Sharded, lent, and trained.")


@unseen
def check_wrap_unseen(function: object) -> float:
    """1 point: other depths, widths and numbers of ranks."""
    _, wrong = judged_on_ranks(_train, function, OTHERS, forbidden.ZERO,
                               lambda run, job: _unlike(run, job) or _odd_units(run, job))
    return score([Verdict(1, "other models and numbers of ranks", wrong)], "It holds anywhere.")


@dataclass
class WrapResult:
    """What one rank has after three steps: whole parameters, names of those that are not sharded, and Adam."""

    parameters: dict[str, Tensor]
    whole: list[str]
    num_moments: int                # elements of momentum
    decays: bool                    # whether Adam has a weight decay


def _train(function, rank: int, world_size: int, job: WrapCase) -> WrapResult | str:
    returned = function(job.model(), RATE)
    if not (isinstance(returned, (tuple, list)) and [*map(_kind, returned)] == ["model", "optimizer"]):
        return _listed(returned)
    model, optimizer = returned
    _take_steps(model, optimizer, job.batches()[:, rank, None])
    parameters = dict(model.named_parameters())
    return WrapResult({name: _whole(p) for name, p in parameters.items()},
                   [name for name, p in parameters.items() if not hasattr(p, "full_tensor")],
                   sum(moment.numel() for moment in state_tensors(model, optimizer).get("momentum", [])),
                   any(group.get("weight_decay") for group in optimizer.param_groups))


def _kind(part: object) -> str:
    kinds = {"model": nn.Module, "optimizer": torch.optim.Optimizer}
    return next((name for name, kind in kinds.items() if isinstance(part, kind)), "")


def _listed(returned: object) -> str:
    """What was returned, by types only, since models are long."""
    parts = [type(part).__name__ for part in (returned if isinstance(returned, (tuple, list)) else [returned])]
    return f"{len(parts)} things: {', '.join(parts[:4])}" if len(parts) > 1 else parts[0]


def _take_steps(model: nn.Module, optimizer: torch.optim.Optimizer, batches: Tensor) -> None:
    """Through the model's forward: FSDP gathers there."""
    for numbers in batches:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(numbers[:, :-1]).flatten(0, 1), numbers[:, 1:].flatten()).backward()
        optimizer.step()


def _whole(parameter: Tensor) -> Tensor:
    return (parameter.full_tensor() if hasattr(parameter, "full_tensor") else parameter).detach()


@cache
def _one_process(job: WrapCase) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """What is the same for all answers: parameters at first, and what training makes of them."""
    return launch(_alone, 1, job).results[0]


def _alone(rank: int, world_size: int, job: WrapCase) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    model = job.model()
    start = {name: p.detach().clone() for name, p in model.named_parameters()}
    _take_steps(model, torch.optim.Adam(model.parameters(), RATE), job.batches())
    return start, {name: p.detach() for name, p in model.named_parameters()}


def _unlike(run: Run, job: WrapCase) -> str | None:
    for rank, trained in enumerate(run.results):
        if isinstance(trained, str):
            return f"rank {rank} returned {trained}; the model and an optimizer are asked for, in this order"
    start, right = _one_process(job)
    most = 1.2 * -(-sum(p.numel() for p in right.values()) // job.world_size)
    for rank, trained in enumerate(run.results):
        if words := _apart(trained, start, right):
            return f"after three steps, on rank {rank}: {words}"
        if trained.num_moments > most:
            return (f"rank {rank} holds {trained.num_moments:,} elements of momentum, more than its share: is "
                    "everything sharded?")
        if trained.decays:
            return "the optimizer has a weight decay; torch.optim.Adam(parameters, lr) has none"
    return None


def _apart(trained: WrapResult, start: dict[str, Tensor], right: dict[str, Tensor]) -> str | None:
    """Which parameter is not where one process has it."""
    found = trained.parameters
    if missing := [name for name, p in right.items() if name not in found or found[name].shape != p.shape]:
        return f"there is no parameter {missing[0]} any more, or it has another shape"
    if more := sorted(set(found) - set(right)):
        return f"there is a parameter {more[0]} that was not there: is one tensor two now?"
    still = [name for name, p in start.items() if torch.equal(found[name], p)]
    if len(still) == len(start):
        return "no parameter has moved: which parameters does the optimizer have?"
    for name, p in right.items():
        away = ((found[name] - p).abs().median() / RATE).item()
        if not away <= CLOSE:
            hint = (": it has not moved. Does the optimizer have it?" if name in still else
                    ": it is in no unit, so nobody takes the mean of its gradient" if name in trained.whole else "")
            return f"{name} is {away:.2g} times the rate away from one process's, at the median{hint}"
    return None


def _odd_units(run: Run, job: WrapCase) -> str | None:
    """By the collectives of a step: each unit reduces its gradients once, and gathers twice if it was freed."""
    gathers, reductions = ([span.nbytes for span in run.trace if span.rank == 0 and span.kind.startswith(kind)]
                           for kind in ("all_gather", "reduce_scatter"))
    seen = (f"a step has {len(gathers) / NUM_STEPS:.3g} all_gathers and {len(reductions) / NUM_STEPS:.3g} "
            f"reduce_scatters for {job.layers} blocks")
    if max(reductions, default=0) > 1.1 * job.block_bytes / job.world_size:
        return f"{seen}: several blocks are one unit"
    if len(reductions) > (job.layers + MORE_UNITS) * NUM_STEPS:
        return f"{seen}: there are more units than blocks and the rest"
    of_blocks = sum(nbytes >= job.block_bytes for nbytes in gathers)
    return None if of_blocks >= 2 * job.layers * NUM_STEPS else f"{seen}: blocks stay gathered after forward"
