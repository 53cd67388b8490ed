"""Rank programs on a mesh of 2 x 2 ranks: one parallelism on each axis, or two groups that know nothing of each other.

Each training has a reference that knows no ranks: `one_process`, on the whole batch.
"""
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.nn.functional import mse_loss

from helpers.facts.schedules import Schedule, dualpipe, one_f_one_b, zb_h1
from helpers.run.data_sharding import global_mean, part_of_batch
from helpers.run.ddp import DDP, NaiveDDP, broadcast_state
from helpers.run.measure.fingerprint import first_difference
from helpers.run.models import perceptron
from helpers.run.pipeline import run_schedule
from helpers.run.zero import ZERO_STAGES

NUM_STEPS, NUM_SAMPLES, WIDTH = 4, 10, 6        # ten samples on four ranks: parts of 3, 3, 2 and 2
MAX_NORM = 0.32                                 # less than some steps have
SCHEDULES = {"1F1B": one_f_one_b(2, 4), "ZB-H1": zb_h1(2, 4), "DualPipe": dualpipe(2, 4)}
sgd = partial(torch.optim.SGD, lr=0.05, momentum=0.9)   # unlike Adam, it tells gradients of a wrong scale


class Sometimes(nn.Module):
    """A layer that not every model uses, and a buffer."""

    def __init__(self, uses_last: bool):
        super().__init__()
        self.body, self.last, self.uses_last = perceptron(WIDTH, 7, WIDTH), nn.Linear(WIDTH, WIDTH), uses_last
        self.register_buffer("mark", torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.body(x)) if self.uses_last else self.body(x)


def perceptron_of(seed: int) -> nn.Sequential:
    torch.manual_seed(seed)
    return perceptron(WIDTH, 8, 7, WIDTH).double()


def sometimes_of(seed: int, uses_last: bool) -> Sometimes:
    torch.manual_seed(seed)
    return Sometimes(uses_last).double()


def stages_of(schedule: Schedule) -> list[nn.Module]:
    torch.manual_seed(3)
    return [nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()).double() for _ in range(schedule.num_stages)]


def batches(num_steps: int = NUM_STEPS, num_samples: int = NUM_SAMPLES, seed: int = 0) -> Iterator[tuple]:
    x = torch.randn(num_steps * num_samples, WIDTH, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return zip(x.split(num_samples), torch.sin(3 * x).split(num_samples), strict=True)


def flat(model: nn.Module) -> Tensor:
    return torch.cat([p.detach().reshape(-1) for p in model.parameters()])


@dataclass
class Trained:
    """What came of a training: at its end, and in each step."""

    parameters: Tensor
    norms: Tensor                               # of the gradient, before it is clipped
    losses: list[float]


def one_process(model: nn.Module, data: Iterator[tuple], max_norm: float = float("inf")) -> Trained:
    optimizer, norms, losses = sgd(model.parameters()), [], []
    for x, y in data:
        optimizer.zero_grad()
        loss = mse_loss(model(x), y)
        loss.backward()
        norms.append(nn.utils.clip_grad_norm_([p for p in model.parameters() if p.grad is not None], max_norm))
        optimizer.step()
        losses.append(loss.item())
    return Trained(flat(model), torch.stack(norms), losses)


def loss_of_part(model: nn.Module, x: Tensor, y: Tensor, rank: int, world_size: int,
                 process_group: dist.ProcessGroup | None = None) -> Tensor:
    """What to call backward on for this rank's part; the parts are unequal."""
    part = part_of_batch(len(x), rank, world_size)
    return global_mean(mse_loss(model(x[part]), y[part], reduction="sum"), y[part].numel(), process_group)


# ---- data parallel along two axes; at first all four ranks' models are unlike

def averaged_twice(rank: int, inner: dist.ProcessGroup, outer: dist.ProcessGroup) -> Tensor:
    """DDP averages along one axis, from inside backward, then NaiveDDP along the other."""
    model = NaiveDDP(DDP(perceptron_of(rank), process_group=inner, bucket_bytes=300, first_bucket_bytes=100),
                     process_group=outer)
    optimizer = sgd(model.parameters())
    for x, y in batches():
        optimizer.zero_grad()
        loss_of_part(model, x, y, rank, 4).backward()
        model.sync_grads()
        optimizer.step()
    return flat(model)


def sharded_and_replicated(stage: int, rank: int, inner: dist.ProcessGroup, outer: dist.ProcessGroup,
                           ) -> tuple[Tensor, Tensor]:
    """ZeRO shards along one axis; along the other each shard has a replica, and their gradients are averaged."""
    model = perceptron_of(rank)
    broadcast_state(model, outer)
    options = {"units": [model[2]]} if stage == 3 else {"bucket_bytes": 300}
    zero, norms = ZERO_STAGES[stage](model, sgd, process_group=inner, **options), []
    for x, y in batches():
        zero.zero_grad()
        loss_of_part(zero, x, y, rank, 4).backward()
        zero.reduce()
        for shard in map(zero.shard_of_gradient, zero.trained):
            dist.all_reduce(shard, group=outer)
            shard.div_(dist.get_world_size(outer))
        norms.append(zero.clip_grad_norm_(MAX_NORM))
        zero.step()
    if stage < 3:
        return flat(model), torch.stack(norms)
    with zero.full_parameters() as module:
        return flat(module), torch.stack(norms)


# ---- two groups, each with its own model, data and number of steps

def own_training(number: int) -> tuple[Sometimes, Iterator[tuple]]:
    """Group 1 takes two steps more, and leaves the last layer out."""
    return sometimes_of(10 + number, uses_last=number == 0), batches(3 + 2 * number, 5, seed=10 + number)


def independent(way: str, rank: int, group: dist.ProcessGroup) -> dict[str, object]:
    (model, data), mine = own_training(rank // 2), dist.get_rank(group)
    first = rank == dist.get_global_rank(group, 0)
    for parameter in () if first else model.parameters():
        parameter.data += 1                     # the first rank's must come instead
    wrapped = NaiveDDP(model, process_group=group) if way == "NaiveDDP" else \
        DDP(model, process_group=group, find_unused_parameters=True, gradient_as_bucket_view=True)
    optimizer, marks = sgd(model.parameters()), []
    for x, y in data:
        optimizer.zero_grad()
        model.mark.fill_(rank if way == "DDP" else 0)      # NaiveDDP leaves buffers alone
        loss_of_part(wrapped, x, y, mine, 2, group).backward()
        marks.append(model.mark.item())
        if way == "NaiveDDP":
            wrapped.sync_grads()
        optimizer.step()
    return {"parameters": flat(model), "marks": set(marks), "last is trained": model.last.weight.grad is not None,
            "differs": first_difference(model, optimizer, group)}


# ---- a pipeline on one axis, data parallel on the other

def piped(schedule: Schedule, pp: dist.ProcessGroup, dp: dist.ProcessGroup) -> tuple[dict[int, Tensor], list[float]]:
    """The parameters of this rank's stages after the last step, and this rank's part of each step's loss."""
    stages = stages_of(schedule)
    mine = {s: NaiveDDP(stages[s], process_group=dp) for s in schedule.stages_of[dist.get_rank(pp)]}
    optimizer, losses = sgd([p for stage in mine.values() for p in stage.parameters()]), []
    for x, y in batches(3, 16):
        optimizer.zero_grad()
        part = part_of_batch(len(x), dist.get_rank(dp), dist.get_world_size(dp))
        losses.append(run_schedule(schedule, mine, x[part], y[part], mse_loss, boundary=(2, WIDTH),
                                   dtype=torch.float64, process_group=pp).loss)
        for stage in mine.values():
            stage.sync_grads()
        optimizer.step()
    return {s: flat(stage) for s, stage in mine.items()}, losses


# ---- everything on one mesh, in one launch

def every_training(rank: int, world_size: int) -> dict[str, object]:
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("row", "column"))
    row, column = mesh.get_group("column"), mesh.get_group("row")       # a row is what goes along the columns
    orders = {"rows inside": (row, column), "columns inside": (column, row)}
    found: dict[str, object] = {}
    for name, (inner, outer) in orders.items():
        found[f"averaged twice, {name}"] = averaged_twice(rank, inner, outer)
        for stage in ZERO_STAGES:
            found[f"stage {stage}, {name}"] = sharded_and_replicated(stage, rank, inner, outer)
        for title, schedule in SCHEDULES.items():
            found[f"{title}, {name}"] = piped(schedule, inner, outer)
    for way in ("NaiveDDP", "DDP"):
        found[f"independent {way}"] = independent(way, rank, row)
    return found
