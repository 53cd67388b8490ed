"""Rank programs that a learner might hand in, all right; no pytest here, so that ranks need not import it."""
from decimal import Decimal
from fractions import Fraction

import numpy as np
import torch
from torch.distributed.fsdp import fully_shard

from helpers.run.measure.meters import memory
from helpers.run.models import mlp


def shard(model):
    for block in model:
        fully_shard(block)
    return fully_shard(model)


def momentum(parameters):
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9)


def trained(prepare=shard, optimizer=momentum, depth=16, width=512, step=True, backward=True, num_steps=1):
    """A model and its optimizer after training; must be kept alive by the caller."""
    model = prepare(mlp(width=width, depth=depth))
    updates = optimizer(model.parameters())
    for _ in range(num_steps):
        updates.zero_grad()
        loss = model(torch.ones(2, width)).sum()
        if backward:
            loss.backward()
        if step:
            updates.step()
    return model, updates


def measured(**choices):
    with memory() as grown:
        kept = trained(**choices)
    del kept
    return grown.tensors


def is_written_out(rank, world_size):
    with memory() as grown:
        model = mlp(width=512, depth=16)
        for block in model:
            fully_shard(block)
        fully_shard(model)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        model(torch.ones(2, 512)).sum().backward()
        optimizer.step()
    return grown.tensors


def uses_functions_of_its_own(rank, world_size):
    return measured()


def takes_three_steps(rank, world_size):
    return measured(num_steps=3)


def has_nesterov_and_a_loss(rank, world_size):
    inputs, targets = torch.randn(8, 512), torch.zeros(8, 512)
    with memory() as grown:
        model = shard(mlp(512, 16))
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9, nesterov=True, foreach=False)
        loss = torch.nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        optimizer.step()
    return float(grown.tensors)


def takes_any_arguments(*args, **kwargs):
    return measured()


def measures_twice(rank, world_size):
    with memory():
        before = shard(mlp(width=512, depth=2))
    del before
    return measured()


def returns_a_fraction(rank, world_size):
    return Fraction(measured())


def returns_a_decimal(rank, world_size):
    return Decimal(measured())


def returns_a_number_of_numpy(rank, world_size):
    return np.int64(measured())


def returns_a_tensor(rank, world_size):
    return torch.tensor(measured())
