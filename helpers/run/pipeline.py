"""Play a schedule on real gloo ranks, several stages on each if the schedule has it so.

    played = run_schedule(one_f_one_b(4, 8), {rank: stage}, inputs, targets, mse_loss, boundary=(4, 32))

Gradients are left in `.grad` of the stages' parameters.  They are those of one process on the whole batch if `loss_fn`
takes a mean: the loss of each microbatch is divided by their number.

A stage's output goes to the rank that needs it by `isend`, its gradient goes back likewise.  Nobody waits for a send,
and a receive is posted one step ahead, so no order that `validate` accepts can deadlock.  A message's tag says what it
is, so none can be taken for another.

Held against torch.distributed.pipelining and one process in tests/run/test_pipeline.py.
"""
from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import torch
import torch.distributed as dist
from torch import Tensor, nn

from helpers.facts.errors import BadValue
from helpers.facts.schedules import Action, Schedule, validate
from helpers.facts.schedules.durations import Durations, duration_of
from helpers.facts.schedules.schedule import Step
from helpers.facts.trace import Span, Trace
from helpers.run.copies import Tied, sum_copies
from helpers.run.kept import Kept
from helpers.run.split_backward import OwedWeights, deferred_weights


@dataclass
class Played:
    """What one rank's part of a step came to."""

    loss: float = 0.0                                           # this rank's part of the mean loss
    trace: Trace = field(default_factory=list)                  # a span for each step; waiting is outside
    kept_bytes: list[int] = field(default_factory=list)         # that autograd keeps, the most of each step


def run_schedule(schedule: Schedule, stages: dict[int, nn.Module], inputs: Tensor, targets: Tensor,
                 loss_fn: Callable[[Tensor, Tensor], Tensor], *, boundary: tuple[int, ...], scale: bool = True,
                 tied: Sequence[Tied] = (), pad_s: Durations | None = None) -> Played:
    """One forward and backward of the whole batch; every rank must call it.

    stages      {stage: module}, those that this rank holds
    inputs      [B, ...] of which the ranks with the first stage take microbatches
    targets     [B, ...] likewise for the last stage
    boundary    shape of what one microbatch hands from stage to stage
    scale       divide each microbatch's loss by their number
    tied        [[(stage, name of parameter), ...], ...]: copies that are one parameter; they must start equal
    pad_s       how long each kind of step takes at least: sleeps for the rest, as if a device computed meanwhile
    """
    rank = dist.get_rank()
    _check(schedule, rank, stages, inputs, targets)
    player = _Player(schedule, rank, stages, loss_fn, boundary, scale)
    player.cut(inputs, targets)
    seconds = duration_of(pad_s, schedule.num_stages) if pad_s else None
    dist.barrier()
    for step, following in pairwise((*schedule.steps[rank], None)):
        player.play(step, following, seconds(step) if seconds else 0.0)
    for work, _ in player.sending.values():
        work.wait()
    sum_copies(schedule, rank, stages, tied, first_tag=2 * schedule.num_stages * schedule.num_microbatches)
    return player.played


def _check(schedule: Schedule, rank: int, stages: dict[int, nn.Module], inputs: Tensor, targets: Tensor) -> None:
    validate(schedule)
    m = schedule.num_microbatches
    if schedule.num_ranks != dist.get_world_size():
        raise BadValue(f"{schedule.name} is for {schedule.num_ranks} ranks, and there are {dist.get_world_size()}")
    if sorted(stages) != list(schedule.stages_of[rank]):
        raise BadValue(f"rank {rank} of {schedule.name} holds stages {list(schedule.stages_of[rank])}: give a module "
                       f"for each; given are {sorted(stages)}")
    if len(inputs) != len(targets) or len(inputs) % m:
        raise BadValue(f"{len(inputs)} inputs and {len(targets)} targets cannot be cut into {m} equal microbatches: "
                       f"take a multiple of {m} of both")


@dataclass
class _Forward:
    """What the forward of a microbatch leaves for its backward."""

    x: Tensor
    y: Tensor
    owed: OwedWeights | None


class _Player:
    """One rank while it plays: what it holds, what it waits for, what is on its way."""

    def __init__(self, schedule: Schedule, rank: int, stages: dict[int, nn.Module], loss_fn: Callable,
                 boundary: tuple[int, ...], scale: bool):
        self.schedule, self.rank, self.stages, self.loss_fn, self.boundary = schedule, rank, stages, loss_fn, boundary
        self.share = 1 / schedule.num_microbatches if scale else 1.0
        self.kept = Kept(p for module in stages.values() for p in (*module.parameters(), *module.buffers()))
        self.forwards: dict[tuple[int, int], _Forward] = {}
        self.here: dict[Action, Tensor] = {}                    # made by this rank for this rank
        self.coming: dict[Action, tuple[dist.Work, Tensor]] = {}
        self.sending: dict[Action, tuple[dist.Work, Tensor]] = {}
        self.played = Played()

    def cut(self, inputs: Tensor, targets: Tensor) -> None:
        m = self.schedule.num_microbatches
        self.inputs, self.targets = inputs.chunk(m), targets.chunk(m)

    def play(self, step: Step, following: Step | None, least_s: float) -> None:
        for ahead in (step, following):
            for action in ahead.parts if ahead else ():
                self.expect(action)
        arrived = [self.receive(action) for action in step.parts]
        start, kept, made = time.perf_counter(), 0, []
        for action, tensor in zip(step.parts, arrived, strict=True):
            made.append(self.compute(action, tensor))
            kept = max(kept, self.kept.now())
        time.sleep(max(0.0, start + least_s - time.perf_counter()))
        self.played.trace.append(Span(self.rank, step.kind, start, time.perf_counter(), str(step)))
        for action, tensor in zip(step.parts, made, strict=True):
            self.hand_on(action, tensor)
        self.played.kept_bytes.append(kept)

    def sources(self, action: Action) -> list[Action]:
        """The action of a neighbouring stage whose result this one takes."""
        towards = {"F": -1, "B": 1, "I": 1, "W": 0}[action.kind]
        kinds = "F" if action.kind == "F" else "BI"
        return [a for kind in kinds if towards
                and (a := Action(kind, action.stage + towards, action.microbatch)) in self.schedule.rank_of]

    def expect(self, action: Action) -> None:
        """Post the receive of what the action takes, unless it comes from this rank or is posted already."""
        for source in self.sources(action):
            sender = self.schedule.rank_of[source]
            if sender != self.rank and source not in self.coming:
                buffer = torch.empty(self.boundary)
                self.coming[source] = dist.irecv(buffer, sender, tag=self.tag(source)), buffer

    def receive(self, action: Action) -> Tensor | None:
        """What the neighbouring stage made for this action: waits for it."""
        for source in self.sources(action):
            if source in self.here:
                return self.here.pop(source)
            work, buffer = self.coming.pop(source)
            work.wait()
            return buffer
        return None

    def compute(self, action: Action, arrived: Tensor | None) -> Tensor | None:
        if action.kind == "F":
            return self.forward(action, arrived)
        key = action[1:]
        if action.kind == "W":
            self.forwards.pop(key).owed.compute()
            return None
        held = self.forwards[key] if action.kind == "I" else self.forwards.pop(key)
        held.y.backward(arrived)
        gradient = held.x.grad
        if action.kind == "I":                                  # the graph is free now, but not what W needs
            held.x = held.y = None
            for tensor in held.owed.tensors():
                self.kept.note(tensor)
        if sent := self.sending.pop(Action("F", *key), None):   # the gradient came back, so it had arrived
            sent[0].wait()
        return gradient

    def forward(self, action: Action, arrived: Tensor | None) -> Tensor:
        _, stage, m = action
        x = self.inputs[m].clone() if arrived is None else arrived.requires_grad_()
        split, owed = Action("W", stage, m) in self.schedule.rank_of, None
        with self.kept.watching():
            if split:
                with deferred_weights(self.stages[stage]) as owed:
                    y = self.stages[stage](x)
            else:
                y = self.stages[stage](x)
            if stage == self.schedule.num_stages - 1:
                y = self.loss_fn(y, self.targets[m].clone()) * self.share
                self.played.loss += y.item()
        self.forwards[stage, m] = _Forward(x, y, owed)
        return y.detach()

    def hand_on(self, action: Action, tensor: Tensor | None) -> None:
        """Send what the action made to the rank that needs it, or keep it for this one."""
        towards = {"F": 1, "B": -1, "I": -1, "W": 0}[action.kind]
        stage = action.stage + towards
        if towards == 0 or not 0 <= stage < self.schedule.num_stages:
            return
        taker = self.schedule.rank_of[Action("F", stage, action.microbatch)]
        if taker == self.rank:
            self.here[action] = tensor
        else:
            self.sending[action] = dist.isend(tensor, taker, tag=self.tag(action)), tensor

    def tag(self, action: Action) -> int:
        """One number for each message of a step."""
        return 2 * (action.stage * self.schedule.num_microbatches + action.microbatch) + (action.kind != "F")
