"""Small models to train on real ranks."""
from __future__ import annotations

import itertools
import time

import torch
from torch import Tensor, nn

from helpers.facts.errors import BadValue

BACKWARD_OF = "backward of "            # the profiler's name for the backward of a padded layer, before its own name


def mlp(width: int, depth: int) -> nn.Sequential:
    """`depth` blocks of one [width, width] matrix and a ReLU: width**2 * depth parameters, no biases; x [B, width]."""
    return nn.Sequential(*(nn.Sequential(nn.Linear(width, width, bias=False), nn.ReLU()) for _ in range(depth)))


def perceptron(*widths: int) -> nn.Sequential:
    """Linear layers with biases and a ReLU between them: perceptron(16, 32, 32, 4) has 1,732 parameters."""
    layers = [layer for before, after in itertools.pairwise(widths)
              for layer in (nn.Linear(before, after), nn.ReLU())]
    return nn.Sequential(*layers[:-1])


def cut(model: nn.Sequential, num_stages: int) -> list[nn.Sequential]:
    """The model's layers in `num_stages` parts of as equal a number as can be, the first ones larger."""
    size, larger = divmod(len(model), num_stages)
    if not size:
        raise BadValue(f"{len(model)} layers cannot be cut into {num_stages} stages: take at most {len(model)}")
    starts = [i * size + min(i, larger) for i in range(num_stages + 1)]
    return [model[start:end] for start, end in itertools.pairwise(starts)]


class Padded(nn.Module):
    """A layer whose backward takes `backward_s` longer: as long as on a device that computes while messages travel."""

    def __init__(self, layer: nn.Module, name: str, backward_s: float):
        super().__init__()
        self.layer, self.name, self.backward_s = layer, name, backward_s

    def forward(self, x: Tensor) -> Tensor:
        """The layer's own forward; its backward sleeps."""
        return _SleepInBackward.apply(self.layer(x), self.name, self.backward_s)


class _SleepInBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, name: str, seconds: float) -> Tensor:
        ctx.name, ctx.seconds = name, seconds
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple[Tensor, None, None]:
        with torch.profiler.record_function(BACKWARD_OF + ctx.name):
            time.sleep(ctx.seconds)
        return gradient, None, None
