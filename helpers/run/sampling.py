"""Which samples will each rank draw?  Ask before training, since no loss curve tells.

Every rank calls `check_sampling(loader)`: it draws the indices that an epoch of
training would draw, leaves all random generators as they were, and compares ranks.

    report = check_sampling(loader, before_epoch=loader.sampler.set_epoch)
    report.faults           # [] or what is wrong, and how to mend it
"""
from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset

from helpers.facts.errors import BadValue
from helpers.facts.sampling import Sampling


def check_sampling(loader: DataLoader, *, num_epochs: int = 2, before_epoch: Callable[[int], object] | None = None,
                   items_in: Callable[[int], int] | None = None, identify: Callable[[object], list[int]] | None = None,
                   num_samples: int | None = None) -> Sampling:
    """What all ranks will draw; every rank must call it, and each gets the same report.

    before_epoch   what the training loop calls with the number of each epoch, such as `sampler.set_epoch`
    items_in       how many items, such as tokens, a sample has, if they are what the loss is a mean over
    identify       the numbers of the samples in a batch that the loader gives; for an IterableDataset, or a data set
                   that was cut for this rank other than by a Subset: then all data is loaded
    num_samples    how many there are, with `identify`; else the data set knows
    """
    if num_epochs < 1:
        raise BadValue(f"num_epochs is 1 or more, not {num_epochs}")
    if identify is None and isinstance(loader.dataset, IterableDataset):
        raise BadValue("an IterableDataset has no indices: pass identify=, a function from a batch to sample numbers")
    with _undisturbed(loader):
        mine = list(_epochs(loader, num_epochs, before_epoch, identify))
    items = [sum(map(items_in, step)) for step in mine[0]] if items_in else None
    size = num_samples if identify else _origin(loader.dataset, 0)[1]
    everyone: list[tuple] = [()] * dist.get_world_size()
    dist.all_gather_object(everyone, (mine, items, size, _may_drop(loader)))
    draws, all_items, sizes, may_drop = zip(*everyone, strict=True)
    size = len({i for rank in draws for step in rank[0] for i in step}) if sizes[0] is None else max(sizes)
    return Sampling(size, draws, sum(may_drop), all_items if items_in else ())


def _epochs(loader: DataLoader, num_epochs: int, before_epoch: Callable | None, identify: Callable | None,
            ) -> Iterator[list[list[int]]]:
    for epoch in range(num_epochs):
        if before_epoch is not None:
            before_epoch(epoch)
        if identify is not None:
            yield [list(map(int, identify(batch))) for batch in loader]
        else:
            yield [[_origin(loader.dataset, int(index))[0] for index in step] for step in _steps(loader)]


def _origin(dataset: Dataset, index: int) -> tuple[int, int]:
    """Where a sample of a Subset, or of a Subset of one, stands in the whole data set, and how large that is."""
    while isinstance(dataset, Subset):
        index = int(dataset.indices[index]) if len(dataset) else index
        dataset = dataset.dataset
    return index, len(dataset)


def _steps(loader: DataLoader) -> Iterator[list[int]]:
    """The indices of each step, without loading a sample."""
    torch.empty((), dtype=torch.int64).random_(generator=loader.generator)      # the seed of workers: DataLoader's
    if loader.batch_sampler is None:                                            # iterator draws it first
        return ([index] for index in loader.sampler)
    return iter(loader.batch_sampler)


def _may_drop(loader: DataLoader) -> int:
    """The most samples that this rank leaves out of an epoch on purpose."""
    sampler, batches = getattr(loader, "sampler", None), getattr(loader, "batch_sampler", None)
    last_batch = batches.batch_size - 1 if getattr(batches, "drop_last", False) else 0
    return last_batch + bool(getattr(sampler, "drop_last", False))


@contextmanager
def _undisturbed(loader: DataLoader) -> Iterator[None]:
    """Put every random generator, and the sampler's epoch, back to where they were."""
    samplers = [s for s in (getattr(loader, "sampler", None), getattr(loader, "batch_sampler", None)) if s is not None]
    generators = {id(g): g for thing in (loader, *samplers) if (g := getattr(thing, "generator", None)) is not None}
    states = [(g, g.get_state()) for g in generators.values()]
    epochs = [(sampler, sampler.epoch) for sampler in samplers if hasattr(sampler, "epoch")]
    pythons, numpys = random.getstate(), numpy.random.get_state()
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        random.setstate(pythons)
        numpy.random.set_state(numpys)
        for generator, state in states:
            generator.set_state(state)
        for sampler, epoch in epochs:
            sampler.epoch = epoch
