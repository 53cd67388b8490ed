"""Loaders, right, wrong and odd, each made on every rank; and what they really give, next to what was foretold.

A case is a function of rank and world size that returns a loader and the options of `check_sampling`.  The data sets
return their own indices, so a batch is the list of samples in it.
"""
import random
import traceback

import numpy
import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    Sampler,
    SequentialSampler,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
    get_worker_info,
    random_split,
)

from helpers.run.data_sharding import check_sampling
from helpers.run.launch import preload


class Numbers(Dataset):
    """Sample i is i."""

    def __init__(self, num_samples: int = 18):
        self.num_samples = num_samples

    def __len__(self) -> int:
        return self.num_samples

    def __getitem__(self, index: int) -> int:
        if not 0 <= index < self.num_samples:
            raise IndexError(index)
        return index


class Augmented(Numbers):
    """Draws random numbers as it loads, and counts what was loaded."""

    loaded = 0

    def __getitem__(self, index: int) -> int:
        self.loaded += 1
        torch.rand(1), random.random(), numpy.random.rand()
        return index


class Stream(IterableDataset):
    """This rank's samples, and of them this worker's, shuffled with torch's generator."""

    def __init__(self, rank: int, world_size: int, num_samples: int = 18):
        self.samples = range(rank, num_samples, world_size)

    def __iter__(self):
        worker = get_worker_info()
        mine = self.samples[worker.id::worker.num_workers] if worker else self.samples
        return iter([mine[place] for place in torch.randperm(len(mine)).tolist()])


class CountingStream(Stream):
    """Shuffles with the number of its epoch, which it counts itself."""

    epoch = 0

    def __iter__(self):
        order = torch.randperm(len(self.samples), generator=torch.Generator().manual_seed(self.epoch))
        self.epoch += 1
        return iter([self.samples[place] for place in order.tolist()])


class Drawn(Sampler):
    """This rank's part of a permutation of 18 samples, drawn when iteration begins; from `own` if it is given."""

    def __init__(self, draw, rank: int, world_size: int, own=None):
        self.draw, self.part, self.own = draw, slice(rank, None, world_size), own

    def __iter__(self):
        drawn = self.draw(18) if self.own is None else self.draw(self.own, 18)
        return iter([int(index) for index in drawn][self.part])

    def __len__(self) -> int:
        return len(range(18)[self.part])


class TokenBatches(Sampler):
    """Batches by a limit of tokens, so without a batch_size, shuffled when iteration begins."""

    def __init__(self, rank: int, world_size: int):
        self.mine, self.max_tokens, self.drop_last = range(rank, 18, world_size), 6, False

    def __iter__(self):
        order = [self.mine[place] for place in torch.randperm(len(self.mine)).tolist()]
        return iter([order[:3], order[3:5], order[5:]])

    def __len__(self) -> int:
        return 3


class Raises(Sampler):
    def __init__(self, source):
        self.source, self.epoch = source, 0

    def __iter__(self):
        self.epoch += 1
        yield from range(3)
        random.random(), numpy.random.rand(), torch.rand(1)
        raise RuntimeError("the list of files ends here")

    def __len__(self) -> int:
        return len(self.source)


def one_seed(rank, world_size):
    return DataLoader(Numbers(), 4, shuffle=True), {}


def a_seed_a_rank(rank, world_size):
    torch.manual_seed(rank)
    return DataLoader(Numbers(), 4, shuffle=True), {}


def sampler_with_set_epoch(rank, world_size):
    loader = DataLoader(data := Numbers(20), 4, sampler=DistributedSampler(data, seed=7))
    return loader, {"before_epoch": loader.sampler.set_epoch}


def sampler_without_set_epoch(rank, world_size):
    return DataLoader(data := Numbers(), 4, sampler=DistributedSampler(data)), {}


def sampler_at_epoch_5(rank, world_size):
    loader, options = sampler_with_set_epoch(rank, world_size)
    loader.sampler.set_epoch(5)
    return loader, options


def sampler_not_shuffled(rank, world_size):
    return DataLoader(data := Numbers(), 4, sampler=DistributedSampler(data, shuffle=False)), {}


def sampler_with_a_seed_a_rank(rank, world_size):
    loader = DataLoader(data := Numbers(), 4, sampler=DistributedSampler(data, seed=rank))
    return loader, {"before_epoch": loader.sampler.set_epoch}


def sampler_that_is_rank_0_everywhere(rank, world_size):
    loader = DataLoader(data := Numbers(), 4, sampler=DistributedSampler(data, world_size, 0))
    return loader, {"before_epoch": loader.sampler.set_epoch}


def set_epoch_on_rank_0_only(rank, world_size):
    loader = DataLoader(data := Numbers(), 4, sampler=DistributedSampler(data))
    return loader, {"before_epoch": loader.sampler.set_epoch if rank == 0 else None}


def drop_last_in_loader(rank, world_size):
    loader = DataLoader(data := Numbers(20), 4, sampler=DistributedSampler(data), drop_last=True)
    return loader, {"before_epoch": loader.sampler.set_epoch}


def drop_last_in_sampler(rank, world_size):
    loader = DataLoader(data := Numbers(20), 4, sampler=DistributedSampler(data, drop_last=True))
    return loader, {"before_epoch": loader.sampler.set_epoch}


def subset_for_each_rank(rank, world_size):
    return DataLoader(Subset(Numbers(), range(rank, 18, world_size)), 4, shuffle=True), {}


def uneven_subsets(rank, world_size):
    return DataLoader(Subset(Numbers(20), torch.arange(rank, 20, world_size)), 4, shuffle=True), {}


def empty_subset(rank, world_size):
    return DataLoader(Subset(Numbers(4), [[0, 1], [2, 3], []][rank]), 2), {}


def subset_of_subset(rank, world_size):
    shuffled = Subset(Numbers(), [7 * i % 18 for i in range(18)])          # 7 and 18 share no factor: all of them
    return DataLoader(Subset(shuffled, range(rank, 18, world_size)), 4, shuffle=True), {}


def split_twice(rank, world_size):
    part = Subset(Numbers(), range(rank, 18, world_size))
    loader = DataLoader(part, 4, sampler=DistributedSampler(part))
    return loader, {"before_epoch": loader.sampler.set_epoch}


def training_split(rank, world_size):
    train, _ = random_split(Numbers(30), [18, 12], torch.Generator().manual_seed(3))
    loader = DataLoader(train, 4, sampler=DistributedSampler(train))
    return loader, {"before_epoch": loader.sampler.set_epoch}


def training_split_then_a_subset(rank, world_size):
    train, _ = random_split(Numbers(30), [18, 12], torch.Generator().manual_seed(3))
    return DataLoader(Subset(train, range(rank, 18, world_size)), 4, shuffle=True), {}


def own_batch_sampler(rank, world_size):
    return DataLoader(Numbers(), batch_sampler=TokenBatches(rank, world_size)), {}


def own_batch_sampler_that_drops(rank, world_size):
    batches = TokenBatches(rank, world_size)
    batches.drop_last = True
    return DataLoader(Numbers(), batch_sampler=batches), {}


def batch_sampler_around_a_distributed(rank, world_size):
    sampler = DistributedSampler(data := Numbers(20), drop_last=True)
    sampler.set_epoch(5)
    return DataLoader(data, batch_sampler=BatchSampler(sampler, 4, False)), {"before_epoch": sampler.set_epoch}


def batch_sampler_around_a_generator(rank, world_size):
    generator = torch.Generator().manual_seed(rank)
    return DataLoader(data := Numbers(), batch_sampler=BatchSampler(RandomSampler(data, generator=generator), 4,
                                                                    False)), {}


def sampler_around_a_sampler(rank, world_size):
    """Sub-samplers of BatchSampler, as PyTorch documents it: whole batches are fetched by a list of indices."""
    batches = BatchSampler(DistributedSampler(data := TensorDataset(torch.arange(18)), shuffle=False), 4, False)
    return DataLoader(data, sampler=batches, batch_size=None, collate_fn=lambda batch: batch[0]), {}


def no_batches(rank, world_size):
    loader = DataLoader(data := Numbers(6), batch_size=None, sampler=DistributedSampler(data))
    return loader, {"before_epoch": loader.sampler.set_epoch}


def no_batches_and_an_eager_sampler(rank, world_size):
    return DataLoader(Numbers(), batch_size=None, sampler=Drawn(torch.randperm, rank, world_size)), {}


def with_a_generator(rank, world_size):
    return DataLoader(Numbers(), 4, shuffle=True, generator=torch.Generator().manual_seed(5)), {}


def with_two_generators(rank, world_size):
    own = torch.Generator().manual_seed(rank)
    return DataLoader(data := Numbers(), 4, sampler=RandomSampler(data, generator=own),
                      generator=torch.Generator().manual_seed(5)), {}


def subset_random_sampler(rank, world_size):
    sampler = SubsetRandomSampler(range(rank, 18, world_size), torch.Generator().manual_seed(4))
    return DataLoader(Numbers(), 4, sampler=sampler), {}


def two_workers(rank, world_size):
    return DataLoader(Numbers(), 4, shuffle=True, num_workers=2), {}


def persistent_workers(rank, world_size):
    return DataLoader(Numbers(), 4, shuffle=True, num_workers=1, persistent_workers=True,
                      multiprocessing_context="fork"), {}


def weighted_with_one_seed(rank, world_size):
    return DataLoader(Numbers(), 4, sampler=WeightedRandomSampler(torch.ones(18), 6)), {}


def weighted_with_a_seed_a_rank(rank, world_size):
    torch.manual_seed(rank)
    return DataLoader(Numbers(), 4, sampler=WeightedRandomSampler(torch.ones(18), 6)), {}


def replacement_with_a_seed_a_rank(rank, world_size):
    torch.manual_seed(rank)
    return DataLoader(data := Numbers(), 4, sampler=RandomSampler(data, replacement=True, num_samples=40)), {}


def python_random(rank, world_size):
    random.seed(8)
    return DataLoader(Numbers(), 4, sampler=Drawn(lambda n: random.sample(range(n), n), rank, world_size)), {}


def numpy_random(rank, world_size):
    numpy.random.seed(8)
    return DataLoader(Numbers(), 4, sampler=Drawn(numpy.random.permutation, rank, world_size)), {}


def numpy_generator_of_its_own(rank, world_size):
    sampler = Drawn(numpy.random.Generator.permutation, rank, world_size, numpy.random.default_rng(8))
    return DataLoader(Numbers(), 4, sampler=sampler), {}


def python_generator_of_its_own(rank, world_size):
    sampler = Drawn(lambda own, n: own.sample(range(n), n), rank, world_size, random.Random(8))
    return DataLoader(Numbers(), 4, sampler=sampler), {}


class ShufflesItsList(Sampler):
    def __init__(self, rank: int, world_size: int):
        self.order = list(range(rank, 18, world_size))

    def __iter__(self):
        random.shuffle(self.order)
        return iter(list(self.order))

    def __len__(self) -> int:
        return len(self.order)


def list_shuffled_in_place(rank, world_size):
    return DataLoader(Numbers(), 4, sampler=ShufflesItsList(rank, world_size)), {}


class DropsWithoutASampler(Sampler):
    """Batches of its own that drop the last one, and two whole batches by mistake."""

    batch_size, drop_last = 4, True

    def __init__(self, rank: int, world_size: int):
        self.mine = list(range(rank, 54, world_size))

    def __iter__(self):
        return iter([self.mine[:4], self.mine[4:8]])

    def __len__(self) -> int:
        return 2


def batches_that_lose_more_than_the_last(rank, world_size):
    return DataLoader(Numbers(54), batch_sampler=DropsWithoutASampler(rank, world_size)), {}


def plain_list(rank, world_size):
    return DataLoader(Numbers(), 4, sampler=list(range(rank, 18, world_size))), {}


def plain_range_of_batches(rank, world_size):
    return DataLoader(Numbers(), batch_sampler=[(rank, rank + 3), torch.tensor([rank + 6, rank + 9])]), {}


def augmented(rank, world_size):
    loader = DataLoader(data := Augmented(), 4, sampler=DistributedSampler(data))
    return loader, {"before_epoch": loader.sampler.set_epoch}


def stream(rank, world_size):
    return DataLoader(Stream(rank, world_size), 4), {"identify": torch.Tensor.tolist, "num_samples": 18}


def stream_with_two_workers(rank, world_size):
    return DataLoader(Stream(rank, world_size), 2, num_workers=2, multiprocessing_context="fork"), {
        "identify": torch.Tensor.tolist, "num_samples": 18}


def stream_with_persistent_workers(rank, world_size):
    return DataLoader(Stream(rank, world_size), 4, num_workers=1, persistent_workers=True,
                      multiprocessing_context="fork"), {
        "identify": torch.Tensor.tolist, "num_samples": 18}


def stream_that_counts_its_epochs(rank, world_size):
    return DataLoader(CountingStream(rank, world_size), 4), {"identify": torch.Tensor.tolist, "num_samples": 18}


def stream_that_is_not_split(rank, world_size):
    return DataLoader(Stream(0, 1), 4), {"identify": torch.Tensor.tolist, "num_samples": 18}


def stream_of_unknown_length(rank, world_size):
    return DataLoader(Stream(rank, world_size), 4, drop_last=True), {"identify": torch.Tensor.tolist}


def cut_by_hand(rank, world_size):
    """Six samples of its own, which the data set calls 0 to 5."""
    return DataLoader(TensorDataset(torch.arange(rank, 18, world_size)), 4, shuffle=True), {
        "identify": lambda batch: batch[0], "num_samples": 18}


def items_of_each_sample(rank, world_size):
    loader = DataLoader(data := Numbers(), 4, sampler=DistributedSampler(data, shuffle=False))
    return loader, {"items_in": lambda index: index}


def other_numbers_of_epochs(rank, world_size):
    loader = DataLoader(data := Numbers(), 4, sampler=DistributedSampler(data))
    return loader, {"num_epochs": 1 + rank}


CASES = {case.__name__: case for case in (
    one_seed, a_seed_a_rank, sampler_with_set_epoch, sampler_without_set_epoch, sampler_at_epoch_5,
    sampler_not_shuffled, sampler_with_a_seed_a_rank, sampler_that_is_rank_0_everywhere, set_epoch_on_rank_0_only,
    drop_last_in_loader, drop_last_in_sampler, subset_for_each_rank, uneven_subsets, empty_subset, subset_of_subset,
    split_twice, training_split, training_split_then_a_subset, own_batch_sampler, own_batch_sampler_that_drops,
    batch_sampler_around_a_distributed, batch_sampler_around_a_generator, sampler_around_a_sampler, no_batches,
    no_batches_and_an_eager_sampler, with_a_generator, with_two_generators, subset_random_sampler, two_workers,
    persistent_workers, weighted_with_one_seed, weighted_with_a_seed_a_rank, replacement_with_a_seed_a_rank,
    list_shuffled_in_place, batches_that_lose_more_than_the_last,
    python_random, numpy_random, numpy_generator_of_its_own, python_generator_of_its_own, plain_list,
    plain_range_of_batches, augmented, stream, stream_with_two_workers, stream_with_persistent_workers,
    stream_that_counts_its_epochs, stream_that_is_not_split, stream_of_unknown_length, cut_by_hand,
    items_of_each_sample, other_numbers_of_epochs)}


def foretold_and_given(rank, world_size, names=tuple(CASES)):
    """Of each case: the report, this rank's real epochs, whether all randomness was left alone; or the error."""
    outcomes = {}
    for name in names:
        torch.manual_seed(11), random.seed(11), numpy.random.seed(11)
        loader, options = CASES[name](rank, world_size)
        before = states(loader)
        try:
            report = check_sampling(loader, **options)
            alone = states(loader) == before
            outcomes[name] = report, epochs(loader, len(report.draws[rank]), **options), alone
        except Exception:
            outcomes[name] = traceback.format_exc()
    return outcomes


def epochs(loader, how_many, before_epoch=None, **_) -> list[list[list[int]]]:
    """Train: what the loader gives."""
    given = []
    for epoch in range(how_many):
        if before_epoch:
            before_epoch(epoch)
        given.append([_numbers(batch) for batch in loader])
    return given


def _numbers(batch) -> list[int]:
    batch = batch[0] if isinstance(batch, list) else batch
    return torch.as_tensor(batch).reshape(-1).tolist()


def states(loader) -> list:
    """Every generator and counter that a loader has, those of its samplers too, and the global generators."""
    things = [loader.generator, torch.default_generator, random._inst, numpy.random.get_state()]
    for sampler in (loader.sampler, loader.batch_sampler, getattr(loader.batch_sampler, "sampler", None)):
        things += [value for value in getattr(sampler, "__dict__", {}).values()
                   if isinstance(value, (int, list, torch.Generator, random.Random, numpy.random.Generator))]
    return [_state(thing) for thing in things]


def _state(thing) -> str:
    if isinstance(thing, torch.Generator):
        thing = thing.get_state().tolist()
    elif isinstance(thing, random.Random):
        thing = thing.getstate()
    elif isinstance(thing, numpy.random.Generator):
        thing = thing.bit_generator.state
    return repr(thing)


def raising(rank, world_size):
    """A sampler that ends in an error; is what it had drawn put back?"""
    generator = torch.Generator().manual_seed(1)
    loader = DataLoader(data := Numbers(), 2, sampler=Raises(data), generator=generator)
    before = states(loader)
    try:
        check_sampling(loader)
    except RuntimeError as error:
        return str(error), states(loader) == before, loader.sampler.epoch


def raising_on_one_rank(rank, world_size):
    data = Numbers()
    check_sampling(DataLoader(data, 2, sampler=(Raises if rank == 1 else SequentialSampler)(data)))


def stream_without_identify(rank, world_size):
    check_sampling(DataLoader(Stream(rank, world_size), 4))


def no_epochs(rank, world_size):
    check_sampling(DataLoader(Numbers(), 4), num_epochs=0)


def row_a12(rank, world_size):
    """1003 samples in three ways: what is foretold, and the batches that one epoch really gives."""
    data, outcomes = Numbers(1003), {}
    for how, seed, sampler in (("one seed", 0, None), ("a seed a rank", rank, None),
                               ("sampler", 0, DistributedSampler(data))):
        torch.manual_seed(seed)
        loader = DataLoader(data, 8, shuffle=sampler is None, sampler=sampler)
        report = check_sampling(loader, before_epoch=sampler and sampler.set_epoch)
        outcomes[how] = report, epochs(loader, 1, sampler and sampler.set_epoch)[0]
    return outcomes


preload(__name__)
