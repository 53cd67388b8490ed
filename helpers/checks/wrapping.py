"""Checks of exercise set 06: a wrap for FSDP that trains, and gathers one block at a time."""
from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from helpers.checks.elsewhere import Raised
from helpers.checks.ranks import on_ranks
from helpers.checks.sharded_adam import OWN_ZERO
from helpers.checks.verdict import Verdict, first_wrong, score, unseen
from helpers.run.launch import Run
from helpers.run.state import held
from helpers.run.transformer import GPT

NUM_STEPS, RATE = 3, 1e-3
CLOSE = 2e-3                    # of the largest parameter; a model that does not train is 3e-2 away
MORE_UNITS = 2                  # than blocks: the rest of the model, in one piece or two


@dataclass(frozen=True)
class Job:
    """A small GPT whose embedding is also its output layer, and the ranks."""

    layers: int = 6
    hidden: int = 128
    world_size: int = 2

    def model(self) -> GPT:
        torch.manual_seed(self.layers)
        return GPT(self.layers, self.hidden, 4, 64, 8)

    def batches(self) -> torch.Tensor:
        """Token numbers [steps, ranks, 9]: one sequence a rank."""
        return torch.randint(64, (NUM_STEPS, self.world_size, 9), generator=torch.Generator().manual_seed(self.hidden))


SEEN = Job()
OTHERS = (Job(4, 128, 3), Job(8, 96, 2))


def check_wrap(function: object) -> float:
    """3 points: trains as one process does; a block at a time."""
    runs = _runs(function, (SEEN,))
    wrong, units = (first_wrong(look(run, job) for job, run in runs.items()) for look in (_unlike, _odd_units))
    return score([Verdict(2, "trains as one process does", wrong),
                  Verdict(1, "a block at a time", (wrong and "judged once it trains") or units)],
                 "Sharded, lent, and trained.")


@unseen
def check_wrap_unseen(function: object) -> float:
    """1 point: other depths, widths and numbers of ranks."""
    runs = _runs(function, OTHERS)
    wrong = first_wrong(_unlike(run, job) or _odd_units(run, job) for job, run in runs.items())
    return score([Verdict(1, "other models and numbers of ranks", wrong)], "It holds anywhere.")


def _runs(function: object, jobs: tuple[Job, ...]) -> dict[Job, Run | Raised]:
    """Until one fails: one deadline is long enough."""
    runs = {}
    for job in jobs:
        runs[job] = on_ranks(_train, function, job, job.world_size, OWN_ZERO)
        if isinstance(runs[job], Raised):
            break
    return runs


def _train(function, rank: int, world_size: int, job: Job) -> tuple[dict[str, float], bool, int, list[str]]:
    """How far each parameter is from one process's, -1 if it is gone; whether any has moved; elements of momentum;
    parameters that are not sharded."""
    expected = _alone(job)
    before = {name: p.detach().clone() for name, p in job.model().named_parameters()}
    model, optimizer = function(job.model(), RATE)
    for batch in job.batches()[:, rank]:
        optimizer.zero_grad()
        _loss(model, batch[None]).backward()
        optimizer.step()
    found = {name: _whole(p) for name, p in model.named_parameters()}
    away = {name: ((found[name] - p).abs().max() / p.abs().max()).item() for name, p in expected.items()
            if name in found and found[name].shape == p.shape}
    moved = max((found[name] - before[name]).abs().max().item() for name in away) if away else 0.0
    moments = sum(t.numel() for t in held(model, optimizer).get("momentum", []))
    whole = [name for name, p in model.named_parameters() if not hasattr(p, "full_tensor")]
    return {**away, **dict.fromkeys(set(expected) - set(away), -1.0)}, moved > 0, moments, whole


def _alone(job: Job) -> dict[str, torch.Tensor]:
    model = job.model()
    adam = torch.optim.Adam(model.parameters(), RATE)
    for batch in job.batches():
        adam.zero_grad()
        _loss(model, batch).backward()
        adam.step()
    return {name: p.detach() for name, p in model.named_parameters()}


def _loss(model: nn.Module, numbers: torch.Tensor) -> torch.Tensor:
    """Through the model's forward: FSDP gathers there."""
    return nn.functional.cross_entropy(model(numbers[:, :-1]).flatten(0, 1), numbers[:, 1:].flatten())


def _whole(parameter: torch.Tensor) -> torch.Tensor:
    return (parameter.full_tensor() if hasattr(parameter, "full_tensor") else parameter).detach()


def _unlike(run: Run | Raised, job: Job) -> str | None:
    if isinstance(run, Raised):
        return run.words
    for rank, (away, moved, moments, whole) in enumerate(run.results):
        if not moved:
            return "after three steps no parameter has moved: which parameters does the optimizer have?"
        for name, difference in away.items():
            if difference < 0:
                return f"there is no parameter {name} any more, or it has another shape"
            if not difference <= CLOSE:
                hint = ": it is in no unit, so nobody takes the mean of its gradient" if name in whole else ""
                return f"after three steps {name} on rank {rank} is {difference:.1%} away from one process's{hint}"
        most = -(-sum(p.numel() for p in job.model().parameters()) // job.world_size) * 1.2
        if moments > most:
            return f"rank {rank} holds {moments:,} elements of momentum, more than its share: is everything sharded?"
    return None


def _odd_units(run: Run | Raised, job: Job) -> str | None:
    """By the collectives of a step: each unit reduces its gradients once, and gathers twice if it was freed."""
    if isinstance(run, Raised):
        return run.words
    gathers, reductions = (sum(span.rank == 0 and span.kind.startswith(kind) for span in run.trace) / NUM_STEPS
                           for kind in ("all_gather", "reduce_scatter"))
    seen = f"a step has {gathers:.3g} all_gathers and {reductions:.3g} reduce_scatters for {job.layers} blocks"
    if reductions < job.layers:
        return f"{seen}: several blocks are one unit"
    if reductions > job.layers + MORE_UNITS:
        return f"{seen}: there are more units than blocks and the rest"
    return None if gathers >= 2 * job.layers else f"{seen}: blocks stay gathered from forward to backward"
