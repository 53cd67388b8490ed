"""What one rank does while a schedule is played: forward and backward of its stages, step by step.

    receive -> compute, and sleep for the rest of the step's time -> send

Only the middle is the step's span: time between spans is waiting.
"""
from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge

from helpers.facts.errors import BadValue
from helpers.facts.schedules import Action, Schedule
from helpers.facts.schedules.schedule import Step
from helpers.facts.trace import Span, Trace
from helpers.run.measure.live_saved import LiveSavedBytes
from helpers.run.pipeline.messages import StageMessages
from helpers.run.pipeline.split_backward import OwedWeights, deferred_weights


@dataclass
class PlayedPart:
    """What one rank's part of a played schedule came to."""

    loss: float = 0.0                                           # the sum of what this rank's backwards started from
    trace: Trace = field(default_factory=list)                  # a span for each step; waiting is outside
    kept_bytes: list[int] = field(default_factory=list)         # for backward, the most of each step


@dataclass
class _Forward:
    """What the forward of a microbatch leaves for its backward."""

    x: Tensor | None
    end: Tensor | GradientEdge | None                           # where backward starts; None: nothing is trained
    owed: OwedWeights | None                                    # if backward is split


class Player:
    """One rank while it plays."""

    def __init__(self, schedule: Schedule, stages: dict[int, nn.Module],
                 microbatches: tuple[Sequence[Tensor], Sequence[Tensor]], loss_fn: Callable, share: float,
                 post: StageMessages):
        self.schedule, self.stages, self.loss_fn, self.share, self.post = schedule, stages, loss_fn, share, post
        self.inputs, self.targets = microbatches
        self.kept = LiveSavedBytes(p for module in stages.values() for p in (*module.parameters(), *module.buffers()))
        self.forwards: dict[tuple[int, int], _Forward] = {}
        self.played = PlayedPart()

    def play(self, step: Step, following: Step | None, least_s: float) -> None:
        """Do one step and send what it made; it takes at least `least_s` seconds."""
        for ahead in (step, following):
            for action in ahead.parts if ahead else ():
                self.post.expect(action)
        arrived = [self.post.take(action) for action in step.parts]
        start, kept, made = time.perf_counter(), [self.kept.now()], []
        for action in step.parts:
            made.append(self.compute(action, arrived.pop(0)))
            kept.append(self.kept.now())
        time.sleep(max(0.0, start + least_s - time.perf_counter()))
        self.played.trace.append(Span(self.post.rank, step.kind, start, time.perf_counter(), str(step)))
        for action, tensor in zip(step.parts, made, strict=True):
            self.post.give(action, tensor)
        self.played.kept_bytes.append(max(kept))

    def compute(self, action: Action, arrived: Tensor | None) -> Tensor | None:
        """Do one action with what has arrived for it; return what is to be sent on."""
        if action.kind == "F":
            return self.forward(*action[1:], arrived)
        if action.kind == "W":
            return self.forwards.pop(action[1:]).owed.compute()
        return self.backward(action, arrived)

    def forward(self, stage: int, m: int, arrived: Tensor | None) -> Tensor:
        """Forward of one microbatch through one stage; return its output, without a graph."""
        x = self.inputs[m].clone() if arrived is None else arrived.requires_grad_()
        owed = OwedWeights() if Action("W", stage, m) in self.schedule.rank_of else None
        with self.kept.watching(), self.deferring(stage, owed):
            y = self.stages[stage](x)
            last = stage == self.schedule.num_stages - 1
            y = self.loss(y, self.targets[m].clone()) if last else self.handed_over(y, stage)
        end = (y if last else get_gradient_edge(y)) if y.requires_grad else None        # y itself may go
        self.forwards[stage, m] = _Forward(x, end, owed)
        return y.detach()

    def deferring(self, stage: int, owed: OwedWeights | None) -> AbstractContextManager:
        """The context in which the weights' gradients of a split backward wait for W."""
        return deferred_weights(self.stages[stage], owed) if owed else nullcontext()

    def loss(self, y: Tensor, target: Tensor) -> Tensor:
        """The loss of one microbatch, divided by the number of microbatches if `scale` was asked for."""
        loss = self.loss_fn(y, target)
        if not isinstance(loss, Tensor) or loss.numel() != 1:
            raise BadValue(f"loss_fn gives {_described(loss)}: give one number in a tensor, the mean over its samples")
        loss = loss * self.share
        self.played.loss += loss.item()
        return loss

    def handed_over(self, y: Tensor, stage: int) -> Tensor:
        """y itself: gloo aborts, or hands on garbage, where sizes differ."""
        if not isinstance(y, Tensor) or y.shape != self.post.boundary or y.dtype != self.post.dtype:
            raise BadValue(f"stage {stage} gives {_described(y)}, and boundary and dtype say "
                           f"{list(self.post.boundary)} {self.post.dtype}: they are those of one microbatch between "
                           "any two stages")
        return y

    def backward(self, action: Action, arrived: Tensor | None) -> Tensor | None:
        """Backward of one microbatch through one stage, or its first half; return the gradient of the stage's input."""
        key = action[1:]
        held = self.forwards[key] if action.kind == "I" else self.forwards.pop(key)
        if held.end is not None:
            with self.deferring(action.stage, held.owed):       # recomputing calls forward once more
                torch.autograd.backward(held.end, arrived)
        gradient = held.x.grad
        if gradient is None and held.x.requires_grad:           # the stage makes nothing of its input
            gradient = torch.zeros_like(held.x)
        if action.kind == "I":                                  # the graph is free now, but not what W needs
            held.x = held.end = None
            for tensor in held.owed.tensors():
                self.kept.note(tensor)
        return gradient


def _described(value: object) -> str:
    return f"{list(value.shape)} {value.dtype}" if isinstance(value, Tensor) else f"a {type(value).__name__}"
