"""Rank programs for data parallel: what is trained, how it is wrapped, and what came of it.

A way wraps a model so that ranks share its gradients: ours, plainly ours, or PyTorch's.  Each is trained on its
rank's part of every batch; `train` without a rank is the reference, one process on the whole batch.
"""
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from helpers.run.data import global_mean, part_of_batch, regression
from helpers.run.ddp import DDP, NaiveDDP
from helpers.run.models import perceptron

NUM_STEPS = 20
BOTH = {"ours": DDP, "torch": DistributedDataParallel}
WAYS = {
    "naive": NaiveDDP,
    **{f"ours, {limit} bytes{', views' * views}": partial(DDP, gradient_as_bucket_view=views, **sizes)
       for limit, sizes in (("0", {"bucket_bytes": 0}), ("default", {}), ("inf", {"bucket_bytes": math.inf}))
       for views in (False, True)},
    "torch": DistributedDataParallel,
    "torch, views": partial(DistributedDataParallel, gradient_as_bucket_view=True),
}


class Tied(nn.Module):
    """One matrix, used on the way in and on the way out."""

    def __init__(self):
        super().__init__()
        self.shared = nn.Parameter(torch.randn(16, 16) / 4)
        self.last = nn.Linear(16, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(torch.tanh(torch.tanh(x @ self.shared) @ self.shared.T))


class Scaled(nn.Module):
    """Its buffers, drawn by each rank for itself, take part in forward."""

    def __init__(self):
        super().__init__()
        self.inner = perceptron(16, 32, 4)
        self.register_buffer("scale", torch.rand(16) + 0.5)
        self.register_buffer("shift", torch.randint(0, 5, (4,)))

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x * self.scale) + self.shift


def frozen() -> nn.Module:
    model = perceptron(16, 32, 32, 4)
    model[2].requires_grad_(False)
    return model


sgd = partial(torch.optim.SGD, lr=0.05, momentum=0.9)
plain = partial(perceptron, 16, 32, 32, 4)


@dataclass(frozen=True)
class Case:
    model: Callable[[], nn.Module]
    optimizer: Callable = sgd
    num_samples: int = 24                   # of a batch


CASES = {
    "plain": Case(plain),
    "tied": Case(Tied),
    "frozen": Case(frozen),
    "buffers": Case(Scaled),
    "ragged": Case(plain, num_samples=10),
    "adam": Case(plain, partial(torch.optim.Adam, lr=0.01)),
}


def build(make: Callable[[], nn.Module], seed: int) -> nn.Module:
    torch.manual_seed(seed)
    return make()


def flat(tensors: Iterator[Tensor]) -> Tensor:
    return torch.cat([tensor.detach().flatten().clone() for tensor in tensors])


def gradient(model: nn.Module) -> Tensor:
    return flat(p.grad for p in model.parameters() if p.grad is not None)


def squared_error(output: Tensor, target: Tensor) -> Tensor:
    return nn.functional.mse_loss(output, target, reduction="sum") / target.shape[1]


def train(case: Case, wrap: Callable | None = None, rank: int = 0, world_size: int = 1, dtype=torch.float32,
          ) -> tuple[Tensor, Tensor]:
    """The gradient of the first step, and the parameters after the last; without `wrap`, of one process."""
    model = build(case.model, rank).to(dtype)
    model = wrap(model) if wrap else model
    optimizer = case.optimizer([p for p in model.parameters() if p.requires_grad])
    x, y = (t.to(dtype) for t in regression(NUM_STEPS * case.num_samples).tensors)
    part, first = part_of_batch(case.num_samples, rank, world_size), None
    for step in range(NUM_STEPS):
        batch = slice(step * case.num_samples, (step + 1) * case.num_samples)
        mine, wanted = x[batch][part], y[batch][part]
        loss = squared_error(model(mine), wanted)
        optimizer.zero_grad(set_to_none=True)
        (global_mean(loss, len(mine)) if wrap else loss / len(mine)).backward()
        if isinstance(model, NaiveDDP):
            model.sync_grads()
        first = gradient(model) if first is None else first
        optimizer.step()
    return first, flat(model.parameters())


def trained_each_way(rank: int, world_size: int, name: str) -> dict[str, tuple[Tensor, Tensor]]:
    return {way: train(CASES[name], wrap, rank, world_size) for way, wrap in WAYS.items()}
