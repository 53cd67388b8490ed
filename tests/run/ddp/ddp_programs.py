"""Rank programs for data parallel: what is trained, how it is wrapped, and what came of it.

A way wraps a model so that ranks share its gradients: ours, plainly ours, or PyTorch's.  Each is trained on its
rank's part of every batch; `train` without a way is the reference, one process on the whole batch.
"""
import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from helpers.run.data_sharding import global_mean, part_of_batch
from helpers.run.ddp import DDP, NaiveDDP
from helpers.run.launch import preload
from helpers.run.measure import recorder
from helpers.run.measure.meters import wire
from helpers.run.measure.timeline import timeline
from helpers.run.models import Padded, mlp, perceptron, regression

NUM_STEPS = 8
VIEWS = (False, True)                   # of buckets, as gradients
BOTH = {"ours": DDP, "torch": DistributedDataParallel}
WAYS = {
    "naive": NaiveDDP,
    "0 bytes": partial(DDP, bucket_bytes=0),
    "2000 bytes, views": partial(DDP, bucket_bytes=2000, gradient_as_bucket_view=True),     # two buckets
    "default": DDP,
    "inf, views": partial(DDP, bucket_bytes=math.inf, first_bucket_bytes=math.inf, gradient_as_bucket_view=True),
    "torch": DistributedDataParallel,
}
plain = partial(perceptron, 16, 32, 32, 4)
sgd = partial(torch.optim.SGD, lr=0.05, momentum=0.9)


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


class TwoDtypes(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(16, 8), nn.Linear(8, 4)
        self.middle = nn.Linear(8, 8, dtype=torch.bfloat16)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.middle(self.first(x).bfloat16()).float())


def frozen() -> nn.Module:
    model = plain()
    model[2].requires_grad_(False)
    return model


def normed() -> nn.Module:
    return nn.Sequential(nn.Linear(16, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 4))


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
    "a rank without samples": Case(plain, num_samples=3),       # if there are 4
    "adam": Case(plain, partial(torch.optim.Adam, lr=0.01)),
}


def build(make: Callable[[], nn.Module], seed: int) -> nn.Module:
    torch.manual_seed(seed)
    return make()


def flat(tensors: Iterable[Tensor]) -> Tensor:
    return torch.cat([tensor.detach().flatten().clone() for tensor in tensors])


def gradient(model: nn.Module) -> Tensor:
    return flat(p.grad for p in model.parameters() if p.grad is not None)


def gradients(model: nn.Module) -> dict[str, Tensor | None]:
    return {name.removeprefix("module."): None if p.grad is None else p.grad.clone()
            for name, p in model.named_parameters()}


def train(case: Case, wrap: Callable | None = None, rank: int = 0, world_size: int = 1) -> tuple[Tensor, Tensor]:
    """The gradient of the first step, and the parameters after the last; without `wrap`, of one process.

    Before they are wrapped, the ranks' models are unlike.
    """
    model, first = build(case.model, rank), None
    model = wrap(model) if wrap else model
    optimizer = case.optimizer([p for p in model.parameters() if p.requires_grad])
    part = part_of_batch(case.num_samples, rank, world_size)
    for x, y in zip(*(t.split(case.num_samples) for t in regression(NUM_STEPS * case.num_samples).tensors),
                    strict=True):
        loss_sum = nn.functional.mse_loss(model(x[part]), y[part], reduction="sum")
        optimizer.zero_grad()
        (global_mean(loss_sum, len(x[part])) if wrap else loss_sum / len(x)).backward()
        if wrap is NaiveDDP:
            model.sync_grads()
        first = gradient(model) if first is None else first
        optimizer.step()
    return first, flat(model.parameters())


def trained_each_way(rank: int, world_size: int, name: str) -> dict[str, tuple[Tensor, Tensor]]:
    return {way: train(CASES[name], wrap, rank, world_size) for way, wrap in WAYS.items()}


# ---- one scenario, by ours and by torch: `scenario(wrap, rank, ...)` returns what must be the same

def on_both(rank: int, world_size: int, scenario: Callable, *args, **options) -> dict:
    return {name: scenario(wrap, rank, *args, **options) for name, wrap in BOTH.items()}


def scenario_on_both(rank: int, world_size: int, name: str) -> dict:
    scenario, args, options = SCENARIOS[name]
    return on_both(rank, world_size, scenario, *args, **options)


def samples(rank: int, number: int) -> Tensor:
    """x [6, 16]: microbatch `number` of a rank."""
    return torch.randn(6, 16, generator=torch.Generator().manual_seed(100 * rank + number))


def loss_of(output: object) -> Tensor | float:
    """Mean square of all tensors in any nesting."""
    if isinstance(output, Tensor):
        return output.square().mean()
    if isinstance(output, dict):
        return sum(map(loss_of, output.values()))
    if dataclasses.is_dataclass(output):
        return sum(map(loss_of, vars(output).values()))
    return sum(map(loss_of, output)) if isinstance(output, tuple | list) else 0.0


def with_batch_norm(wrap, rank, accumulate=False) -> list[Tensor]:
    """The buffers after each training step, and after the forward in eval mode that follows it."""
    model, seen = wrap(build(normed, rank)), []
    for step in range(3):
        with model.no_sync() if accumulate and step == 1 else torch.enable_grad():
            loss_of(model(samples(rank, step))).backward()
        seen.append(flat(model.buffers()))
        with torch.no_grad():
            model.eval()(samples(rank, step))
        seen.append(flat(model.train().buffers()))
    return seen


def evaluates_before_backward(wrap, rank, make) -> list[Tensor]:
    model, seen = wrap(build(make, rank)), []
    for step in range(2):
        loss = loss_of(model(samples(rank, step)))
        with torch.no_grad():
            model.eval()(samples(rank, 9))
        loss.backward()
        model.train()
        seen.append(gradient(model))
    return seen


def accumulates(wrap, rank, which: str, views: bool) -> list[Tensor]:
    """Gradients of two steps of three microbatches; `which` says what stands in no_sync."""
    model, seen = wrap(build(plain, rank), gradient_as_bucket_view=views), []
    for _ in range(2):
        model.zero_grad()
        if which == "all but the last":
            with model.no_sync():
                for number in (0, 1):
                    (loss_of(model(samples(rank, number))) / 3).backward()
            (loss_of(model(samples(rank, 2))) / 3).backward()
        elif which == "all":
            with model.no_sync():
                for number in (0, 1, 2):
                    (loss_of(model(samples(rank, number))) / 3).backward()
        elif which == "backward only":
            loss = sum(loss_of(model(samples(rank, number))) / 3 for number in (0, 1, 2))
            with model.no_sync():
                loss.backward()
        seen.append(gradient(model))
    return seen


def whole_gradient(ranks: Iterable[int], numbers: Iterable[int]) -> Tensor:
    """One process: the gradient of the mean loss over the microbatches `numbers` of `ranks`."""
    model = build(plain, 0)
    losses = [loss_of(model(samples(rank, number))) for rank in ranks for number in numbers]
    (sum(losses) / len(losses)).backward()
    return gradient(model)


def three_steps(wrap, rank, make, views=False, set_to_none=True) -> list[Tensor]:
    model = wrap(build(make, rank), gradient_as_bucket_view=views)
    optimizer, seen = sgd(model.parameters()), []
    for step in range(3):
        optimizer.zero_grad(set_to_none=set_to_none)
        loss_of(model(samples(rank, step))).backward()
        optimizer.step()
        seen += [tensor.detach().clone() for p in model.parameters() for tensor in (p.grad, p)]
    return seen


# ---- parameters without a gradient

@dataclass
class Packed:
    a: object
    b: object


class Record(dict):
    """As the outputs of Hugging Face's models."""


PACKS = {
    "tuple": lambda a, b: (a, b),
    "nested": lambda a, b: {"first": [a], "others": ({"b": b}, "text", None)},
    "dataclass": Packed,
    "subclass of dict": lambda a, b: Record(a=a, b=b),
}


class Heads(nn.Module):
    """Two heads on one body; forward uses those whose letters it is given."""

    def __init__(self, pack: Callable = PACKS["tuple"]):
        super().__init__()
        self.body, self.a, self.b, self.pack = nn.Linear(16, 8), nn.Linear(8, 4), nn.Linear(8, 4), pack

    def forward(self, x: Tensor, heads: str = "ab") -> object:
        h = torch.tanh(self.body(x))
        return self.pack(self.a(h) if "a" in heads else None, self.b(h) if "b" in heads else None)


def uses_heads(wrap, rank, steps: list[tuple[str, ...]], pack="tuple", find=True, **options) -> list[dict]:
    """All gradients after each step; a step says for each rank which heads it uses, and "-" for no_sync."""
    model, seen = wrap(build(partial(Heads, PACKS[pack]), rank), find_unused_parameters=find, **options), []
    for number, heads in enumerate(steps):
        if not (number and "-" in steps[number - 1][rank]):
            model.zero_grad()
        with model.no_sync() if "-" in heads[rank] else torch.enable_grad():
            loss_of(model(samples(rank, number), heads[rank])).backward()
        seen.append(gradients(model))
    return seen


def drops_an_output(wrap, rank, find: bool) -> list[dict]:
    """Forward uses both heads, the loss of rank 0 only the first."""
    model, seen = wrap(build(Heads, rank), find_unused_parameters=find), []
    for number in range(2):
        model.zero_grad()
        output = model(samples(rank, number))
        loss_of(output if rank else output[0]).backward()
        seen.append(gradients(model))
    return seen


def uses_a_parameter_outside_forward(wrap, rank) -> None:
    model = wrap(build(Heads, rank), find_unused_parameters=True)
    (loss_of(model(samples(rank, 0), "a")) + loss_of(model.module.b.weight) * (1 + rank)).backward()
    if len({str(weight) for weight in gathered(model.module.b.weight.grad.tolist())}) > 1:
        raise AssertionError("ranks have different gradients, and nobody was told")


def gathered(value: object) -> list:
    values: list = [None] * dist.get_world_size()
    dist.all_gather_object(values, value)
    return values


SCENARIOS = {                           # what is seen with ours and with PyTorch's must be the same, bit for bit
    **{f"batch norm, accumulate={accumulate}": (with_batch_norm, (), {"accumulate": accumulate})
       for accumulate in (False, True)},
    **{f"evaluates {make.__name__}": (evaluates_before_backward, (make,), {}) for make in (normed, Scaled)},
    **{f"no_sync around {which}, views={views}": (accumulates, (which, views), {})
       for which in ("all but the last", "backward only", "all") for views in VIEWS},
    **{f"set_to_none={set_to_none}, views={views}": (three_steps, (plain, views), {"set_to_none": set_to_none})
       for set_to_none in (False, True) for views in VIEWS},
    **{f"two dtypes, views={views}": (three_steps, (TwoDtypes, views), {}) for views in VIEWS},
    **{f"one skips, {pack}": (uses_heads, ([("a", "ab")], pack), {}) for pack in PACKS},
    **{f"all skip, views={views}": (uses_heads, ([("ab", "ab"), ("a", "a"), ("ab", "a")],),
                                    {"gradient_as_bucket_view": views}) for views in VIEWS},
    "each skips another": (uses_heads, ([("a", "b"), ("b", "a")],), {}),
    **{f"used in no_sync, views={views}": (uses_heads, ([("ab-", "ab-"), ("a", "a")],),
                                           {"gradient_as_bucket_view": views}) for views in VIEWS},
}


def skips_a_head(rank: int, world_size: int, wrap, who: tuple[int, ...], num_steps: int) -> None:
    """Ranks `who` leave out a head, and nobody looks for unused parameters."""
    model = wrap(build(Heads, rank))
    for number in range(num_steps):
        loss_of(model(samples(rank, number), "a" if rank in who else "ab")).backward()
    dist.barrier()


# ---- models that cannot be wrapped

def unlike(kind: str) -> nn.Module:
    model = perceptron(16, 8, 4)
    if kind == "shape":
        return perceptron(16, 9, 4)
    if kind == "dtype":
        model[2].bfloat16()
    elif kind == "more layers":
        model.extend([nn.ReLU(), nn.Linear(4, 4)])
    elif kind == "fewer layers":
        return model[:1]
    elif kind == "buffer":
        model.register_buffer("extra", torch.ones(3))
    elif kind == "frozen":
        model[0].requires_grad_(False)
    return model


def wraps_unlike_models(rank: int, world_size: int, wrap, kind: str) -> None:
    wrap(unlike(kind if rank == 1 else "same"))


def wraps_nothing(rank: int, world_size: int, wrap) -> None:
    wrap(nn.Sequential(nn.ReLU(), nn.Linear(2, 2).requires_grad_(False)))


# ---- messages

def step(model: nn.Module, width: int) -> None:
    loss_of(model(torch.ones(2, width))).backward()


def bytes_of_steps(rank: int, world_size: int, width: int, depth: int) -> dict[str, tuple]:
    """Of each DDP: bytes of a step, of four steps, and of one step of four microbatches."""
    counted = {}
    for name, wrap in BOTH.items():
        model = wrap(mlp(width, depth))
        for _ in range(3):
            step(model, width)
        with wire() as one:
            step(model, width)
        with wire() as four:
            for _ in range(4):
                step(model, width)
        with wire() as accumulated:
            with model.no_sync():
                for _ in range(3):
                    step(model, width)
            step(model, width)
        counted[name] = one, four, accumulated
    return counted


def padded() -> nn.Module:
    return nn.Sequential(*(Padded(nn.Linear(16, 16), f"layer {n}", 0.02) for n in range(4)))


def third_step(rank: int, world_size: int, wrap: Callable) -> tuple[list, int]:
    """The timeline of a step, and how many all_reduces Python has called in all three.

    PyTorch's DDP forms its buckets anew after the first.
    """
    before, model = len(recorder.spans()), wrap(build(padded, 0))
    for _ in range(2):
        step(model, 16)
    with timeline(rank) as trace:
        step(model, 16)
    return trace, sum(span.kind == "all_reduce" for span in recorder.spans()[before:])


# ---- a plain script, as on the reference card

SEED, BATCH = 0, 4              # samples of a rank


def worker(rank: int, world_size: int, init_file: Path, folder: Path, num_steps: int) -> None:
    dist.init_process_group(backend="gloo", init_method=f"file://{init_file}", rank=rank, world_size=world_size,
                            timeout=timedelta(seconds=20))
    torch.manual_seed(SEED)
    ddp = NaiveDDP(plain())
    optim = sgd(ddp.parameters())
    for x, y in slices(rank, world_size, num_steps):
        optim.zero_grad(set_to_none=True)
        nn.functional.mse_loss(ddp(x), y).backward()
        ddp.sync_grads()
        optim.step()
    torch.save(flat(ddp.parameters()), folder / f"{rank}.pt")
    dist.destroy_process_group()


def slices(rank: int, world_size: int, num_steps: int, batch: int = BATCH) -> Iterator[tuple[Tensor, Tensor]]:
    """A step's own slice of all samples starts at step * world * batch + rank * batch."""
    x, y = regression(64).tensors
    for number in range(num_steps):
        offset = number * world_size * batch + rank * batch
        yield x[offset:offset + batch], y[offset:offset + batch]


preload(__name__)
