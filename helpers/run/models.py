"""Small models to train on real ranks."""
from __future__ import annotations

from torch import nn


def mlp(width: int, depth: int) -> nn.Sequential:
    """`depth` blocks of one [width, width] matrix and a ReLU: width**2 * depth parameters, no biases."""
    return nn.Sequential(*(nn.Sequential(nn.Linear(width, width, bias=False), nn.ReLU()) for _ in range(depth)))
