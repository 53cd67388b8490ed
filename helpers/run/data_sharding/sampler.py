"""Which samples will each rank draw?  Ask before training, since no loss curve tells.

Every rank calls `check_sampling(loader)`: it draws the indices that the first
epochs of training would draw, puts all random generators back, and compares ranks.

    report = check_sampling(loader, before_epoch=loader.sampler.set_epoch)
    report.faults           # [] or what is wrong, and how to mend it
"""
from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset

from helpers.facts.data_sharding import Sampling
from helpers.facts.errors import BadValue
from helpers.run.data_sharding.random_state import preserved_random_state
from helpers.run.measure.gather_objects import gather_objects


def check_sampling(loader: DataLoader, *, num_epochs: int = 2, before_epoch: Callable[[int], object] | None = None,
                   items_in: Callable[[int], int] | None = None, identify: Callable[[object], list[int]] | None = None,
                   num_samples: int | None = None, process_group: dist.ProcessGroup | None = None) -> Sampling:
    """What all ranks will draw; every rank of the group must call it, and each gets the same report.

    num_epochs     two show whether the order changes
    before_epoch   what the training loop calls with the number of each epoch, such as `sampler.set_epoch`
    items_in       how many items, such as tokens, a sample has, if they are what the loss is a mean over
    identify       the numbers of the samples in a batch that the loader gives; for an IterableDataset, or a data set
                   that was cut for this rank other than by a Subset: then all data is loaded
    num_samples    how many there are, if the data set does not know
    process_group  the ranks that share the data, counted from 0 in the report; None: all ranks
    """
    if num_epochs < 1:
        raise BadValue(f"num_epochs is 1 or more, not {num_epochs}")
    if identify is None and isinstance(loader.dataset, IterableDataset):
        raise BadValue("an IterableDataset has no indices: pass identify=, a function from a batch to sample numbers")
    cuts, whole = _cuts(loader.dataset, process_group) if identify is None else ([], None)
    with preserved_random_state(loader):
        mine = [[_uncut(step, cuts) for step in steps]
                for steps in _epochs(loader, num_epochs, before_epoch, identify)]
    items = [sum(map(items_in, step)) for step in mine[0]] if items_in else None
    draws, all_items, sizes, may_drop = zip(
        *gather_objects((mine, items, num_samples or whole, _may_drop(loader, mine[0])), process_group), strict=True)
    if len({one is None for one in all_items}) > 1:
        raise BadValue("items_in is for all ranks or for none")
    size = len({i for rank in draws for step in rank[0] for i in step}) if sizes[0] is None else max(sizes)
    return Sampling(size, draws, sum(may_drop), all_items if items_in else ())


def what_is_drawn(rank: int, world_size: int, make_loader: Callable, kind: str, num_samples: int, batch_size: int,
                  ) -> Sampling:
    """A rank program: check the loader that `make_loader(kind, data, batch_size, rank, world_size)` makes."""
    loader, before_epoch = make_loader(kind, range(num_samples), batch_size, rank, world_size)
    return check_sampling(loader, before_epoch=before_epoch)


def _epochs(loader: DataLoader, num_epochs: int, before_epoch: Callable | None, identify: Callable | None,
            ) -> Iterator[Iterator[list[int]]]:
    for epoch in range(num_epochs):
        if before_epoch is not None:
            before_epoch(epoch)
        if identify is not None:
            yield (list(map(int, identify(batch))) for batch in loader)
        else:
            yield map(_indices, _steps(loader, epoch))


def _steps(loader: DataLoader, epoch: int) -> Iterator:
    """The indices of each step, without loading a sample, but drawing random numbers as DataLoader's iterators do."""
    sampler = loader.sampler if loader.batch_sampler is None else loader.batch_sampler
    steps = iter(sampler)
    if epoch == 0 or not loader.persistent_workers:
        torch.empty((), dtype=torch.int64).random_(generator=loader.generator)      # a seed for workers
        if loader.num_workers:                          # then DataLoader begins its sampler twice
            steps = iter(sampler)
    return steps


def _indices(step: object) -> list[int]:
    try:
        indices = torch.as_tensor(step)
        if indices.is_floating_point() or indices.dim() > 1:
            raise ValueError
    except (TypeError, ValueError, RuntimeError):
        raise BadValue(f"the sampler gives {step!r}, which are no numbers of samples: pass identify=, a function "
                       "from a batch to sample numbers") from None
    return indices.reshape(-1).tolist()


def _cuts(dataset: Dataset, process_group: dist.ProcessGroup | None) -> tuple[list[list[int]], int]:
    """The indices of a Subset, of the Subset that it is cut from, and so on; and how many samples there are in all.

    What all ranks have cut alike is not this rank's part but the data set: a split for training, for instance.
    """
    cuts: list[list[int]] = []
    while isinstance(dataset, Subset):
        cuts.append([int(index) for index in dataset.indices])
        dataset = dataset.dataset
    size, mine = _length(dataset), list(cuts)
    everyone = gather_objects(cuts, process_group)
    while mine and all(theirs[-1:] == mine[-1:] for theirs in everyone):
        size = len(mine.pop())
        everyone = [theirs[:-1] for theirs in everyone]
    return cuts, size


def _length(dataset: Dataset) -> int:
    try:
        return len(dataset)
    except TypeError:
        raise BadValue("the data set has no length: pass identify= and num_samples=") from None


def _uncut(step: list[int], cuts: list[list[int]]) -> list[int]:
    for indices in cuts:
        step = [indices[index] for index in step]
    return step


def _may_drop(loader: DataLoader, steps: list[list[int]]) -> int:
    """The most samples that this rank leaves out of an epoch on purpose."""
    batches = loader.batch_sampler
    sampler = loader.sampler if batches is None else getattr(batches, "sampler", None)
    last_batch = 0
    if getattr(batches, "drop_last", False):
        last_batch = (max(map(len, steps), default=1) - 1) * max(1, loader.num_workers)
        if hasattr(sampler, "__len__") and not isinstance(loader.dataset, IterableDataset):
            last_batch = max(0, len(sampler) - sum(map(len, steps)))
    return last_batch + bool(getattr(sampler, "drop_last", False))
