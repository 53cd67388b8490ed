"""Checks of exercise set 03: accumulation under PyTorch's DDP, held against one process that has all samples."""
from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import parameters_to_vector

from helpers.checks.judge import forbidden
from helpers.checks.judge.other_process import Raised
from helpers.checks.judge.real_ranks import on_ranks, runs_in_order
from helpers.checks.judge.verdict import Verdict, first_wrong, score, unseen
from helpers.run.measure.meters import wire

WIDTH, RATE, MOMENTUM = 64, 0.5, 0.9
OLD = "the gradients from before are in the step, too"


@dataclass(frozen=True)
class StepSeen:
    """What one rank sees of one step; whether it is right is found out elsewhere, where no learner's code runs."""

    before: torch.Tensor        # parameters [P]
    after: torch.Tensor         # [P]
    sent: float                 # in units of one reduction
    misuse: str | None          # too many samples or graphs at once


@dataclass(frozen=True)
class Microbatches:
    """Samples in each microbatch of a rank's step, and the ranks."""

    sizes: tuple[int, ...]
    world_size: int


OTHERS = Microbatches((5, 3, 1), 3), Microbatches((6,), 3), Microbatches((2, 7), 3)


def check_accumulation(function: object) -> float:
    """3 points: a step equal to the big batch's, twice in a row, for one reduction's bytes."""
    case = Microbatches((4, 4, 4, 2), 2)
    run = on_ranks(_accumulated, function, case, 2, forbidden.DDP)
    if isinstance(run, Raised):
        return score([Verdict(3, "a step of four microbatches", run.words)], "")
    first, second = _wrong_steps(run.results, case)
    sent = run.results[0][0].sent
    hints = {4: ": every backward reduces. Use no_sync, around forward as well",
             2: ": is something averaged that DDP has averaged already?", 0: ": nothing is reduced"}
    cost = None if 0.9 < sent < 1.5 else (f"{sent:.1f} times the bytes of one reduction are sent, expected once"
                                          + hints.get(round(sent), ""))
    later = first and "judged once the first step is right"
    return score([Verdict(1, "a step equal to the big batch's", first),
                  Verdict(1, "and so is the next step", later or second),
                  Verdict(1, "gradients are sent once", later or cost)], "Four microbatches, one message.")


@unseen
def check_accumulation_unseen(function: object) -> float:
    """1 point: microbatches of unlike sizes, a single one, three ranks."""
    wrong = None
    for case, run in runs_in_order(_accumulated, function, OTHERS, forbidden.DDP):
        words = run.words if isinstance(run, Raised) else first_wrong(_wrong_steps(run.results, case))
        if words:
            wrong = f"microbatches of {' and '.join(map(str, case.sizes))} samples: {words}"
            break                                       # one deadline is long enough
    return score([Verdict(1, "microbatches of unlike sizes, one, three ranks", wrong)],
                 "Samples count, not microbatches.")


def _wrong_steps(ranks: list[list[StepSeen]], case: Microbatches) -> list[str | None]:
    """What is wrong with each step, against one process that has all samples."""
    with torch.random.fork_rng(devices=[]):
        model, everything = _start(case)
    known, expected = _mistakes(model, everything[0], case.sizes), _one_process(model, everything)
    wrong = []
    for number, right in enumerate(expected):
        steps = [seen[number] for seen in ranks]
        mistakes = known | {OLD: right - known[OLD]} if number == 0 else {}
        wrong.append(_wrong(steps, right, mistakes))
    return wrong


def _wrong(steps: list[StepSeen], right: torch.Tensor, known: dict[str, torch.Tensor]) -> str | None:
    """Of one step, as all ranks see it."""
    if misuse := first_wrong(step.misuse for step in steps):
        return misuse
    if any(step.after.shape != right.shape for step in steps):
        return "the model has other parameters than it was given"
    if not all(step.after.isfinite().all() for step in steps):
        return "the parameters are no longer finite numbers"
    if not all(torch.equal(step.after, steps[0].after) for step in steps):
        sent = ": has every rank sent, and stepped?" if steps[0].sent > 0.1 else \
            ", and nothing was sent: was the last microbatch inside no_sync, too?"
        return f"the ranks are no longer one model{sent}"
    return _another_step(steps[0].before, steps[0].after, right, known)


def _start(case: Microbatches) -> tuple[nn.Module, torch.Tensor]:
    """The model, and the samples of both steps [2, N, S, F + 1], the same in every process; it seeds torch."""
    torch.manual_seed(0)
    return _model(), torch.randn(2, case.world_size, sum(case.sizes), WIDTH + 1)


def _accumulated(function, rank: int, world_size: int, case: Microbatches) -> list[StepSeen]:
    model, everything = _start(case)
    ddp = DistributedDataParallel(model)
    ddp(torch.ones(1, WIDTH)).sum().backward()          # forms the buckets anew
    with wire() as once:
        ddp(torch.ones(1, WIDTH)).sum().backward()      # and leaves gradients behind
    optimizer, steps = torch.optim.SGD(ddp.parameters(), RATE, momentum=MOMENTUM), []
    for data in everything:
        before = parameters_to_vector(model.parameters()).detach()
        microbatches = [(part[:, :WIDTH], part[:, WIDTH:]) for part in data[rank].split(case.sizes)]
        with wire() as moved, _watched(model, max(case.sizes)) as misuse:
            function(ddp, optimizer, microbatches)
        after = parameters_to_vector(model.parameters()).detach()
        steps.append(StepSeen(before, after, moved.sent / once.sent, misuse[0] if misuse else None))
    return steps


@contextlib.contextmanager
def _watched(model: nn.Module, most: int) -> Iterator[list[str]]:
    """Says so if more samples are in a forward, or more forwards wait for their backward, than fit into memory."""
    misuse, waiting = [], []

    def forward(_, inputs: tuple, named: dict) -> None:
        if not torch.is_grad_enabled():
            return
        waiting.append(len(inputs[0] if inputs else named["input"]))
        if waiting[-1] > most:
            misuse.append(f"a forward has {waiting[-1]} samples; no more than {most} fit into memory")
        elif len(waiting) > 1:
            misuse.append("a forward begins before the backward of the one before; both do not fit into memory")

    hooks = [model.register_forward_pre_hook(forward, with_kwargs=True),
             model[0].weight.register_hook(lambda _: waiting.clear())]
    try:
        yield misuse
    finally:
        for hook in hooks:
            hook.remove()


def _model() -> nn.Module:
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, 1))


def _one_process(model: nn.Module, everything: torch.Tensor) -> list[torch.Tensor]:
    """The parameters after each step of one process on all samples of all ranks."""
    alone, after = _model(), []
    alone.load_state_dict(model.state_dict())
    optimizer = torch.optim.SGD(alone.parameters(), RATE, momentum=MOMENTUM)
    for data in everything.flatten(1, 2):
        optimizer.zero_grad()
        nn.functional.mse_loss(alone(data[:, :WIDTH]), data[:, WIDTH:]).backward()
        optimizer.step()
        after.append(parameters_to_vector(alone.parameters()).detach())
    return after


def _mistakes(model: nn.Module, data: torch.Tensor, sizes: tuple[int, ...]) -> dict[str, torch.Tensor]:
    """The parameters after a first step with a mistake, by what it is; for OLD, what the old gradients take away."""
    for _ in range(2):                                  # as on the ranks, before the first step
        model(torch.ones(1, WIDTH)).sum().backward()
    alone, old = _model(), parameters_to_vector(p.grad for p in model.parameters())
    alone.load_state_dict(model.state_dict())
    for together in zip(*(rank.split(sizes) for rank in data), strict=True):
        part = torch.cat(together)
        nn.functional.mse_loss(alone(part[:, :WIDTH]), part[:, WIDTH:]).backward()
    added = parameters_to_vector(p.detach() - RATE * p.grad for p in alone.parameters())
    return {"no step was taken": parameters_to_vector(model.parameters()).detach(),
            OLD: RATE * old,
            "the gradients of microbatches add up: divide each loss": added}


def _another_step(before: torch.Tensor, got: torch.Tensor, right: torch.Tensor, known: dict[str, torch.Tensor],
                  ) -> str | None:
    """Compare parameters [P] with one process's, and with those of known mistakes."""
    def alike(one: torch.Tensor, other: torch.Tensor) -> bool:
        return bool((one - other).norm() <= 1e-4 * (right - before).norm())

    if alike(got, right):
        return None
    if named := next((words for words, parameters in known.items() if alike(got, parameters)), None):
        return named
    times = (((got - before) @ (right - before)) / (right - before).square().sum()).item()
    if alike(got - before, times * (right - before)):
        cause = ": does something divide by the number of ranks that DDP divides by already?" if times < 1 else \
            ": does something add up that should be a mean?" if abs(times - round(times)) < 0.01 else ""
        return f"the step is {times:.2g} times as long as that of one process on all samples{cause}"
    away = ((got - right).norm() / (right - before).norm()).item()
    if away > 10:
        return "the step is far from that of one process on all samples: is optimizer.step called once?"
    return f"the step is {away:.0%} away from that of one process on all samples: does every sample count as much?"
