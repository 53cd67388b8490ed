"""Rank programs with what users do to ZeRO that must raise, or must not matter; no pytest here."""
import contextlib
import copy
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from helpers.run.commands.zero import all_parameters
from helpers.run.launch import preload
from helpers.run.measure.residency import residency
from helpers.run.models import mlp, perceptron
from helpers.run.zero import ZERO_STAGES, Zero3


def inputs(rank: int, step: int = 0) -> Tensor:
    return torch.randn(6, 16, generator=torch.Generator().manual_seed(100 * step + rank))


def build(stage: int, model: nn.Module, **options):
    if stage == 3:
        options.setdefault("units", [layer for layer in model.modules() if isinstance(layer, nn.Linear)])
    return ZERO_STAGES[stage](model, torch.optim.SGD, lr=0.1, **options)


def small() -> nn.Sequential:
    torch.manual_seed(0)
    return perceptron(16, 32, 16)


def away(zero: nn.Module, world_size: int, alone: nn.Module, steps: range) -> float:
    """How far the parameters are from one process's that makes these steps on everybody's samples."""
    optimizer = torch.optim.SGD(alone.parameters(), 0.1)
    for step in steps:
        optimizer.zero_grad()
        (sum(alone(inputs(rank, step)).square().mean() for rank in range(world_size)) / world_size).backward()
        optimizer.step()
    expected = all_parameters(alone)
    return ((all_parameters(zero) - expected).abs().max() / expected.abs().max()).item()


def train(zero: nn.Module, rank: int, steps: range) -> None:
    for step in steps:
        zero.zero_grad(set_to_none=True)                    # as torch's optimizers take it
        zero(inputs(rank, step)).square().mean().backward()
        zero.step()


def goes_on_after_a_failed_backward(rank, world_size, stage):
    """Somebody catches the error of a batch, and goes on with the next."""
    model = small()
    zero = build(stage, model)

    def fails(_):
        raise ArithmeticError("a bad batch")

    watch = model[1].register_forward_hook(lambda _module, _inputs, output: output.register_hook(fails) and None)
    with contextlib.suppress(ArithmeticError):
        zero(inputs(rank)).square().mean().backward()           # the last layer has its gradient, the first has none
    watch.remove()
    train(zero, rank, range(3))
    return away(zero, world_size, small(), range(3))


def backward_through_a_graph_from_before_the_step(rank, world_size, stage):
    zero = build(stage, small())
    old = zero(inputs(rank)).square().mean()
    train(zero, rank, range(1))
    old.backward()


def loads_a_state(rank, world_size, stage):
    """In mixed precision, so that there is a master copy; the rate is 0, so that nothing else moves."""
    model, other = small(), perceptron(16, 32, 16)
    zero = build(stage, model, dtype=torch.bfloat16)
    zero.optimizer.torch_optimizer.param_groups[0]["lr"] = 0.0
    model.load_state_dict(other.state_dict())
    train(zero, rank, range(1))
    return (all_parameters(model) - all_parameters(other)).abs().max().item()


def asks_for_the_state(rank, world_size, gathered):
    """How many tensors there are, and whether they are those of the model before it was wrapped."""
    zero, expected = build(3, small()), small().state_dict()
    with zero.full_parameters() if gathered else contextlib.nullcontext():
        state = zero.module.state_dict()
        return len(state), all(torch.equal(tensor, expected[name]) for name, tensor in state.items())


def loads_into_shards(rank, world_size):
    zero = build(3, small())
    with zero.full_parameters() as full:
        full.load_state_dict(perceptron(16, 32, 16).state_dict())


def has_buckets_in_stage_3(rank, world_size):
    build(3, small(), bucket_bytes=2000)


def freezes_later(rank, world_size, stage):
    model = small()
    zero = build(stage, model)
    model[0].bias.requires_grad_(False)
    train(zero, rank, range(1))


class Shared(nn.Module):
    """One layer in two checkpoints, each of which has a backward of its own inside the whole one."""

    def __init__(self):
        super().__init__()
        self.layer, self.head = nn.Linear(16, 16), nn.Linear(16, 4)

    def forward(self, x):
        x = checkpoint(self.layer, x.requires_grad_(), use_reentrant=True)
        return self.head(checkpoint(self.layer, x, use_reentrant=True))


def checkpoints_a_shared_layer_twice(rank, world_size):
    zero = build(2, Shared(), bucket_bytes=0)
    zero(inputs(rank)).sum().backward()


def adapters(num_layers: int = 8) -> nn.Sequential:
    """Frozen matrices, and a small one to train before them."""
    model = mlp(64, num_layers).requires_grad_(False)
    return nn.Sequential(nn.Linear(16, 64), *model)


def peak_of_frozen_units(rank, world_size):
    """The most parameters alive in a step, in frozen layers."""
    model = adapters()
    zero = Zero3(model, units=list(model))
    with residency(zero.held()) as alive:
        zero(inputs(rank)).sum().backward()
    return max(alive.bytes["parameter"]) / (4 * 64 * 64)


@dataclass
class Output:
    hidden: Tensor


class Wrapped(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(16, 16)

    def forward(self, x):
        return Output(self.layer(x))


class Chain(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = Wrapped(), Wrapped()

    def forward(self, x):
        return self.second(self.first(x).hidden).hidden


def units_that_return_a_dataclass(rank, world_size):
    torch.manual_seed(0)
    model = Chain()
    alone = copy.deepcopy(model)
    zero = build(3, model, units=[model.first, model.second])
    train(zero, rank, range(3))
    return away(zero, world_size, alone, range(3))


def model_of_lists(rank, world_size):
    model = nn.Sequential()
    model.blocks = nn.ModuleList([nn.Linear(16, 16)])
    build(3, model, units=[model.blocks])


def in_float64(rank, world_size, stage):
    """The norm that is clipped by, ours and that of one process on everybody's samples."""
    zero, alone = build(stage, small().double()), small().double()
    zero(inputs(rank).double()).square().mean().backward()
    (sum(alone(inputs(r).double()).square().mean() for r in range(world_size)) / world_size).backward()
    return zero.clip_grad_norm_(0.01).item(), nn.utils.clip_grad_norm_(alone.parameters(), 0.01).item()


class Checkpointed(nn.Module):
    """Two units in one checkpoint, which backward runs again to its end."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(16, 16), nn.Linear(16, 16)

    def forward(self, x):
        return checkpoint(lambda h: self.second(torch.tanh(self.first(h))), x, use_reentrant=False, early_stop=False)


def units_inside_a_checkpoint(rank, world_size):
    torch.manual_seed(0)
    model = Checkpointed()
    alone = copy.deepcopy(model)
    zero = build(3, model)
    train(zero, rank, range(3))
    return away(zero, world_size, alone, range(3))


def validates_on_rank_0(rank, world_size):
    zero = build(3, small())
    if rank == 0:
        zero(inputs(rank))


preload(__name__)
