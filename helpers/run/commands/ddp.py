"""Rank programs of `python -m helpers ddp-demo` and `python -m helpers ddp`.

Both train a perceptron of 1,732 parameters, 16 -> 32 -> 32 -> 4, by SGD with rate 0.05, on `batch_size` samples a
rank, and hold DDP against one process that has the whole batch.
"""
from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import parameters_to_vector

from helpers.run.data_sharding import part_of_batch
from helpers.run.ddp import DDP
from helpers.run.measure.meters import wire
from helpers.run.models import perceptron, regression

WIDTHS, LEARNING_RATE = (16, 32, 32, 4), 0.05


def demo(rank: int, world_size: int, num_steps: int, batch_size: int, seed: int) -> dict:
    """Weights differ at first, until DDP's broadcast; then every gradient is compared with one process's."""
    torch.manual_seed(seed + rank)
    model, alone, seen = perceptron(*WIDTHS), perceptron(*WIDTHS), []
    ddp = DDP(model)
    optimizer = torch.optim.SGD(ddp.parameters(), LEARNING_RATE)
    mine = part_of_batch(world_size * batch_size, rank, world_size)
    for inputs, targets in _batches(num_steps, world_size * batch_size, seed):
        alone.load_state_dict(model.state_dict())
        expected = _gradient(alone, mse_loss(alone(inputs), targets))
        with wire() as sent:
            loss = mse_loss(ddp(inputs[mine]), targets[mine])
            got = _gradient(ddp, loss)
        seen.append((loss.item(), ((got - expected).abs().max() / expected.abs().max()).item(), sent.sent))
        optimizer.step()
    losses, differences, bytes_sent = zip(*seen, strict=True)
    return {"losses": losses, "gradient_difference": max(differences), "spread": spread(model),
            "bytes_sent": bytes_sent[-1]}


def compared(rank: int, world_size: int, num_steps: int, batch_size: int, seed: int) -> dict[str, tuple]:
    """Of one process, our DDP and PyTorch's: the loss on all data before and after, and the parameters [1732]."""
    ways = {"one process": None, "our DDP": DDP, "PyTorch's DDP": DistributedDataParallel}
    trained = {}
    for name, wrap in ways.items():
        torch.manual_seed(seed)
        model = perceptron(*WIDTHS)
        part = part_of_batch(world_size * batch_size, rank, world_size) if wrap else slice(None)
        trained[name] = _train(wrap(model) if wrap else model, part, list(
            _batches(num_steps, world_size * batch_size, seed)))
    return trained


def _train(model: nn.Module, part: slice, batches: list) -> tuple[float, float, Tensor]:
    optimizer = torch.optim.SGD(model.parameters(), LEARNING_RATE)
    x, y = map(torch.cat, zip(*batches, strict=True))
    with torch.no_grad():
        before = mse_loss(model(x), y).item()
    for inputs, targets in batches:
        _gradient(model, mse_loss(model(inputs[part]), targets[part]))
        optimizer.step()
    with torch.no_grad():
        return before, mse_loss(model(x), y).item(), parameters_to_vector(model.parameters())


def spread(module: nn.Module) -> float:
    """The largest difference between ranks in any parameter."""
    highest = parameters_to_vector(module.parameters()).detach()
    lowest = highest.clone()
    dist.all_reduce(highest, op=dist.ReduceOp.MAX)
    dist.all_reduce(lowest, op=dist.ReduceOp.MIN)
    return (highest - lowest).max().item()


def _batches(num_steps: int, batch_size: int, seed: int) -> list[tuple[Tensor, Tensor]]:
    x, y = regression(num_steps * batch_size, WIDTHS[0], WIDTHS[-1], seed).tensors
    return list(zip(x.split(batch_size), y.split(batch_size), strict=True))


def _gradient(model: nn.Module, loss: Tensor) -> Tensor:
    model.zero_grad()
    loss.backward()
    return parameters_to_vector(p.grad for p in model.parameters())
