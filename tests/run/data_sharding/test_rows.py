"""Rows C1, C12 and C13 of the reference card: each fault with its symptom, what tells it, and what cures it."""
from functools import partial

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import parameters_to_vector
from torch.utils.data import DataLoader, DistributedSampler

from helpers.run.data_sharding import check_sampling, global_mean, part_of_batch
from helpers.run.ddp import DDP
from helpers.run.launch import RankFailed, RankHung, launch, preload
from helpers.run.measure.fingerprint import first_difference, same_randomness
from helpers.run.measure.meters import memory, wire
from helpers.run.models import mlp, perceptron, regression
from tests.run.in_turn import in_turn

P = 4 * 512**2                          # parameters of mlp(512, 4)


@pytest.mark.parametrize("wrap", [DDP, DistributedDataParallel])
def test_c1_ddp_splits_the_batch_copies_the_model_and_sends_gradients_once(wrap):
    """Memory: 16 bytes a parameter in fp32 with Adam, on 2 ranks as on 4; traffic: one all_reduce of the gradients."""
    def program(rank, world_size, wrap):
        with memory() as grown:
            ddp = wrap(mlp(512, 4), gradient_as_bucket_view=True)
            optimizer = torch.optim.Adam(ddp.parameters())
            for _ in range(2):                  # the first backward of torch's DDP forms its buckets anew
                with wire() as sent:
                    ddp(torch.ones(8 // world_size, 512)).sum().backward()
                optimizer.step()
        return grown.tensors, sent.sent

    for world_size in (2, 4):
        for tensors, sent in launch(program, world_size, wrap).results:
            assert tensors == pytest.approx(16 * P, rel=1e-3)
            assert sent == pytest.approx(2 * 4 * P * (world_size - 1) / world_size, rel=0.01)


def diverging(rank, world_size, broadcast):
    torch.manual_seed(rank)
    model = perceptron(16, 8, 4)
    if broadcast:
        for tensor in model.state_dict().values():
            dist.broadcast(tensor, src=0)
    data = regression(80).tensors
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for step in range(10):
        inputs, targets = (part[step * 8:][part_of_batch(8, rank, world_size)] for part in data)
        optimizer.zero_grad()
        mse_loss(model(inputs), targets).backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
            parameter.grad.div_(world_size)
        optimizer.step()
        if difference := first_difference(model):
            return step, str(difference)
    return None


def test_c12_ranks_diverge_from_step_one_each_with_its_own_init_and_a_broadcast_cures_it():
    by = in_turn(diverging, 3, [(False,), (True,)])
    assert by[False,] == [(0, "parameter 0.weight: no two ranks agree")] * 3
    assert by[True,] == [None] * 3


@pytest.mark.parametrize(("seed_of", "sampler_seed_of", "kinds"), [
    (lambda rank: 0, None, ["same batches"]),                       # the symptom
    (lambda rank: rank, None, ["not split"]),                       # the card's cure, which is none
    (lambda rank: rank, lambda rank: rank, ["overlap"]),            # nor is it one for the sampler
    (lambda rank: rank, lambda rank: 0, []),
], ids=["one seed", "a seed a rank", "sampler, a seed a rank", "sampler, one seed"])
def test_c12_all_ranks_see_the_same_batches_and_only_a_sampler_with_one_seed_cures_it(seed_of, sampler_seed_of, kinds):
    def program(rank, world_size):
        torch.manual_seed(seed_of(rank))
        sampler = sampler_seed_of and DistributedSampler(range(24), seed=sampler_seed_of(rank))
        loader = DataLoader(range(24), 2, shuffle=sampler is None, sampler=sampler)
        report = check_sampling(loader, before_epoch=sampler and sampler.set_epoch)
        return [fault.kind for fault in report.faults], same_randomness()

    for found, alike in launch(program, 4).results:
        assert found == kinds
        assert alike == ((0, 1, 2, 3) if kinds == ["same batches"] else ())     # that is what seeds a rank are for


class Branched(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk, self.branch = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, inputs, take):
        return self.branch(self.trunk(inputs)) if take else self.trunk(inputs)


def skipping(rank, world_size, wrap, who, num_steps, **options):
    ddp = wrap(Branched(), **options)
    for _ in range(num_steps):
        ddp(torch.ones(2, 4), rank not in who).sum().backward()
    dist.barrier()
    return str(first_difference(ddp))


@pytest.mark.parametrize("wrap", [DDP, DistributedDataParallel])
def test_c12_skipped_parameters_raise_or_hang_and_find_unused_parameters_cures_both(wrap):
    with pytest.raises(RankFailed, match="2 raised RuntimeError"):
        launch(skipping, 2, wrap, {0, 1}, 2)
    with pytest.raises(RankHung, match="rank 1 waits in barrier"):
        launch(skipping, 2, wrap, {1}, 1, timeout_s=2)
    cured = in_turn(partial(skipping, find_unused_parameters=True), 2, [(wrap, who, 3) for who in ((0, 1), (1,))])
    assert list(cured.values()) == [["None"] * 2] * 2


@pytest.mark.parametrize("wrap", [DDP, DistributedDataParallel])
def test_c12_accumulation_sends_every_microbatch_and_no_sync_sends_one(wrap):
    def program(rank, world_size, wrap, quiet):
        ddp = wrap(mlp(512, 4))
        with wire() as sent:
            for microbatch in range(4):
                if quiet and microbatch < 3:
                    with ddp.no_sync():
                        ddp(torch.ones(2, 512)).sum().backward()
                else:
                    ddp(torch.ones(2, 512)).sum().backward()
        return sent.sent / (4 * P)

    by = in_turn(program, 2, [(wrap, False), (wrap, True)])
    assert by[wrap, False] == pytest.approx([4, 4], rel=0.01)
    assert by[wrap, True] == pytest.approx([1, 1], rel=0.01)


def reduced(rank, world_size, counts, reduction):
    """The gradient that ranks with so many samples each end up with, and that of one process on all of them."""
    torch.manual_seed(0)
    model, (x, y) = perceptron(16, 8, 4), regression(sum(counts)).tensors
    inputs, targets = x.split(counts)[rank], y.split(counts)[rank]
    losses = (model(inputs) - targets).square().mean(1)
    (global_mean(losses.sum(), len(losses)) if reduction == "weighted" else losses.mean()).backward()
    gradient = parameters_to_vector(p.grad for p in model.parameters())
    dist.all_reduce(gradient)
    gradient /= 1 if reduction == "sum" else world_size
    model.zero_grad()
    mse_loss(model(x), y).backward()
    alone = parameters_to_vector(p.grad for p in model.parameters())
    return (gradient.norm() / alone.norm()).item(), ((gradient - alone).norm() / alone.norm()).item()


@pytest.mark.parametrize("world_size", [1, 2, 4])
def test_c12_c13_a_sum_is_the_mean_with_n_times_the_rate_and_dividing_makes_it_one_process_again(world_size):
    counts = (24 // world_size,) * world_size
    by = in_turn(reduced, world_size, [(counts, "sum"), (counts, "mean")])
    times, _ = by[counts, "sum"][0]
    assert times == pytest.approx(world_size, rel=1e-5)
    times, away = by[counts, "mean"][0]
    assert times == pytest.approx(1, rel=1e-5)
    assert away < 1e-6


def test_c13_sum_over_n_is_the_full_batchs_gradient_with_equal_counts_only():
    counts = (12, 8, 4)
    by = in_turn(reduced, 3, [(counts, "mean"), (counts, "weighted")])
    _, away = by[counts, "mean"][0]
    assert away > 0.05
    _, away = by[counts, "weighted"][0]
    assert away < 1e-6


preload(__name__)
