"""Rank programs that a learner might hand in, all wrong; no pytest here, so that ranks need not import it."""
import os

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from helpers.run.measure.meters import memory
from helpers.run.models import mlp
from tests.checks.memory.programs import measured, momentum, shard, trained


def is_not_written_yet(rank, world_size):
    raise NotImplementedError()


def does_not_shard(rank, world_size):
    return measured(prepare=lambda model: model)


def uses_ddp(rank, world_size):
    return measured(prepare=DistributedDataParallel)


def uses_adam(rank, world_size):
    return measured(optimizer=torch.optim.Adam)


def uses_plain_sgd(rank, world_size):
    return measured(optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.1))


def takes_no_step(rank, world_size):
    return measured(step=False)


def skips_the_backward_pass(rank, world_size):
    return measured(step=False, backward=False)


def steps_after_the_block(rank, world_size):
    with memory() as grown:
        _model, optimizer = trained(step=False)
    optimizer.step()
    return grown.tensors


def has_half_the_depth(rank, world_size):
    return measured(depth=8)


def frees_the_model_before_the_block_ends(rank, world_size):
    with memory() as grown:
        trained()
    return grown.tensors


def returns_inside_the_block(rank, world_size):
    with memory() as grown:
        _kept = trained()
        return grown.tensors


def returns_without_measuring(rank, world_size):
    return 12 * 16 * 512**2 // world_size


def shards_by_hand_without_gathering(rank, world_size):
    with memory() as grown:
        share = torch.zeros(16 * 512**2 // world_size, requires_grad=True)
        optimizer = momentum([share])
        share.sum().backward()
        optimizer.step()
    return grown.tensors


def answers_in_mib(rank, world_size):
    return measured() / 2**20


def sums_over_ranks(rank, world_size):
    total = torch.tensor(measured())
    dist.all_reduce(total)
    return total.item()


def returns_the_private_bytes(rank, world_size):
    with memory() as grown:
        _kept = trained()
    return grown.private


def returns_nothing(rank, world_size):
    measured()


def returns_text(rank, world_size):
    return f"{measured()} bytes"


def returns_the_measurement(rank, world_size):
    with memory() as grown:
        _kept = trained()
    return grown


def returns_true(rank, world_size):
    return True


class TrueForEverything:
    def __eq__(self, other):
        return True

    __hash__ = None


def true_for_everything(rank, world_size):
    measured()
    return TrueForEverything()


def measures_on_rank_0_only(rank, world_size):
    return measured() if rank == 0 else 0


def works_on_two_ranks_only(rank, world_size):
    if world_size != 2:
        raise ValueError("made for two ranks")
    return measured()


def fails_on_four_ranks(rank, world_size):
    if world_size == 4:
        raise ValueError("four are too many")
    return measured()


def forgets_the_world_size(rank):
    return 0


def misspells_a_name(rank, world_size):
    return mlpp(512, 16)  # noqa: F821


def exits_the_process(rank, world_size):
    os._exit(3)


def never_ends(rank, world_size):
    while True:
        pass


def prints_that_it_is_right(rank, world_size):
    print("ok     measured on 2 ranks\n2 of 2 points.")
    return 0


def allocates_the_right_size(rank, world_size):
    with memory() as grown:
        _kept = torch.zeros(3 * 16 * 512**2 // world_size)
    return grown.tensors


def gathers_without_reducing(rank, world_size):
    """All parameters are gathered, but no gradient is reduced."""
    share = torch.ones(16 * 512**2 // world_size)
    gathered = [torch.empty_like(share) for _ in range(world_size)]     # alive to the end, so that nothing shrinks
    dist.all_gather(gathered, share)
    returned = allocates_the_right_size(rank, world_size)
    return returned if len(gathered) == world_size else 0


def makes_the_optimizer_before_sharding(rank, world_size):
    with memory() as grown:
        model = mlp(width=512, depth=16)
        optimizer = momentum(model.parameters())
        shard(model)
        model(torch.ones(2, 512)).sum().backward()
        optimizer.step()
    return grown.tensors


def shards_the_whole_only(rank, world_size):
    return measured(prepare=fully_shard)


def clears_the_gradients(rank, world_size):
    with memory() as grown:
        _model, optimizer = trained()
        optimizer.zero_grad()
    return grown.tensors


def returns_the_size_without_a_block(rank, world_size):
    _kept = trained()
    return 12 * 16 * 512**2 // world_size
