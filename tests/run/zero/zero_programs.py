"""Rank programs for ZeRO: train a case in one process, by ours, or by PyTorch's.

Without a way, `train` is the reference: one process on the whole batch.  With one, it has a rank's part of each batch.
"""
from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel
from torch.optim.lr_scheduler import ExponentialLR

from helpers.run.data_sharding import global_mean, part_of_batch
from helpers.run.launch import preload
from helpers.run.models import regression
from helpers.run.zero import Zero1, Zero2, Zero3
from tests.run.ddp.ddp_programs import build, flat
from tests.run.zero.zero_cases import CASES, Case, Routed, plain

NUM_STEPS = 8                   # the first of Adam is the largest, and a ring's messages are slow
OURS = {"zero1": Zero1, "zero2": Zero2, "zero3": Zero3}


class Ours:
    def __init__(self, way: str, model: nn.Module, case: Case, **options):
        options |= {"units": case.units(model), "reshard_after_forward": case.reshard_after_forward} \
            if way == "zero3" else {"bucket_bytes": case.bucket_bytes}
        groups = case.groups(model) if case.groups else None
        self.model = OURS[way](model, case.optimizer, groups=groups, **options, **case.options)
        self.zero_grad, self.step, self.clip = self.model.zero_grad, self.model.step, self.model.clip_grad_norm_
        self.optimizer = self.model.optimizer.torch_optimizer

    def parameters(self) -> Tensor:
        if not isinstance(self.model, Zero3):
            return flat(self.model.parameters())
        with self.model.full_parameters() as module:
            return flat(module.parameters())


class Torchs:
    """A model with an optimizer of its own: in one process, or as PyTorch shards them."""

    def __init__(self, way: str | None, model: nn.Module, case: Case):
        units, sharded = case.units(model), way == "ddp"
        if way == "ddp":
            model = DistributedDataParallel(model, find_unused_parameters=isinstance(model, Routed))
        elif way == "fsdp":
            for tensor in (*model.parameters(), *model.buffers()):
                torch.distributed.broadcast(tensor.detach(), src=0)
            for unit in (*reversed(units), model):
                fully_shard(unit, reshard_after_forward=case.reshard_after_forward)
        self.model = model
        parameters = case.groups(model) if case.groups else [{"params": list(model.parameters())}]
        parameters = [group | {"params": [p for p in group["params"] if p.requires_grad]} for group in parameters]
        self.optimizer = ZeroRedundancyOptimizer(parameters, case.optimizer, **case.options) if sharded else \
            case.optimizer(parameters, **case.options)

    def step(self) -> None:
        self.optimizer.step()

    def zero_grad(self) -> None:
        """To zero, since no gradient counts as gradient 0."""
        for parameter in self.model.parameters():
            if parameter.requires_grad:
                parameter.grad = torch.zeros_like(parameter)

    def clip(self, max_norm: float) -> Tensor:
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), max_norm)
        return norm.full_tensor() if hasattr(norm, "full_tensor") else norm

    def parameters(self) -> Tensor:
        return flat(p.full_tensor() if hasattr(p, "full_tensor") else p for p in self.model.parameters())


def batches(case: Case, dtype: torch.dtype = torch.float32) -> Iterator[tuple[Tensor, Tensor]]:
    x, y = (tensor.to(dtype) for tensor in regression(NUM_STEPS * case.num_samples).tensors)
    return zip(x.split(case.num_samples), y.split(case.num_samples), strict=True)


def train(case: Case, way: str | None = None, rank: int = 0, world_size: int = 1,
          dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    """The parameters after the last step, and the norms that were clipped.  At first the ranks' models are unlike."""
    model, norms = build(case.model, rank).to(dtype), []
    trainer = Ours(way, model, case) if way in OURS else Torchs(way, model, case)
    schedule = ExponentialLR(trainer.optimizer, 0.9)
    trainer.zero_grad()
    for step, (x, y) in enumerate(batches(case, dtype)):
        if case.zero_grad == "before forward":
            _zero_grad(trainer, case)
        microbatches = zip(*(tensor.chunk(case.num_microbatches) for tensor in (x, y)), strict=True)
        for number, (xs, ys) in enumerate(microbatches):
            part = part_of_batch(len(xs), rank, world_size)
            output = trainer.model(xs[part])
            if case.zero_grad == "after forward" and number == 0:
                _zero_grad(trainer, case)
            if case.evaluates and step % 2:
                _evaluate(trainer.model, xs)
            (_mean_loss(output, ys[part], way and case.weighted) / case.num_microbatches).backward()
        if case.max_norm:
            norms.append(trainer.clip(case.max_norm))
        trainer.step()
        if case.zero_grad == "after step":
            _zero_grad(trainer, case)
        if case.schedule:
            schedule.step()
        if case.evaluates and not step % 2:
            _evaluate(trainer.model, x)
    return trainer.parameters(), torch.tensor(norms)


def _mean_loss(output: Tensor, y: Tensor, weighted: object = False) -> Tensor:
    loss_sum = nn.functional.mse_loss(output, y, reduction="sum")
    return global_mean(loss_sum, len(y)) if weighted else loss_sum / len(y)


def _zero_grad(trainer: Ours | Torchs, case: Case) -> None:
    trainer.zero_grad()
    if case.sets_to_none and isinstance(trainer, Ours):
        trainer.model.module.zero_grad()


def _evaluate(model: nn.Module, x: Tensor) -> None:
    with torch.no_grad():
        model.eval()(x)
    model.train()


def trained(rank: int, world_size: int, name: str, way: str) -> tuple[Tensor, Tensor]:
    return train(CASES[name], way, rank, world_size)


def one_default_step(rank: int, world_size: int) -> list[Tensor]:
    vectors = []
    for way in OURS:
        trainer = Ours(way, build(plain, rank), Case(options={}, units=lambda model: []))
        trainer.model(torch.ones(2, 16)).sum().backward()
        trainer.step()
        vectors.append(trainer.parameters())
    return vectors


# ---- mixed precision

def plainly(num_parts: int, dtype: torch.dtype | None) -> Tensor:
    """One process: the parameters in fp32 after all steps of Adam, with gradients in `dtype` of a model in `dtype`."""
    master = build(plain, 0)
    model = build(plain, 0).to(dtype)
    optimizer = torch.optim.Adam(master.parameters(), lr=0.01)
    for x, y in batches(Case()):
        total = None
        for xs, ys in zip(x.tensor_split(num_parts), y.tensor_split(num_parts), strict=True):
            model.zero_grad()
            _mean_loss(model(xs.to(dtype)), ys.to(dtype)).backward()
            part = [p.grad / num_parts for p in model.parameters()]
            total = part if total is None else [one + other for one, other in zip(total, part, strict=True)]
        for parameter, gradient in zip(master.parameters(), total, strict=True):
            parameter.grad = gradient.to(parameter.dtype)
        optimizer.step()
        with torch.no_grad():
            for parameter, copy in zip(master.parameters(), model.parameters(), strict=True):
                copy.copy_(parameter)
    return flat(model.parameters())


def mixed(rank: int, world_size: int) -> tuple[dict[str, Tensor], Tensor]:
    """By stage; and plainly."""
    trained = {}
    for way in OURS:
        trainer = Ours(way, build(plain, rank), Case(), dtype=torch.bfloat16)
        for x, y in batches(Case()):
            part = part_of_batch(len(x), rank, world_size)
            trainer.zero_grad()
            _mean_loss(trainer.model(x[part]), y[part].bfloat16()).backward()
            trainer.step()
        trained[way] = trainer.parameters()
    return trained, plainly(world_size, torch.bfloat16)


# ---- gradients that stay

def never_zeroes(rank: int, world_size: int, way: str) -> tuple[Tensor, Tensor]:
    case, found = Case(optimizer=torch.optim.SGD, options={"lr": 0.05}), []
    for trainer, part in ((Ours(way, build(plain, 0), case), slice(rank, None, world_size)),
                          (Torchs(None, build(plain, 0), case), slice(None))):
        for x, y in list(batches(case))[:4]:
            _mean_loss(trainer.model(x[part]), y[part]).backward()
            trainer.step()
        found.append(trainer.parameters())
    return tuple(found)


preload(__name__)
