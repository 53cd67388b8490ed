"""Rank programs for pipelines: what a schedule, one process and PyTorch make of the same stages and the same batch."""
import functools
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.distributed import pipelining
from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime
from torch.nn.functional import mse_loss

from helpers.facts.errors import BadValue
from helpers.facts.schedules import BUILDERS, Action, Schedule, gpipe, one_f_one_b, zb_h1
from helpers.facts.schedules.start_order import playable
from helpers.run.launch import preload
from helpers.run.measure.meters import live_tensor_bytes
from helpers.run.pipeline import run_schedule
from helpers.run.pipeline.executor import PlayedPart
from helpers.run.pipeline.messages import StageMessages

WIDTH, SAMPLES = 16, 2                  # samples of a microbatch
NUM_MICROBATCHES = (1, 3, 8, 9, 10)     # fewer than ranks, a multiple of them, and not
Gradients = dict[int, dict[str, Tensor | None]]


@functools.cache
def schedules(world_size: int) -> dict[tuple[str, int], Schedule]:
    """All eight, for every number of microbatches that they take."""
    found = {}
    for name, build in BUILDERS.items():
        for m in NUM_MICROBATCHES:
            try:
                found[name, m] = build(world_size, m)
            except BadValue:
                continue
    return found


def stages_of_model(num_stages: int, dtype: torch.dtype = torch.float32, last: Callable = nn.Tanh) -> list[nn.Module]:
    torch.manual_seed(3)
    return [nn.Sequential(nn.Linear(WIDTH, WIDTH), last()).to(dtype) for _ in range(num_stages)]


def linear_stages(num_stages: int) -> list[nn.Module]:
    """Of unlike sizes, some after a norm: backward needs what the layers take, and nothing that they give."""
    torch.manual_seed(3)
    sizes = [24 + 8 * (s % 3) for s in range(num_stages)]
    return [nn.Sequential(*[nn.LayerNorm(WIDTH)] * (s % 2), nn.Linear(WIDTH, size, bias=s % 4 < 2),
                          nn.Linear(size, WIDTH)) for s, size in enumerate(sizes)]


def batch(num_microbatches: int, dtype: torch.dtype = torch.float32, seed: int = 1) -> tuple[Tensor, Tensor]:
    x = torch.randn(num_microbatches * SAMPLES, WIDTH, generator=torch.Generator().manual_seed(seed)).to(dtype)
    return x, torch.sin(3 * x)


def gradients(stages: dict[int, nn.Module]) -> Gradients:
    return {number: {name: p.grad for name, p in stage.named_parameters()} for number, stage in stages.items()}


def alone(stages: list[nn.Module], x: Tensor, y: Tensor, loss_fn: Callable = mse_loss) -> tuple[float, Gradients]:
    """One process, the whole batch at once."""
    loss = loss_fn(nn.Sequential(*stages)(x), y)
    loss.backward()
    return loss.item(), gradients(dict(enumerate(stages)))


@dataclass
class Outcome:
    played: PlayedPart
    gradients: Gradients


def piped(rank: int, schedule: Schedule, stages: list[nn.Module], x: Tensor, y: Tensor, loss_fn: Callable = mse_loss,
          **options) -> Outcome:
    mine = {number: stages[number] for number in schedule.stages_of[rank]}
    options = {"boundary": (SAMPLES, WIDTH), "dtype": x.dtype} | options
    return Outcome(run_schedule(schedule, mine, x, y, loss_fn, **options), gradients(mine))


# ---- results of all schedules

def in_a_schedule(rank: int, world_size: int, name: str, num_microbatches: int, dtype: torch.dtype) -> Outcome:
    schedule = schedules(world_size)[name, num_microbatches]
    return piped(rank, schedule, stages_of_model(schedule.num_stages, dtype), *batch(num_microbatches, dtype))


def kept_by_linear_layers(rank: int, world_size: int, name: str, num_microbatches: int) -> list[int]:
    schedule = schedules(world_size)[name, num_microbatches]
    return piped(rank, schedule, linear_stages(schedule.num_stages), *batch(num_microbatches)).played.kept_bytes


def every_given(rank: int, world_size: int, given: list[Schedule]) -> list[Outcome]:
    return [piped(rank, schedule, stages_of_model(schedule.num_stages, torch.float64),
                  *batch(schedule.num_microbatches, torch.float64)) for schedule in given]


def any_legal_schedule(seed: int, num_ranks: int) -> Schedule:
    """Any stage of any microbatch on any rank, some backwards split; each action comes after what it needs."""
    draw = random.Random(seed)
    num_stages, m = draw.randint(1, 5), draw.randint(1, 6)
    pure = draw.random() < 0.5                          # one home for each stage, as in most pipelines
    home = {(s, k): draw.randrange(num_ranks) for s in range(num_stages) for k in range(m)}
    todo: list[list[Action]] = [[] for _ in range(num_ranks)]
    for (stage, k), rank in home.items():
        kinds = draw.choice(["FB", "FIW"])
        todo[home[stage, 0] if pure else rank] += [Action(kind, stage, k) for kind in kinds]
    singles = [(rank, action) for rank, actions in enumerate(todo) for action in actions]
    each_alone = Schedule("each on a rank of its own", tuple((action,) for _, action in singles), num_stages, m)
    draw.shuffle(singles)
    rank_of = {action: rank for rank, action in singles}
    steps: list[list[Action]] = [[] for _ in range(num_ranks)]
    for _, action, _ in _shuffled(each_alone, draw):
        steps[rank_of[action]].append(action)
    return Schedule(f"number {seed}", tuple(map(tuple, steps)), num_stages, m)


def _shuffled(schedule: Schedule, draw: random.Random) -> Iterator[tuple]:
    """What can be played next, drawn from all that can."""
    order = list(playable(schedule))
    ended: set[Action] = set()
    while order:
        ready = [entry for entry in order if ended.issuperset(entry[2])]
        chosen = draw.choice(ready)
        order.remove(chosen)
        ended.add(chosen[1])
        yield chosen


# ---- PyTorch's

TORCHS = {
    "GPipe": pipelining.ScheduleGPipe,
    "1F1B": pipelining.Schedule1F1B,
    "interleaved 1F1B": pipelining.ScheduleInterleaved1F1B,
    "ZB-H1": pipelining.ScheduleInterleavedZeroBubble,          # with one stage on each rank
    "ZB-V": pipelining.ScheduleZBVZeroBubble,
    "DualPipeV": pipelining.schedules.ScheduleDualPipeV,
}


def torch_stages(schedule: Schedule, rank: int, model: list[nn.Module]) -> list[pipelining.PipelineStage]:
    return [pipelining.PipelineStage(model[number], number, schedule.num_stages, torch.device("cpu"))
            for number in schedule.stages_of[rank]]


def torch_step(schedule: Schedule, rank: int, pipeline: object, x: Tensor, y: Tensor) -> None:
    first, last = (s in schedule.stages_of[rank] for s in (0, schedule.num_stages - 1))
    pipeline.step(*([x] if first else []), **({"target": y} if last else {}))


def by_torch(rank: int, world_size: int, folder: str) -> dict[str, tuple[Gradients, Gradients]]:
    """PyTorch's schedules, and ours that PyTorch plays from CSV in `folder`; of each PyTorch's gradients and ours."""
    outcomes = {}
    for name, made in [*((name, make) for name, make in TORCHS.items()), ("ZB-H1, CSV", "ZB-H1"),
                       ("interleaved 1F1B, CSV", "interleaved 1F1B")]:
        ragged = isinstance(made, str)
        schedule, model = BUILDERS[name.split(",")[0]](world_size, 9 if ragged else 8), None
        model = stages_of_model(schedule.num_stages)
        stages = torch_stages(schedule, rank, model)
        if ragged:
            pipeline = _PipelineScheduleRuntime(stages, schedule.num_microbatches, loss_fn=mse_loss)
            pipeline._load_csv(f"{folder}/{made}.csv")
        else:
            whole = stages[0] if name in ("GPipe", "1F1B") else stages
            pipeline = made(whole, schedule.num_microbatches, loss_fn=mse_loss)
        x, y = batch(schedule.num_microbatches)
        torch_step(schedule, rank, pipeline, x, y)
        theirs = gradients({number: model[number] for number in schedule.stages_of[rank]})
        outcomes[name] = theirs, piped(rank, schedule, stages_of_model(schedule.num_stages), x, y).gradients
    return outcomes


# ---- one call after the other, options

def two_batches(rank: int, world_size: int, name: str) -> tuple[Gradients, int, int]:
    """Gradients of two calls in a row; then bytes that live before and after a third."""
    schedule = BUILDERS[name](world_size, 8)
    model = stages_of_model(schedule.num_stages, torch.float64)
    for seed in (1, 2):
        found = piped(rank, schedule, model, *batch(8, torch.float64, seed)).gradients
    found = {stage: {key: g.clone() for key, g in named.items()} for stage, named in found.items()}
    before, x_y = live_tensor_bytes(), batch(8, torch.float64)
    before = live_tensor_bytes()
    piped(rank, schedule, model, *x_y)
    return found, before, live_tensor_bytes()


def options(rank: int, world_size: int) -> dict[str, Gradients]:
    def with_options(loss_fn: Callable = mse_loss, **given) -> Gradients:
        schedule = zb_h1(world_size, 4)
        return piped(rank, schedule, stages_of_model(world_size, torch.float64), *batch(4, torch.float64), loss_fn,
                     **given).gradients

    return {"plain": with_options(), "not scaled": with_options(scale=False),
            "sum": with_options(lambda y, target: mse_loss(y, target, reduction="sum"), scale=False)}


def padded(rank: int, world_size: int, name: str, seconds: dict) -> tuple[Outcome, Gradients]:
    schedule = BUILDERS[name](world_size, 4)
    outcomes = [piped(rank, schedule, stages_of_model(schedule.num_stages), *batch(4), pad_s=pad_s)
                for pad_s in (seconds, None)]
    return outcomes[0], outcomes[1].gradients


def sends_kept(rank: int, world_size: int) -> list[int]:
    """The most sends that a rank of 1F1B keeps, for growing numbers of microbatches."""
    most: list[int] = []

    class Counting(StageMessages):
        def give(self, action: Action, tensor: Tensor | None) -> None:
            super().give(action, tensor)
            most[-1] = max(most[-1], len(self.sending))

    import helpers.run.pipeline.executor as module
    module.StageMessages = Counting
    for m in (8, 16, 32):
        most.append(0)
        piped(rank, one_f_one_b(world_size, m), stages_of_model(world_size), *batch(m))
    return most


# ---- a rank that fails, and calls that cannot be

def raises_in(rank: int, world_size: int, kind: str) -> None:
    """Stage 1 raises in the third microbatch's forward, or in its backward."""
    model, count = stages_of_model(world_size), [0]

    def third(*_) -> None:
        count[0] += 1
        if count[0] == 3:
            raise ArithmeticError("the third microbatch")

    if kind == "forward":
        model[1].register_forward_hook(third)
    else:
        model[1][0].weight.register_hook(third)
    piped(rank, one_f_one_b(world_size, 8), model, *batch(8))


def wrong_on_one_rank(rank: int, world_size: int, what: str) -> None:
    schedule, model = one_f_one_b(world_size, 4), stages_of_model(world_size)
    x, y = batch(4)
    given = {}
    if what == "boundary":
        given["boundary"] = (SAMPLES, WIDTH // 2)
    elif what == "dtype":
        given["dtype"] = torch.bfloat16
    elif what == "tuple":
        model[0].register_forward_hook(lambda module, inputs, output: (output, None))
    elif what == "loss":
        given["loss_fn"] = lambda y, target: mse_loss(y, target, reduction="none")
    piped(rank, schedule, model, x, y, **given)


def refusals(rank: int, world_size: int) -> dict[str, str]:
    """By what was asked for, on all ranks at once: what was said."""
    model, (x, y) = stages_of_model(world_size), batch(4)

    def of(stages=None, num_microbatches=4, x=x, y=y, **given) -> str:
        schedule = given.pop("schedule", gpipe(world_size, num_microbatches))
        try:
            run_schedule(schedule, {rank: model[rank]} if stages is None else stages, x, y, mse_loss,
                         **({"boundary": (SAMPLES, WIDTH)} | given))
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        return "accepted"

    return _refused_calls(rank, world_size, of, x, y) | _refused_copies(rank, world_size, of)


def _refused_calls(rank: int, world_size: int, of: Callable, x: Tensor, y: Tensor) -> dict[str, str]:
    model = stages_of_model(world_size)
    w_first = tuple((Action("F", r, 0), Action("W", r, 0), Action("I", r, 0)) for r in range(world_size))
    with torch.no_grad():
        said = {"no_grad": of()}
    return said | {
        "no stages": of({}), "another's stage": of({1 - rank: model[1 - rank]}), "a list": of(model),
        "more ranks": of(schedule=gpipe(world_size + 1, 4)), "7 samples": of(x=x[:7], y=y[:7]),
        "no samples": of(x=x[:0], y=y[:0]), "fewer targets": of(y=y[:4]), "no targets": of(y=None),
        "W before I": of(schedule=Schedule("W first", w_first, world_size, 1)), "pad_s": of(pad_s={"F": 0.1}),
        "boundaries": of(boundary=(SAMPLES, WIDTH + rank)), "schedules": of(num_microbatches=4 - 2 * rank),
    }


def _refused_copies(rank: int, world_size: int, of: Callable) -> dict[str, str]:
    torch.manual_seed(rank)
    unlike = {r: nn.Linear(WIDTH, WIDTH) for r in (0, 1)}
    ends = [(0, "0.weight"), (1, "0.weight")]
    return {
        "tied on one rank": of(tied=[ends] if rank else []), "no such name": of(tied=[[(0, "weight"), (1, "weight")]]),
        "no such stage": of(tied=[[(0, "0.weight"), (2, "0.weight")]]),
        "twice": of(tied=[ends, [(1, "0.weight"), (0, "0.bias")]]), "unlike": of(tied=[ends]),
        "shapes": of(tied=[[(0, "0.weight"), (1, "0.bias")]]),
        "two seeds": of(unlike, schedule=BUILDERS["DualPipe"](world_size, 4)),
    }


preload(__name__)
