"""Ranks that go apart, each by a mistake of its own, and the first difference that is seen between them."""
import traceback

import torch
import torch.distributed as dist
from torch import Tensor, nn

from helpers.run.data_sharding import part_of_batch
from helpers.run.ddp import DDP
from helpers.run.launch import preload
from helpers.run.measure.fingerprint import first_difference, same_randomness
from helpers.run.measure.meters import wire
from helpers.run.models import mlp, perceptron, regression

NUM_STEPS = 10
BATCH = 32


class OwnAllReduce(nn.Module):
    """Gradients are averaged, but nobody has made the ranks start equal."""

    def __init__(self, module: nn.Module):
        super().__init__()
        self.module = module
        for parameter in module.parameters():
            parameter.register_post_accumulate_grad_hook(self._average)

    def forward(self, x: Tensor) -> Tensor:
        return self.module(x)

    def _average(self, parameter: nn.Parameter) -> None:
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()


class Training:
    """Right; a mistake is a subclass that does one thing otherwise."""

    broadcast_buffers = True
    watches_optimizer = True

    def __init__(self, rank: int):
        self.rank = rank
        torch.manual_seed(rank)
        self.model = self.make()
        self.ddp = self.wrap()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05, momentum=0.9)
        self.wrapped()

    def make(self) -> nn.Module:
        return perceptron(16, 32, 4)

    def wrap(self) -> nn.Module:
        return DDP(self.model, broadcast_buffers=self.broadcast_buffers)

    def wrapped(self) -> None:
        pass

    def before(self, step: int) -> None:
        pass

    def update(self, step: int) -> None:
        self.optimizer.step()

    def after(self, step: int) -> None:
        pass

    def first_seen(self) -> tuple[int, str] | None:
        """The step after which a difference is seen, and what is said."""
        x, y = regression(BATCH * NUM_STEPS).tensors
        for step in range(NUM_STEPS):
            self.before(step)
            part = part_of_batch(BATCH, self.rank, dist.get_world_size())
            self.optimizer.zero_grad()
            inputs, targets = (t[BATCH * step:BATCH * (step + 1)][part] for t in (x, y))
            nn.functional.mse_loss(self.ddp(inputs), targets).backward()
            self.update(step)
            self.after(step)
            if difference := first_difference(self.model, self.optimizer if self.watches_optimizer else None):
                return step, str(difference)
        return None


class WithoutBroadcast(Training):
    def wrap(self):
        return OwnAllReduce(self.model)


class LoadsOnRank0AfterWrapping(Training):
    def wrapped(self):
        if self.rank == 0:
            torch.manual_seed(100)
            self.model.load_state_dict(self.make().state_dict())


class StepsOnRank0Only(Training):
    def update(self, step):
        if self.rank == 0:
            self.optimizer.step()


class SkipsAStepOnRank2(Training):
    def update(self, step):
        if (step, self.rank) != (4, 2):
            self.optimizer.step()


class UnfreezesAfterWrapping(Training):
    def make(self):
        model = perceptron(16, 32, 4)
        model[0].requires_grad_(False)
        return model

    def before(self, step):
        if step == 3:
            self.model[0].requires_grad_(True)


class LowersItsRateByItsOwnMetric(Training):
    """Rank 3's gets worse from step 1 on."""

    def wrapped(self):
        self.scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(self.optimizer, patience=0)

    def after(self, step):
        self.scheduler.step(step if self.rank == 3 else -step)


class LowersItsRateUnwatched(LowersItsRateByItsOwnMetric):
    watches_optimizer = False


class KeepsItsOwnRunningStatistics(Training):
    broadcast_buffers = False

    def make(self):
        return nn.Sequential(nn.Linear(16, 8), nn.BatchNorm1d(8), nn.Linear(8, 4))


class ForgetsMomentumOnRank1(Training):
    def after(self, step):
        if (step, self.rank) == (5, 1):
            self.optimizer.state[self.model[2].bias]["momentum_buffer"].zero_()


class ResumesWithoutItsOptimizerOnRank1(Training):
    def after(self, step):
        if (step, self.rank) == (5, 1):
            self.optimizer.state.clear()


TRAININGS = [Training, WithoutBroadcast, LoadsOnRank0AfterWrapping, StepsOnRank0Only, SkipsAStepOnRank2,
             UnfreezesAfterWrapping, LowersItsRateByItsOwnMetric, LowersItsRateUnwatched,
             KeepsItsOwnRunningStatistics, ForgetsMomentumOnRank1, ResumesWithoutItsOptimizerOnRank1]


def trainings(rank, world_size):
    return {training.__name__: training(rank).first_seen() for training in TRAININGS}


class Holds(nn.Module):
    """A module of these tensors: those named b are buffers."""

    def __init__(self, **tensors: Tensor):
        super().__init__()
        for name, tensor in tensors.items():
            if name.startswith("b"):
                self.register_buffer(name, tensor, persistent=not name.startswith("b_lost"))
            else:
                setattr(self, name, nn.Parameter(tensor))


def zoo(rank: int) -> nn.Module:
    """Everything odd, and equal."""
    module = Holds(
        w=torch.tensor([0.0, -0.0, torch.nan, torch.inf]), low=torch.arange(6.0).reshape(2, 3).bfloat16(),
        scalar=torch.tensor(2.0), empty=torch.empty(0, 3), turned=torch.arange(6.0).reshape(2, 3).T,
        imaginary=torch.ones(2, dtype=torch.complex64), eight=torch.ones(3).to(torch.float8_e4m3fn),
        b_int=torch.tensor([2**62]), b_bool=torch.tensor([True, False]), b_scalar=torch.tensor(7),
        b_empty=torch.empty(0, dtype=torch.bool), b_spread=torch.ones(1).expand(5), b_none=None, b_lost=torch.ones(2))
    module.tied = module.turned
    return module


def with_state(optimizer_class, module: nn.Module, **settings) -> tuple[nn.Module, torch.optim.Optimizer]:
    optimizer = optimizer_class(module.parameters(), **settings)
    for parameter in module.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step(lambda: torch.tensor(1.0))
    return module, optimizer


def one_bit(tensor: Tensor) -> Tensor:
    """The lowest bit of the last element is flipped."""
    tensor = tensor.clone()
    tensor.view(torch.uint8).reshape(-1)[-tensor.element_size()] ^= 1
    return tensor


def channels_last(rank):
    """The same numbers, which two ranks keep in another order in memory."""
    numbers = torch.arange(24.0).reshape(1, 2, 3, 4)
    return Holds(w=numbers.to(memory_format=torch.channels_last) if rank % 2 else numbers)


def tied_on_rank_0_only(rank):
    module = Holds(w=torch.ones(2), last=torch.ones(2))
    if rank == 0:
        module.last = module.w
    return module


def momentum_of_a_group(rank):
    module = Holds(w=torch.ones(2), v=torch.ones(3))
    groups = [{"params": [module.w]}, {"params": [module.v], "momentum": 0.8 if rank == 1 else 0.9}]
    return module, torch.optim.SGD(groups, lr=0.1)


def rate_in_a_tensor(rank):
    module = Holds(w=torch.ones(2))
    return module, torch.optim.Adam(module.parameters(), lr=torch.tensor(0.1 if rank != 3 else 0.2))


def second_moment(rank):
    module, optimizer = with_state(torch.optim.AdamW, Holds(w=torch.ones(2), v=torch.ones(3)))
    if rank == 2:
        optimizer.state[module.v]["exp_avg_sq"] = one_bit(optimizer.state[module.v]["exp_avg_sq"])
    return module, optimizer


def step_count(rank):
    module, optimizer = with_state(torch.optim.AdamW, Holds(w=torch.ones(2)))
    optimizer.state[module.w]["step"] += rank == 1
    return module, optimizer


def history_in_a_list(rank):
    """L-BFGS keeps lists of tensors; printed with four digits they would look alike."""
    module, optimizer = with_state(torch.optim.LBFGS, Holds(w=torch.ones(2)))
    optimizer.state[module.w]["old_dirs"] = [torch.tensor([1.5, 2.25 + 1e-6 * (rank == 1)])]
    return module, optimizer


def sparse_buffer(rank):
    return Holds(w=torch.ones(2), b=torch.eye(3).mul(1 + (rank == 2)).to_sparse())


CASES = {                       # odd tensors, without training: the module of a rank, and perhaps its optimizer
    "equal": zoo,
    "equal with an optimizer": lambda rank: with_state(torch.optim.AdamW, perceptron_of_rank_0()),
    "equal in another memory order": channels_last,
    "nan": lambda rank: Holds(v=torch.ones(2), w=torch.tensor([1.0, torch.nan if rank == 2 else 1.0])),
    "minus zero": lambda rank: Holds(w=torch.tensor([1.0, -0.0 if rank == 1 else 0.0])),
    "a bit of bfloat16": lambda rank: Holds(w=(one_bit if rank == 3 else torch.clone)(torch.ones(5).bfloat16())),
    "a bit of a large one": lambda rank: Holds(w=(one_bit if rank == 3 else torch.clone)(torch.ones(1000, 1000))),
    "int64 buffer": lambda rank: Holds(w=torch.ones(2), b=torch.tensor([2**53 + (rank == 1), 0])),
    "bool buffer": lambda rank: Holds(w=torch.ones(2), b=torch.tensor([rank == 1])),
    "0-dim buffer": lambda rank: Holds(w=torch.ones(2), b=torch.tensor(rank == 1, dtype=torch.int64)),
    "empty buffer of another shape": lambda rank: Holds(w=torch.ones(2), b=torch.empty(0, 3 + (rank == 1))),
    "empty buffer of another dtype": lambda rank: Holds(b=torch.empty(0, dtype=(torch.int8, torch.bool)[rank == 1])),
    "buffer that is not saved": lambda rank: Holds(w=torch.ones(2), b_lost=torch.tensor([rank == 1])),
    "buffer that a rank lacks": lambda rank: Holds(w=torch.ones(2), b=None if rank == 1 else torch.ones(1)),
    "sparse buffer": sparse_buffer,
    "transposed": lambda rank: Holds(w=torch.tensor([[1.0, 2.0], [3.0, 4.0 + (rank == 2)]]).T),
    "as many of each number": lambda rank: Holds(w=torch.tensor([[1.0, 2.0 + (rank == 2)], [3.0 - (rank == 2), 4.0]])),
    "tied on one rank": tied_on_rank_0_only,
    "shape": lambda rank: Holds(v=torch.ones(2), w=torch.ones(3 if rank == 2 else 4, 3)),
    "shape of rank 0": lambda rank: Holds(v=torch.ones(2), w=torch.ones(4 if rank else 3, 3)),
    "same bytes in another shape": lambda rank: Holds(w=torch.zeros((3, 4) if rank == 2 else (4, 3))),
    "dtype": lambda rank: Holds(w=torch.zeros(4, dtype=(torch.float16, torch.bfloat16)[rank == 2])),
    "name": lambda rank: Holds(**{"w2" if rank == 1 else "w": torch.ones(2)}),
    "two and two": lambda rank: Holds(w=torch.tensor([rank % 2.0])),
    "three groups": lambda rank: Holds(w=torch.tensor([max(rank, 1) / 1])),
    "all unlike": lambda rank: Holds(w=torch.tensor([rank / 1])),
    "momentum of a group": momentum_of_a_group,
    "rate in a tensor": rate_in_a_tensor,
    "second moment": second_moment,
    "step count": step_count,
    "history in a list": history_in_a_list,
}


def perceptron_of_rank_0() -> nn.Module:
    torch.manual_seed(0)
    return perceptron(16, 32, 4)


def differences(rank, world_size):
    """Of each case: what the first difference says, its groups; or the error."""
    seen = {}
    for name, make in CASES.items():
        made = make(rank)
        try:
            difference = first_difference(*(made if isinstance(made, tuple) else (made,)))
            seen[name] = difference and (str(difference), difference.groups)
        except Exception:
            seen[name] = traceback.format_exc()
    return seen


def randomness(rank, world_size):
    """For each way to seed: who is said to be alike, this rank's dropout mask, and whether asking drew a number."""
    outcomes = []
    for seed in (0, rank, (0, 5, 0)[rank], (5, 0, 0)[rank]):
        torch.manual_seed(seed)
        before = torch.get_rng_state()
        alike = same_randomness()
        untouched = torch.equal(before, torch.get_rng_state())
        outcomes.append((alike, nn.functional.dropout(torch.ones(64)).tolist(), untouched))
    return outcomes


def cost(rank, world_size):
    """Bytes that this rank sends to compare 64 matrices of 16,384 parameters, and with what Adam keeps of each."""
    module, optimizer = with_state(torch.optim.Adam, mlp(128, 64))
    dist.barrier()
    with wire() as alone:
        first_difference(module)
    with wire() as together:
        first_difference(module, optimizer)
    return sum(p.numel() for p in module.parameters()), alone.sent, together.sent


preload(__name__)
