"""Rank program that plays one schedule and holds it against one process: for `python -m helpers pipeline` and widgets.

The model has one [width, width] matrix and a tanh for each stage; all ranks draw the same from one seed.
"""
from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from helpers.facts.schedules import BUILDERS, Schedule
from helpers.facts.schedules.durations import Durations
from helpers.facts.trace import Trace
from helpers.run.models import cut, regression
from helpers.run.pipeline import run_schedule

WIDTH, SAMPLES, SEED = 16, 2, 0             # samples of one microbatch


@dataclass(frozen=True)
class PipelineResult:
    """What one rank's part of a played schedule came to, beside one process on the whole batch."""

    trace: Trace
    loss: float                 # this rank's part
    loss_alone: float           # of one process
    worst: float                # largest difference of a gradient, relative to the largest gradient of its tensor


def one_step(rank: int, world_size: int, schedule: Schedule, seconds: Durations) -> PipelineResult:
    """Forward and backward of one batch, by the schedule and by one process."""
    inputs, targets = regression(schedule.num_microbatches * SAMPLES, WIDTH, WIDTH, SEED).tensors
    stages = cut(_model(schedule.num_stages), schedule.num_stages)
    mine = {stage: stages[stage] for stage in schedule.stages_of[rank]}
    played = run_schedule(schedule, mine, inputs, targets, mse_loss, boundary=(SAMPLES, WIDTH), pad_s=seconds)
    alone = _model(schedule.num_stages)
    loss = mse_loss(alone(inputs), targets)
    loss.backward()
    whole = cut(alone, schedule.num_stages)
    worst = max(_difference(ours.grad, theirs.grad) for stage, module in mine.items()
                for ours, theirs in zip(module.parameters(), whole[stage].parameters(), strict=True))
    return PipelineResult(played.trace, played.loss, loss.item(), worst)


def one_step_of(rank: int, world_size: int, name: str, num_microbatches: int, seconds: Durations) -> PipelineResult:
    """The same by a schedule's name, for as many ranks as there are."""
    return one_step(rank, world_size, BUILDERS[name](world_size, num_microbatches), seconds)


def _model(num_stages: int) -> nn.Sequential:
    with torch.random.fork_rng():
        torch.manual_seed(SEED)
        return nn.Sequential(*(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()) for _ in range(num_stages)))


def _difference(ours: Tensor, theirs: Tensor) -> float:
    return ((ours - theirs).abs().max() / theirs.abs().max()).item()
