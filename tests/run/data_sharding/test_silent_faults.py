"""Every silent fault of lesson 04, in a training that asks as the lesson says: found before the tenth step, by name."""
import functools

import pytest
import torch
from torch import nn
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, Subset

from helpers.run.data_sharding import check_sampling
from helpers.run.launch import launch, preload
from helpers.run.measure.fingerprint import first_difference, same_randomness
from helpers.run.models import Stream
from tests.run.in_turn import in_turn

DATA = range(203)
READ = {"identify": torch.Tensor.tolist, "num_samples": len(DATA)}


def split(rank, world_size, data=DATA, batch_size=8, seed=0, **options):
    sampler = DistributedSampler(data, seed=seed)
    return DataLoader(data, batch_size, sampler=sampler, **options), {"before_epoch": sampler.set_epoch}


def unsplit(rank, seed):
    torch.manual_seed(seed)
    return DataLoader(DATA, 8, shuffle=True), {}


def without_set_epoch(rank, world_size):
    return split(rank, world_size)[0], {}


def items(rank, world_size):
    loader, options = split(rank, world_size)
    return loader, options | {"items_in": lambda index: index % 7}


LOADERS = {
    "right": (split, []),
    "no sampler, one seed": (lambda rank, n: unsplit(rank, 0), ["same batches"]),
    "no sampler, seed + rank": (lambda rank, n: unsplit(rank, rank), ["not split"]),
    "sampler, seed + rank": (lambda rank, n: split(rank, n, seed=rank), ["overlap"]),
    "no set_epoch": (without_set_epoch, ["same order"]),
    "split twice": (lambda rank, n: split(rank, n, Subset(DATA, range(rank, len(DATA), n))), ["missing"]),
    "own batch size": (lambda rank, n: split(rank, n, batch_size=8 + rank), ["uneven steps", "uneven batches"]),
    "sequences of all lengths": (items, ["uneven batches"]),
    "a stream that nobody splits": (lambda rank, n: (DataLoader(Stream(lambda worker: DATA), 8), READ),
                                    ["same batches"]),
    "a stream that its workers do not split": (
        lambda rank, n: (DataLoader(Stream(lambda worker: DATA[rank:len(DATA) - len(DATA) % n:n]), 8, num_workers=2),
                         READ | {"num_samples": len(DATA) - len(DATA) % n}), ["read again", "same order"]),
}


def foretold_and_given(rank, world_size, name):
    """Kinds of the faults; and whether the loader gives what was foretold."""
    loader, options = LOADERS[name][0](rank, world_size)
    report = check_sampling(loader, **options)
    if "before_epoch" in options:
        options["before_epoch"](0)
    given = [torch.as_tensor(batch).tolist() for batch in loader]
    return [fault.kind for fault in report.faults], given == report.draws[rank][0]


@functools.cache
def found():
    return in_turn(foretold_and_given, 4, [(name,) for name in LOADERS])


@pytest.mark.parametrize("name", LOADERS)
def test_a_faulty_loader_is_named_before_the_first_step(name):
    """And the loader then gives what was foretold: the fault was there."""
    assert found()[name,] == [(LOADERS[name][1], True)] * 4


def test_padding_is_named_before_the_evaluation_counts_it_twice():
    def program(rank, world_size):
        report = check_sampling(split(rank, world_size)[0])
        return [finding.kind for finding in report.findings if finding.harmless], report.num_repeats

    assert launch(program, 4).results == [(["padding"], 1)] * 4


@pytest.mark.parametrize(("seed_of", "alike"), [(lambda rank: 7, (0, 1, 2)), (lambda rank: 7 + rank, ())])
def test_equal_dropout_masks_are_named_before_the_first_one_is_drawn(seed_of, alike):
    def program(rank, world_size):
        torch.manual_seed(seed_of(rank))
        return same_randomness(), nn.functional.dropout(torch.ones(64), 0.5).tolist()

    said, masks = zip(*launch(program, 3).results, strict=True)
    assert said == (alike,) * 3
    assert (masks[0] == masks[1] == masks[2]) is bool(alike)


def test_what_join_leaves_behind_is_named_after_the_step_that_does_it():
    """Parameters are equal, momentum is not: rank 0 took one step fewer."""
    def program(rank, world_size):
        torch.manual_seed(0)
        ddp = DistributedDataParallel(nn.Linear(4, 1))
        optimizer = torch.optim.SGD(ddp.parameters(), 0.01, momentum=0.9)
        with Join([ddp]):
            for _ in range(3 + rank):
                optimizer.zero_grad()
                ddp(torch.ones(2, 4)).sum().backward()
                optimizer.step()
        return first_difference(ddp.module), str(first_difference(ddp.module, optimizer))

    assert launch(program, 2).results == [
        (None, "optimizer's momentum_buffer of weight: rank 1 differs from rank 0")] * 2


preload(__name__)
