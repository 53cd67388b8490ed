"""Rank program of `python -m helpers zero`: the stages of ZeRO beside one process and PyTorch's own.

All train a perceptron of 1,732 parameters, 16 -> 32 -> 32 -> 4, by Adam, on `batch_size` samples a rank.
"""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel

from helpers.run.commands.ddp import WIDTHS
from helpers.run.data_sharding import part_of_batch
from helpers.run.measure.meters import wire
from helpers.run.measure.state import bytes_by_term, state_tensors
from helpers.run.models import perceptron, regression
from helpers.run.zero import ZERO_STAGES, Zero1, Zero3

ALONE, MIXED = "one process", ", bf16 and fp32"
DDP, REDUNDANCY, FSDP = (f"PyTorch's {name}" for name in ("DDP", "ZeroRedundancyOptimizer", "fully_shard"))


@dataclass(frozen=True)
class ZeroRun:
    """What became of one way of training, on one rank."""

    before: float               # loss on all data
    after: float
    parameters: Tensor          # [1732], all of them
    state: dict[str, int]       # bytes of each term after the last step
    sent: float                 # bytes a step


def stages(rank: int, world_size: int, num_steps: int, batch_size: int, seed: int, rate: float) -> dict[str, ZeroRun]:
    """Train in each way, from the same parameters and on the same batches."""
    batches = regression(num_steps * world_size * batch_size, WIDTHS[0], WIDTHS[-1], seed).tensors
    trained = {}
    for name, wrap in WAYS.items():
        torch.manual_seed(seed)
        part = slice(None) if name.startswith(ALONE) else part_of_batch(world_size * batch_size, rank, world_size)
        trained[name] = _train(*wrap(perceptron(*WIDTHS), rate), batches, world_size * batch_size, part)
    return trained


def _train(module: nn.Module, optimizer: object, data: tuple[Tensor, Tensor], batch_size: int, part: slice) -> ZeroRun:
    before = _loss(module, *data)
    pairs = list(zip(*(each.split(batch_size) for each in data), strict=True))
    with wire() as sent:
        for inputs, targets in pairs:
            optimizer.zero_grad()
            mse_loss(module(inputs[part]).float(), targets[part]).backward()
            optimizer.step()
    return ZeroRun(before, _loss(module, *data), all_parameters(module), bytes_by_term(_state(module, optimizer)),
                   sent.sent / len(pairs))


def _state(module: nn.Module, optimizer: object) -> dict[str, list[Tensor]]:
    if isinstance(optimizer, Zero1):
        return optimizer.held()
    if isinstance(optimizer, MasterCopies):
        return state_tensors(module, optimizer.adam) | {"master": optimizer.masters}
    return state_tensors(module, getattr(optimizer, "optim", optimizer))   # .optim has ZeroRedundancyOptimizer's shard


class MasterCopies:
    """Mixed precision in one process: Adam updates an fp32 copy of each bf16 parameter."""

    def __init__(self, model: nn.Module, rate: float):
        self.parameters = list(model.parameters())
        self.masters = [p.detach().clone() for p in self.parameters]
        self.adam = torch.optim.Adam(self.masters, lr=rate)
        model.bfloat16().register_forward_pre_hook(lambda _, args: (args[0].bfloat16(),))

    def zero_grad(self) -> None:
        """Clear the gradients of the bf16 model."""
        for parameter in self.parameters:
            parameter.grad = None

    def step(self) -> None:
        """Step on the fp32 copies, and round them into the bf16 model."""
        for parameter, master in zip(self.parameters, self.masters, strict=True):
            master.grad = parameter.grad.float()
        self.adam.step()
        for parameter, master in zip(self.parameters, self.masters, strict=True):
            parameter.data.copy_(master)


def all_parameters(module: nn.Module) -> Tensor:
    """[P], also of a sharded module; every rank must call it."""
    if isinstance(module, Zero3):
        with module.full_parameters() as full:
            return all_parameters(full)
    each = [p.full_tensor() if hasattr(p, "full_tensor") else p for p in module.parameters()]
    return torch.cat([p.detach().float().reshape(-1) for p in each])


def _loss(module: nn.Module, inputs: Tensor, targets: Tensor) -> float:
    with torch.no_grad():
        return mse_loss(module(inputs).float(), targets).item()


def _adam(wrap: Callable, model: nn.Module, rate: float) -> tuple[nn.Module, torch.optim.Optimizer]:
    module = wrap(model)
    return module, torch.optim.Adam(module.parameters(), lr=rate)


def _redundancy(model: nn.Module, rate: float) -> tuple[nn.Module, torch.optim.Optimizer]:
    ddp = DistributedDataParallel(model)
    return ddp, ZeroRedundancyOptimizer(ddp.parameters(), torch.optim.Adam, lr=rate)


def _ours(stage: type, model: nn.Module, rate: float, **options) -> tuple[nn.Module, nn.Module]:
    if stage is Zero3:
        options["units"] = _linears(model)
    zero = stage(model, torch.optim.Adam, lr=rate, **options)
    return zero, zero


def _linears(model: nn.Module) -> list[nn.Module]:
    return [layer for layer in model if isinstance(layer, nn.Linear)]


def _fsdp(model: nn.Module) -> nn.Module:
    for layer in _linears(model):
        fully_shard(layer)
    return fully_shard(model)


OURS = {f"ZeRO-{number}": stage for number, stage in ZERO_STAGES.items()}
WAYS = {ALONE: partial(_adam, lambda model: model),
        DDP: partial(_adam, DistributedDataParallel),
        **{name: partial(_ours, stage) for name, stage in OURS.items()},
        REDUNDANCY: _redundancy,
        FSDP: partial(_adam, _fsdp),
        ALONE + MIXED: lambda model, rate: (model, MasterCopies(model, rate)),
        **{name + MIXED: partial(_ours, stage, dtype=torch.bfloat16) for name, stage in OURS.items()}}
