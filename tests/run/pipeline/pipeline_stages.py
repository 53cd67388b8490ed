"""Stages that are not plain linear layers, and a small GPT whose ends are tied."""
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, linear, mse_loss
from torch.nn.utils.parametrizations import weight_norm

from helpers.facts.schedules import BUILDERS, one_f_one_b, zb_h1
from helpers.run.launch import preload
from helpers.run.models import Block
from tests.run.pipeline.pipeline_programs import SAMPLES, WIDTH, Gradients, Outcome, gradients, piped

VOCAB, LENGTH, NUM_MICROBATCHES = 11, 5, 4


class LoRA(nn.Linear):
    """Computes in a way of its own; the large matrix is frozen."""

    def __init__(self):
        super().__init__(WIDTH, WIDTH)
        self.down, self.up = nn.Linear(WIDTH, 2, bias=False), nn.Linear(2, WIDTH, bias=False)
        self.weight.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        return linear(x, self.weight, self.bias) + self.up(self.down(x))


class Scaling(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return linear(x, 2 * self.weight, self.bias)


class Plain(nn.Linear):
    """A subclass that computes as nn.Linear does."""


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(torch.tanh(self.layer(x)))


class Shared(nn.Module):
    """One weight in two linear layers, and once without a call."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH, bias=False)
        self.second.weight = self.first.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.second(torch.tanh(self.first(x))) + linear(x, self.first.weight)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(WIDTH, 2, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.attention(x, x, x, need_weights=False)[0]


class Do(nn.Module):
    """A function as a layer."""

    def __init__(self, function: Callable[[Tensor], Tensor]):
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


@dataclass(frozen=True)
class Case:
    make: Callable[[], list[nn.Module]]                 # two stages
    shape: tuple[int, ...] = ()                         # of a sample, before its features
    tokens: bool = False
    boundary: tuple[int, ...] = (WIDTH,)                # after the shape


def a_linear() -> nn.Module:
    return nn.Linear(WIDTH, WIDTH)


def in_eval(*layers: nn.Module) -> nn.Module:
    return nn.Sequential(*layers).eval()


CASES = {
    "3-dimensional": Case(lambda: [a_linear(), a_linear()], (3,)),
    "no bias": Case(lambda: [a_linear(), nn.Linear(WIDTH, WIDTH, bias=False)]),
    "tokens": Case(lambda: [nn.Embedding(VOCAB, WIDTH), a_linear()], (LENGTH,), tokens=True),
    "norms": Case(lambda: [nn.Sequential(a_linear(), nn.LayerNorm(WIDTH)), nn.Sequential(nn.LayerNorm(WIDTH),
                                                                                         a_linear())]),
    "buffers": Case(lambda: [in_eval(a_linear(), nn.BatchNorm1d(WIDTH)), in_eval(nn.Dropout(0.5), a_linear())]),
    "first without parameters": Case(lambda: [nn.Tanh(), a_linear()]),
    "last without parameters": Case(lambda: [a_linear(), nn.Tanh()]),
    "first hands on": Case(lambda: [nn.Identity(), a_linear()]),
    "nothing to train": Case(lambda: [nn.Tanh(), nn.Identity()]),
    "first is frozen": Case(lambda: [a_linear().requires_grad_(False), a_linear()]),
    "last is frozen": Case(lambda: [a_linear(), a_linear().requires_grad_(False)]),
    "only biases": Case(lambda: [a_linear(), nn.Sequential(a_linear(), a_linear())]),
    "ignores its input": Case(lambda: [a_linear(), nn.Sequential(Do(torch.zeros_like), a_linear())]),
    "cuts the gradient": Case(lambda: [a_linear(), nn.Sequential(Do(Tensor.detach), a_linear())]),
    "subclass": Case(lambda: [LoRA(), nn.Sequential(Scaling(WIDTH, WIDTH), Plain(WIDTH, WIDTH))]),
    "called twice": Case(lambda: [Twice(), Twice()]),
    "shared inside": Case(lambda: [Shared(), Shared()]),
    "weight_norm": Case(lambda: [weight_norm(a_linear()), nn.Sequential(weight_norm(a_linear()), nn.Tanh())]),
    "attention": Case(lambda: [Attention(), nn.TransformerEncoderLayer(WIDTH, 2, 32, dropout=0.0, batch_first=True)],
                      (LENGTH,)),
    "transposed": Case(lambda: [nn.Sequential(a_linear(), Do(lambda x: x.transpose(1, 2))),
                                Do(lambda x: x.transpose(1, 2).square())], (LENGTH,), boundary=(WIDTH,)),
    "in place": Case(lambda: [nn.Sequential(a_linear(), nn.ReLU(inplace=True)),
                              nn.Sequential(a_linear(), nn.ReLU(inplace=True))]),
    **{f"recompute {what}": Case(lambda what=what: [Block(WIDTH, 2, recompute=what), nn.Sequential(
        Block(WIDTH, 2, recompute=what), Block(WIDTH, 2, recompute=what))], (LENGTH,))
       for what in ("none", "selective", "full")},
}


def stages_of(case: Case) -> list[nn.Module]:
    torch.manual_seed(5)
    made = [stage.double() for stage in case.make()]
    if case is CASES["only biases"]:
        for stage in made:
            for name, parameter in stage.named_parameters():
                parameter.requires_grad_("bias" in name)
    return made


def batch_of(case: Case) -> tuple[Tensor, Tensor]:
    draw, count = torch.Generator().manual_seed(1), NUM_MICROBATCHES * SAMPLES
    targets = torch.randn(count, *case.shape, WIDTH, generator=draw, dtype=torch.float64)
    if case.tokens:
        return torch.randint(VOCAB, (count, *case.shape), generator=draw), targets
    return torch.randn(count, *case.shape, WIDTH, generator=draw, dtype=torch.float64), targets


def every_case(rank: int, world_size: int) -> dict[tuple[str, str], Outcome]:
    """With backward whole and split; a failure says at which."""
    outcomes = {}
    for name, case in CASES.items():
        for build in (one_f_one_b, zb_h1):
            boundary = (SAMPLES, *case.shape, *case.boundary)
            if name == "transposed":
                boundary = (SAMPLES, *case.boundary, *case.shape)
            try:
                outcomes[name, build.__name__] = piped(rank, build(world_size, NUM_MICROBATCHES), stages_of(case),
                                                       *batch_of(case), boundary=boundary, dtype=torch.float64)
            except Exception as error:
                error.add_note(f"in the case {name!r}, {build.__name__}")
                raise
    return outcomes


def in_bf16(rank: int, world_size: int) -> tuple[Gradients, Gradients]:
    """Piped, and one process that takes the same microbatches one by one."""
    def stages() -> list[nn.Module]:
        torch.manual_seed(5)
        return [nn.Sequential(a_linear(), nn.Tanh()).bfloat16() for _ in range(world_size)]

    x = torch.randn(NUM_MICROBATCHES * SAMPLES, WIDTH, generator=torch.Generator().manual_seed(1)).bfloat16()
    model, schedule = stages(), one_f_one_b(world_size, NUM_MICROBATCHES)
    for xs in x.chunk(NUM_MICROBATCHES):
        (mse_loss(nn.Sequential(*model)(xs), xs.sin()) / NUM_MICROBATCHES).backward()
    return piped(rank, schedule, stages(), x, x.sin()).gradients, gradients({rank: model[rank]})


# ---- tied ends

class First(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCAB, WIDTH), nn.Embedding(LENGTH, WIDTH)

    def forward(self, numbers: Tensor) -> Tensor:
        return self.tokens(numbers) + self.positions.weight


class Last(nn.Module):
    def __init__(self):
        super().__init__()
        self.block, self.norm = Block(WIDTH, 2), nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCAB, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.norm(self.block(x)))


def gpt_stages(num_stages: int, dtype: torch.dtype) -> list[nn.Module]:
    """Embedding, blocks, head; the head's numbers are the embedding's, its tensor is its own."""
    torch.manual_seed(7)
    stages = [First(), *(Block(WIDTH, 2) for _ in range(num_stages - 2)), Last()]
    stages[-1].head.weight.data.copy_(stages[0].tokens.weight)
    return [stage.to(dtype) for stage in stages]


def text(step: int, num_microbatches: int) -> tuple[Tensor, Tensor]:
    numbers = torch.randint(VOCAB, (num_microbatches * SAMPLES, LENGTH + 1),
                            generator=torch.Generator().manual_seed(step))
    return numbers[:, :-1], numbers[:, 1:]


def text_loss(logits: Tensor, numbers: Tensor) -> Tensor:
    return cross_entropy(logits.flatten(0, 1), numbers.flatten())


def optimizer_of(modules: list[nn.Module]) -> torch.optim.Optimizer:
    parameters = {id(p): p for module in modules for p in module.parameters()}
    return torch.optim.SGD(parameters.values(), lr=0.1, momentum=0.9, weight_decay=0.01)


def trains_gpt(rank: int, world_size: int, name: str, dtype: torch.dtype) -> dict[int, dict[str, Tensor]]:
    """The parameters of this rank's stages after three steps."""
    schedule = BUILDERS[name](world_size, 8)
    stages = gpt_stages(schedule.num_stages, dtype)
    mine = {number: stages[number] for number in schedule.stages_of[rank]}
    if name == "DualPipeV" and len({0, schedule.num_stages - 1} & set(mine)) == 2:
        stages[-1].head.weight = stages[0].tokens.weight        # a rank with both ends may have one tensor for both
    optimizer = optimizer_of(list(mine.values()))
    for step in range(3):
        optimizer.zero_grad()
        piped(rank, schedule, stages, *text(step, 8), text_loss, boundary=(SAMPLES, LENGTH, WIDTH), dtype=dtype,
              tied=[[(0, "tokens.weight"), (schedule.num_stages - 1, "head.weight")]])
        optimizer.step()
    return {number: {key: p.detach() for key, p in stage.named_parameters(remove_duplicate=False)}
            for number, stage in mine.items()}


def gpt_alone(num_stages: int, dtype: torch.dtype) -> dict[int, dict[str, Tensor]]:
    stages = gpt_stages(num_stages, dtype)
    stages[-1].head.weight = stages[0].tokens.weight
    optimizer = optimizer_of(stages)
    for step in range(3):
        numbers, targets = text(step, 8)
        optimizer.zero_grad()
        text_loss(nn.Sequential(*stages)(numbers), targets).backward()
        optimizer.step()
    return {number: {key: p.detach() for key, p in stage.named_parameters(remove_duplicate=False)}
            for number, stage in enumerate(stages)}


preload(__name__)
