"""What ZeRO is tried on: models, and the options with which they are trained."""
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from helpers.run.models import perceptron

STAGES = ("zero1", "zero2", "zero3")
WAYS = (*STAGES, "ddp", "fsdp")         # ddp: beside ZeroRedundancyOptimizer
NUM_WORDS = 11
plain = partial(perceptron, 16, 18, 18, 4)


def linears(model: nn.Module) -> list[nn.Module]:
    return [inner for inner in model.modules() if isinstance(inner, nn.Linear)]


class Ends(nn.Module):
    """Into words and out of them, by one matrix."""

    def __init__(self):
        super().__init__()
        self.embedding, self.output = nn.Embedding(NUM_WORDS, 8), nn.Linear(8, NUM_WORDS)
        self.output.weight = self.embedding.weight

    def forward(self, x: Tensor, out: bool = False) -> Tensor:
        return self.output(x) if out else self.embedding(x)


class Language(nn.Module):
    def __init__(self):
        super().__init__()
        self.ends, self.body = Ends(), nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        words = (3 * x[:, :5]).long() % NUM_WORDS
        return self.ends(torch.tanh(self.body(self.ends(words).sum(1))), out=True)[:, [0, 1, 2, 3]]


class Nested(nn.Module):
    """Parameters outside all units, in an outer one and in an inner one."""

    def __init__(self):
        super().__init__()
        self.scale, self.outer, self.last = nn.Parameter(torch.ones(())), plain(), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(torch.relu(self.outer(x * self.scale))) * self.scale


class Twice(nn.Module):
    """One layer, used twice, whose activations are computed again in backward the first time."""

    def __init__(self):
        super().__init__()
        self.first, self.inner, self.last = nn.Linear(16, 8), nn.Linear(8, 8), nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = checkpoint(self.inner, torch.tanh(self.first(x)), use_reentrant=False)
        return self.last(torch.tanh(self.inner(torch.tanh(x))))


class Routed(nn.Module):
    """`rare` sees the samples whose first feature is above `limit`, which few ranks have in a step."""

    def __init__(self, limit: float = 1.3):
        super().__init__()
        self.often, self.rare, self.limit = nn.Linear(16, 4), nn.Linear(16, 4), limit

    def forward(self, x: Tensor) -> Tensor:
        high, y = x[:, 0] > self.limit, self.often(x)
        return y.index_add(0, high.nonzero()[:, 0], self.rare(x[high])) if high.any() else y


def frozen() -> nn.Module:
    model = perceptron(16, 9, 9, 9, 9, 4)
    for number in (0, 4):
        model[number].requires_grad_(False)
    model[6].bias.requires_grad_(False)
    return model


def normed() -> nn.Module:
    """In eval, statistics are buffers that take part in forward; each rank draws its own at first."""
    model = nn.Sequential(nn.Linear(16, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 4)).eval()
    nn.init.normal_(model[1].running_mean)
    return model


def decaying(model: nn.Module) -> list[dict]:
    """Weight decay on matrices only, and another rate."""
    parameters = list(model.parameters())
    return [{"params": [p for p in parameters if p.ndim > 1], "weight_decay": 0.1},
            {"params": [p for p in parameters if p.ndim == 1], "lr": 0.03}]


def without_the_last_bias(model: nn.Module) -> list[dict]:
    *others, last_weight, _ = model.parameters()
    return [{"params": [last_weight, *others[2:]]}, {"params": others[:2], "lr": 0.001}]


@dataclass(frozen=True)
class Case:
    model: Callable[[], nn.Module] = plain
    optimizer: type = torch.optim.Adam
    options: dict = field(default_factory=lambda: {"lr": 0.01})
    groups: Callable[[nn.Module], list[dict]] | None = None
    max_norm: float | None = None
    num_samples: int = 24                       # of a batch
    weighted: bool = False                      # ranks have different numbers of them
    num_microbatches: int = 1
    schedule: bool = False
    zero_grad: str = "before forward"
    sets_to_none: bool = False                  # also by the module itself
    evaluates: bool = False                     # in turns after a step, and between forward and backward
    units: Callable[[nn.Module], list[nn.Module]] = lambda model: linears(model)[:1]
    reshard_after_forward: bool = True
    bucket_bytes: float = 2000
    ways: tuple[str, ...] = STAGES


CASES = {                               # messages are slow, so a case tries several options that do not meddle
    "AdamW, schedule": Case(optimizer=torch.optim.AdamW, options={"lr": 0.01, "weight_decay": 0.1}, schedule=True,
                            ways=WAYS),
    "odd sizes, groups, clipped": Case(partial(perceptron, 16, 7, 4), groups=decaying, max_norm=0.3, bucket_bytes=0),
    "fewer elements than ranks, a rank without samples":        # if there are 4
        Case(partial(perceptron, 16, 1, 4), bucket_bytes=0, num_samples=3, weighted=True),
    "tied in one unit, microbatches, clipped SGD":
        Case(Language, optimizer=torch.optim.SGD, options={"lr": 0.1}, max_norm=0.5, num_microbatches=2,
             units=lambda model: [model.ends], ways=WAYS),
    "tied in no unit, ragged batch, groups, schedule":
        Case(Language, num_samples=10, weighted=True, groups=decaying, schedule=True, units=lambda model: [model.body]),
    "first and middle layer and a bias frozen, a parameter in no group, clipped":
        Case(frozen, groups=without_the_last_bias, max_norm=0.3),
    "one bucket, no units, buffers, momentum, not clipped, zero_grad after step":
        Case(normed, optimizer=torch.optim.SGD, options={"lr": 0.05, "momentum": 0.9}, max_norm=1e3,
             zero_grad="after step", sets_to_none=True, bucket_bytes=float("inf"), units=lambda model: []),
    "nested units, no resharding, evaluated":
        Case(Nested, reshard_after_forward=False, evaluates=True, units=lambda model: [model.outer, model.outer[0]],
             ways=("zero3",)),
    "nested units": Case(Nested, units=lambda model: [model.outer, model.outer[0]], ways=("zero3",)),
    "called twice, checkpointed, evaluated, zero_grad after forward":
        Case(Twice, units=lambda model: [model.inner], evaluates=True, zero_grad="after forward"),
    "unused": Case(partial(Routed, 9.0), groups=decaying),
    "unused on some ranks": Case(Routed, ways=("zero1", "zero2")),
}
