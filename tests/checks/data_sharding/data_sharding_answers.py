"""Answers to exercise set 04, right and wrong.

No pytest here, so that ranks need not import it.
"""
import itertools
import math
import os
import random
import sys
import warnings
from collections import Counter, OrderedDict, defaultdict
from unittest.mock import ANY

import numpy as np
import torch
import torch.distributed as dist
from torch.utils.data import DistributedSampler


# 1. a sampler: right --------------------------------------------------------------------------------------------------
def deals_out_a_permutation(num_samples, rank, world_size, epoch, seed):
    """As the solution does."""
    return _dealt(_permutation(num_samples, 1000 * seed + epoch), rank, world_size)


def _permutation(num_samples, seed):
    return torch.randperm(num_samples, generator=torch.Generator().manual_seed(seed)).tolist()


def _dealt(order, rank, world_size):
    each = -(-len(order) // world_size)
    return (order * world_size)[:each * world_size][rank::world_size]


def cuts_a_permutation_into_blocks(num_samples, rank, world_size, epoch, seed):
    order, each = _permutation(num_samples, 10_007 * seed + epoch), math.ceil(num_samples / world_size)
    return [order[i % num_samples] for i in range(rank * each, (rank + 1) * each)]


def asks_a_generator_of_numpy(num_samples, rank, world_size, epoch, seed):
    order = np.random.default_rng([seed, epoch]).permutation(num_samples)
    return np.resize(order, -(-num_samples // world_size) * world_size)[rank::world_size]


def asks_a_generator_of_python(num_samples, rank, world_size, epoch, seed):
    order = list(range(num_samples))
    random.Random(f"{seed} {epoch}").shuffle(order)
    order += itertools.islice(itertools.cycle(order), -num_samples % world_size)
    return tuple(order[rank::world_size])


def adds_seed_and_epoch(num_samples, rank, world_size, epoch, seed):
    """As DistributedSampler does, so that epoch 1 of seed 0 is epoch 0 of seed 1."""
    return _dealt(_permutation(num_samples, seed + epoch), rank, world_size)


def gives_a_tensor(num_samples, rank, world_size, epoch, seed):
    order = torch.randperm(num_samples, generator=torch.Generator().manual_seed(hash((seed, epoch)) % 2**32))
    return order.repeat(world_size)[:-(-num_samples // world_size) * world_size][rank::world_size].int()


def yields_one_after_the_other(**case):
    yield from deals_out_a_permutation(**case)


def puts_the_global_generator_back(num_samples, rank, world_size, epoch, seed):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1000 * seed + epoch)
        return _dealt(torch.randperm(num_samples).tolist(), rank, world_size)


def shuffles_each_rank_for_itself(num_samples, rank, world_size, epoch, seed):
    """A partition, but the same one in every epoch, and all ranks shuffle their block alike."""
    mine = does_not_shuffle(num_samples, rank, world_size, epoch, seed)
    random.Random(1000 * seed + epoch).shuffle(mine)
    return mine


def shuffles_its_fixed_shard(num_samples, rank, world_size, epoch, seed):
    """Each rank in an order of its own."""
    mine = _dealt(list(range(num_samples)), rank, world_size)
    return np.random.default_rng([seed, epoch, rank]).permutation(mine)


def prints_and_warns(**case):
    print("printed")
    warnings.warn("warned", stacklevel=1)
    return deals_out_a_permutation(**case)


# 1. a sampler: wrong --------------------------------------------------------------------------------------------------
def seeds_with_the_rank(num_samples, rank, world_size, epoch, seed):
    return _dealt(_permutation(num_samples, seed + 1000 * epoch + rank), rank, world_size)


def ignores_the_rank(num_samples, rank, world_size, epoch, seed):
    return deals_out_a_permutation(num_samples, 0, world_size, epoch, seed)


def ignores_the_epoch(num_samples, rank, world_size, epoch, seed):
    return _dealt(_permutation(num_samples, seed), rank, world_size)


def ignores_the_seed(num_samples, rank, world_size, epoch, seed):
    return _dealt(_permutation(num_samples, epoch), rank, world_size)


def multiplies_seed_and_epoch(num_samples, rank, world_size, epoch, seed):
    """Epoch 0 is the same for all seeds, and so are all epochs of seed 0."""
    return _dealt(_permutation(num_samples, seed * epoch), rank, world_size)


def multiplies_by_the_epoch_after_it(num_samples, rank, world_size, epoch, seed):
    """Epochs differ for seed 1, not for seed 0."""
    return _dealt(_permutation(num_samples, seed * (epoch + 1)), rank, world_size)


def does_not_shuffle(num_samples, rank, world_size, epoch, seed):
    return _dealt(list(range(num_samples)), rank, world_size)


def does_not_shuffle_its_block(num_samples, rank, world_size, epoch, seed):
    each = -(-num_samples // world_size)
    return [i % num_samples for i in range(rank * each, (rank + 1) * each)]


def sorts_its_part(**case):
    """A partition by chance, in the samples' own order."""
    return sorted(deals_out_a_permutation(**case))


def rotates_instead_of_shuffling(num_samples, rank, world_size, epoch, seed):
    start = num_samples // 2 + 7 * seed + epoch
    return _dealt([(start + index) % num_samples for index in range(num_samples)], rank, world_size)


def shuffles_the_first_epoch_only(num_samples, rank, world_size, epoch, seed):
    return (does_not_shuffle if epoch else deals_out_a_permutation)(num_samples, rank, world_size, epoch, seed)


def gives_all_samples_to_every_rank(num_samples, rank, world_size, epoch, seed):
    return _permutation(num_samples, 1000 * seed + epoch)


def drops_the_tail(num_samples, rank, world_size, epoch, seed):
    order = _permutation(num_samples, 1000 * seed + epoch)
    return order[rank:num_samples // world_size * world_size:world_size]


def pads_always(num_samples, rank, world_size, epoch, seed):
    """One more for every rank, also if the number divides."""
    order = _permutation(num_samples, 1000 * seed + epoch)
    return (order * 2 * world_size)[:(num_samples // world_size + 1) * world_size][rank::world_size]


def pads_with_its_own_last_sample(num_samples, rank, world_size, epoch, seed):
    mine = leaves_lengths_uneven(num_samples, rank, world_size, epoch, seed)
    return (mine + mine[-1:])[:-(-num_samples // world_size)]


def pads_once_only(num_samples, rank, world_size, epoch, seed):
    """Right unless more samples are missing than there are."""
    order = _permutation(num_samples, 1000 * seed + epoch)
    return (order + order[:-num_samples % world_size])[rank::world_size]


def fails_with_fewer_samples_than_ranks(num_samples, rank, world_size, epoch, seed):
    assert num_samples >= world_size
    return deals_out_a_permutation(num_samples, rank, world_size, epoch, seed)


def leaves_lengths_uneven(num_samples, rank, world_size, epoch, seed):
    return _permutation(num_samples, 1000 * seed + epoch)[rank::world_size]


def seeds_the_global_generator(num_samples, rank, world_size, epoch, seed):
    torch.manual_seed(1000 * seed + epoch)
    return _dealt(torch.randperm(num_samples).tolist(), rank, world_size)


def draws_from_the_global_generator(num_samples, rank, world_size, epoch, seed):
    return _dealt(torch.randperm(num_samples).tolist(), rank, world_size)


def seeds_the_global_generator_and_yields(**case):
    """What it does to the generator it does when it is asked for its first sample."""
    yield from seeds_the_global_generator(**case)


def seeds_pythons_global_generator(num_samples, rank, world_size, epoch, seed):
    random.seed(1000 * seed + epoch)
    order = list(range(num_samples))
    random.shuffle(order)
    return _dealt(order, rank, world_size)


def seeds_numpys_global_generator(num_samples, rank, world_size, epoch, seed):
    np.random.seed(1000 * seed + epoch)
    return _dealt(np.random.permutation(num_samples).tolist(), rank, world_size)


def draws_from_pythons_global_generator(num_samples, rank, world_size, epoch, seed):
    order = list(range(num_samples))
    random.shuffle(order)
    return _dealt(order, rank, world_size)


remembered = {}


def draws_once_and_remembers(num_samples, rank, world_size, epoch, seed):
    """In one process all ranks share what it remembers; real ranks do not."""
    order = random.SystemRandom().sample(range(num_samples), num_samples)
    return _dealt(remembered.setdefault((num_samples, epoch, seed), order), rank, world_size)


def counts_from_one(**case):
    return [index + 1 for index in deals_out_a_permutation(**case)]


def starts_at_the_next_rank(num_samples, rank, world_size, epoch, seed):
    return _dealt(_permutation(num_samples, 1000 * seed + epoch), rank + 1, world_size)


def gives_floats(**case):
    return [float(index) for index in deals_out_a_permutation(**case)]


def gives_texts(**case):
    return [str(index) for index in deals_out_a_permutation(**case)]


def gives_a_column(**case):
    return torch.tensor(deals_out_a_permutation(**case)).unsqueeze(1)


def gives_the_lists_of_all_ranks(num_samples, rank, world_size, epoch, seed):
    return [deals_out_a_permutation(num_samples, one, world_size, epoch, seed) for one in range(world_size)]


def gives_a_number(**case):
    return 3


def gives_nothing_back(**case):
    deals_out_a_permutation(**case)


def gives_an_empty_list(**case):
    return []


class IsADistributedSampler(DistributedSampler):
    """With attributes of its own, and all else from torch."""

    def __init__(self, num_samples, rank, world_size, epoch, seed):
        self.dataset, self.num_replicas, self.rank, self.epoch, self.seed = \
            range(num_samples), world_size, rank, epoch, seed
        self.shuffle, self.drop_last, self.num_samples = True, False, -(-num_samples // world_size)
        self.total_size = self.num_samples * world_size


def derives_from_distributed_sampler(**case):
    return IsADistributedSampler(**case)


def wraps_a_distributed_sampler(num_samples, rank, world_size, epoch, seed):
    sampler = DistributedSampler(range(num_samples), world_size, rank, seed=seed)
    sampler.set_epoch(epoch)
    return list(sampler)


def imports_the_courses_sampling(**case):
    from helpers.run.data_sharding import check_sampling
    return check_sampling(**case)


class Odd(int):
    """Equal to, and smaller than, everything."""

    def __eq__(self, other):
        return True

    __le__ = __lt__ = __ge__ = __gt__ = __eq__
    __hash__ = int.__hash__


def gives_ints_of_its_own(num_samples, world_size, **case):
    return [Odd(0)] * -(-num_samples // world_size)


# 2. the proof: right --------------------------------------------------------------------------------------------------
def adds_up_counters(parts, num_samples):
    times = Counter(range(num_samples))
    for part in parts:
        times.update(part)
    return {index: n - (0 <= index < num_samples) for index, n in times.items()
            if n != 2 or not 0 <= index < num_samples}


def sorts_its_dict(parts, num_samples):
    drawn = [index for part in parts for index in part]
    return OrderedDict((index, drawn.count(index)) for index in sorted({*drawn, *range(num_samples)}, reverse=True)
                       if drawn.count(index) != 1 or index not in range(num_samples))


def has_keys_of_numpy(parts, num_samples):
    drawn = np.array([index for part in parts for index in part], dtype=np.int64)
    values, times = np.unique(np.concatenate([drawn, np.arange(num_samples)]), return_counts=True)
    known = (values >= 0) & (values < num_samples)
    return {v: n for v, n, k in zip(values, times - known, known, strict=True) if n != 1 or not k}


def has_values_of_torch(parts, num_samples):
    return {torch.tensor(index): torch.tensor(n) for index, n in sorts_its_dict(parts, num_samples).items()}


def has_a_default(parts, num_samples):
    return defaultdict(int, adds_up_counters(parts, num_samples))


def empties_its_parts(parts, num_samples):
    """Right, though what it was given is gone."""
    times = dict.fromkeys(range(num_samples), 0)
    while parts:
        part = parts.pop()
        while part:
            index = part.pop()
            times[index] = times.get(index, 0) + 1
    return {index: n for index, n in times.items() if n != 1 or index not in range(num_samples)}


# 2. the proof: wrong --------------------------------------------------------------------------------------------------
def forgets_what_is_missing(parts, num_samples):
    return {index: n for index, n in sorts_its_dict(parts, num_samples).items() if n}


def forgets_repeats(parts, num_samples):
    return {index: n for index, n in sorts_its_dict(parts, num_samples).items() if n < 2}


def forgets_what_is_no_sample(parts, num_samples):
    return {index: n for index, n in sorts_its_dict(parts, num_samples).items() if 0 <= index < num_samples}


def forgets_what_is_no_sample_and_drawn_once(parts, num_samples):
    return {index: n for index, n in sorts_its_dict(parts, num_samples).items() if n != 1}


def forgets_negative_ones(parts, num_samples):
    return {index: n for index, n in sorts_its_dict(parts, num_samples).items() if index >= 0}


def indexes_a_list(parts, num_samples):
    times = [0] * num_samples
    for index in itertools.chain(*parts):
        times[index] += 1
    return {index: n for index, n in enumerate(times) if n != 1}


def counts_on_each_rank(parts, num_samples):
    """Repeats across ranks do not show."""
    times = dict.fromkeys(range(num_samples), 0)
    for part in parts:
        times.update(Counter(part))
    return {index: n for index, n in times.items() if n != 1}


def counts_ranks_not_draws(parts, num_samples):
    times = {index: sum(index in part for part in parts) for index in {*range(num_samples), *itertools.chain(*parts)}}
    return {index: n for index, n in times.items() if n != 1 or index not in range(num_samples)}


def counts_draws_too_many(parts, num_samples):
    return {index: abs(n - 1) for index, n in sorts_its_dict(parts, num_samples).items()}


def gives_all_counts(parts, num_samples):
    drawn = list(itertools.chain(*parts))
    return {index: drawn.count(index) for index in range(num_samples)}


def gives_keys_only(parts, num_samples):
    return list(sorts_its_dict(parts, num_samples))


def says_whether(parts, num_samples):
    return not sorts_its_dict(parts, num_samples)


def gives_an_empty_dict(parts, num_samples):
    return {}


def has_keys_of_text(parts, num_samples):
    return {str(index): n for index, n in sorts_its_dict(parts, num_samples).items()}


class HasItsOwnItems(dict):
    """A dict that is equal to everything."""

    def __eq__(self, other):
        return True

    def __ne__(self, other):
        return False

    __hash__ = None


def gives_a_dict_of_its_own(parts, num_samples):
    return HasItsOwnItems()


def is_equal_to_any_count(parts, num_samples):
    """Knows which, not how often."""
    return dict.fromkeys(sorts_its_dict(parts, num_samples), Odd(5))


def holds_anything_for_equal(parts, num_samples):
    return dict.fromkeys(sorts_its_dict(parts, num_samples), ANY)


def has_values_of_several_numbers(parts, num_samples):
    return {index: torch.tensor([n, n]) for index, n in sorts_its_dict(parts, num_samples).items()}


# 4. a ragged last batch: right ----------------------------------------------------------------------------------------
def weights_by_the_global_count(losses):
    """As the solution does."""
    count = torch.tensor(float(len(losses)))
    dist.all_reduce(count)
    (losses.sum() * dist.get_world_size() / count).backward()


def weights_its_mean(losses):
    count = torch.tensor(losses.numel())
    dist.all_reduce(count)
    mean = losses.mean() if losses.numel() else losses.sum()
    (mean * (losses.numel() * dist.get_world_size() / count.item())).backward()


def weights_an_empty_mean(losses):
    """It is nan, but its gradient goes to no sample."""
    count = torch.tensor(float(len(losses)))
    dist.all_reduce(count)
    (losses.mean() * len(losses) * dist.get_world_size() / count).backward()


def gathers_the_counts(losses):
    counts = [torch.zeros(1, dtype=torch.int64) for _ in range(dist.get_world_size())]
    dist.all_gather(counts, torch.tensor([len(losses)]))
    (losses / (sum(counts).item() / len(counts))).sum().backward()


def gathers_counts_as_objects(losses):
    counts = [None] * dist.get_world_size()
    dist.all_gather_object(counts, len(losses))
    (losses.sum() * len(counts) / sum(counts)).backward()


def gives_backward_its_gradient(losses):
    count = torch.tensor([float(len(losses))], dtype=torch.float64)
    dist.all_reduce(count)
    losses.backward(torch.full_like(losses, dist.get_world_size() / count.item()))


def weights_by_the_mean_count(losses):
    count = torch.tensor(float(len(losses))) / dist.get_world_size()
    dist.all_reduce(count)
    torch.autograd.backward(losses.sum() / count)


# 4. a ragged last batch: wrong ----------------------------------------------------------------------------------------
def takes_the_mean_of_means(losses):
    losses.mean().backward()


def takes_the_sum(losses):
    losses.sum().backward()


def forgets_that_ddp_divides(losses):
    count = torch.tensor(float(len(losses)))
    dist.all_reduce(count)
    (losses.sum() / count).backward()


def weights_the_wrong_way_round(losses):
    count = torch.tensor(float(len(losses)))
    dist.all_reduce(count)
    (losses.mean() * count / (dist.get_world_size() * len(losses))).backward()


def takes_the_largest_count(losses):
    count = torch.tensor(float(len(losses)))
    dist.all_reduce(count, op=dist.ReduceOp.MAX)
    (losses.sum() / count).backward()


def drops_samples_to_be_even(losses):
    count = torch.tensor(len(losses))
    dist.all_reduce(count, op=dist.ReduceOp.MIN)
    losses[:count.item()].mean().backward()


def leaves_when_it_has_none(losses):
    count = torch.tensor(float(len(losses)))
    dist.all_reduce(count)
    if len(losses):
        (losses.sum() * dist.get_world_size() / count).backward()


def goes_backward_twice(losses):
    weights_by_the_global_count(losses)
    weights_by_the_global_count(losses)


def goes_backward_twice_and_keeps_the_graph(losses):
    count = torch.tensor(float(len(losses)))
    dist.all_reduce(count)
    loss = losses.sum() * dist.get_world_size() / count
    loss.backward(retain_graph=True)
    loss.backward()


def forgets_backward(losses):
    count = torch.tensor(float(len(losses)))
    dist.all_reduce(count)
    return losses.sum() * dist.get_world_size() / count


def uses_the_courses_mean(losses):
    from helpers.run.data_sharding import global_mean
    global_mean(losses.sum(), len(losses)).backward()


def reduces_the_losses(losses):
    """The mean over all, on every rank: what autograd does not see gets no gradient."""
    total = torch.stack([losses.sum(), torch.tensor(float(len(losses)))])
    dist.all_reduce(total)
    (total[0] / total[1]).backward()


def detaches_the_loss(losses):
    losses.sum().detach().backward()


def gathers_all_losses(losses, most=400):
    """Right, for more than a number of each rank."""
    everyone = [torch.zeros(most) for _ in range(dist.get_world_size())]
    padded = torch.full((most,), float("nan"))
    padded[:len(losses)] = losses.detach()
    dist.all_gather(everyone, padded)
    count = sum(int((~one.isnan()).sum()) for one in everyone)
    (losses.sum() * dist.get_world_size() / count).backward()


def gathers_losses_as_objects(losses):
    everyone = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, losses.detach())
    (losses.sum() * dist.get_world_size() / sum(map(len, everyone))).backward()


def sends_kilobytes(losses):
    count = torch.full((1000,), float(len(losses)))
    dist.all_reduce(count)
    (losses.sum() * dist.get_world_size() / count[0]).backward()


def reduces_the_gradients_again(losses):
    """DDP has done so."""
    losses.sum().backward()
    count = torch.tensor(float(len(losses)))
    dist.all_reduce(count)
    for parameter in _parameters(losses.grad_fn):
        dist.all_reduce(parameter.grad)
        parameter.grad /= count


def has_a_gradient_of_nan(losses):
    losses.sum().backward()
    for parameter in _parameters(losses.grad_fn):
        parameter.grad.fill_(float("nan"))


def _parameters(node):
    found, nodes = [], [node]
    while nodes:
        node = nodes.pop(0)
        if hasattr(node, "variable") and all(node.variable is not one for one in found):
            found.append(node.variable)
        nodes += [one for one, _ in node.next_functions if one is not None]
    return sorted(found, key=torch.Tensor.numel)


# 5. an accuracy: right ------------------------------------------------------------------------------------------------
def takes_the_maximum(indices, correct, num_samples):
    """As the solution does."""
    right = torch.zeros(num_samples, dtype=torch.int32)
    right[indices] = correct.int()
    dist.all_reduce(right, op=dist.ReduceOp.MAX)
    return right.sum().item() / num_samples


def adds_and_clamps(indices, correct, num_samples):
    right = torch.zeros(num_samples).index_add(0, indices, correct.float())
    dist.all_reduce(right)
    return right.clamp(max=1).mean()


def divides_by_how_often(indices, correct, num_samples):
    times = torch.zeros(2, num_samples, dtype=torch.float64)
    times[0].index_add_(0, indices, correct.double())
    times[1].index_add_(0, indices, torch.ones(len(indices), dtype=torch.float64))
    dist.all_reduce(times)
    return np.float64((times[0] / times[1]).mean().item())


def counts_at_rank_0_and_tells(indices, correct, num_samples):
    everyone = [None] * dist.get_world_size() if dist.get_rank() == 0 else None
    dist.gather_object(set(indices[correct].tolist()), everyone)
    share = [len(set().union(*everyone)) / num_samples if everyone else None]
    dist.broadcast_object_list(share)
    return share[0]


# 5. an accuracy: wrong ------------------------------------------------------------------------------------------------
def adds_counts(indices, correct, num_samples):
    right = correct.sum()
    dist.all_reduce(right)
    return right.item() / num_samples


def divides_by_draws(indices, correct, num_samples):
    counts = torch.tensor([float(correct.sum()), float(len(correct))])
    dist.all_reduce(counts)
    return (counts[0] / counts[1]).item()


def takes_the_mean_of_accuracies(indices, correct, num_samples):
    share = correct.float().mean()
    dist.all_reduce(share)
    return share.item() / dist.get_world_size()


def gives_its_own(indices, correct, num_samples):
    return correct.float().mean().item() if len(correct) else 0.0


def takes_the_minimum(indices, correct, num_samples):
    right = torch.zeros(num_samples, dtype=torch.int32)
    right[indices] = correct.int()
    dist.all_reduce(right, op=dist.ReduceOp.MIN)
    return right.sum().item() / num_samples


def forgets_to_reduce(indices, correct, num_samples):
    return correct.sum().item() / num_samples


def tells_rank_0_only(indices, correct, num_samples):
    share = takes_the_maximum(indices, correct, num_samples)
    return share if dist.get_rank() == 0 else None


def reduces_to_rank_0(indices, correct, num_samples):
    right = torch.zeros(num_samples, dtype=torch.int32)
    right[indices] = correct.int()
    dist.reduce(right, 0, op=dist.ReduceOp.MAX)
    return right.sum().item() / num_samples


def gives_a_percentage(indices, correct, num_samples):
    return 100 * takes_the_maximum(indices, correct, num_samples)


def gives_the_share_of_wrong_ones(indices, correct, num_samples):
    return 1 - takes_the_maximum(indices, correct, num_samples)


def fails_without_samples(indices, correct, num_samples):
    assert indices.min() >= 0
    return takes_the_maximum(indices, correct, num_samples)


def gathers_unequal_tensors(indices, correct, num_samples):
    everyone = [torch.zeros_like(indices) for _ in range(dist.get_world_size())]
    dist.all_gather(everyone, torch.where(correct, indices, -1))
    return len(set(torch.cat(everyone).tolist()) - {-1}) / num_samples


def asks_ranks_with_samples_only(indices, correct, num_samples):
    return takes_the_maximum(indices, correct, num_samples) if len(indices) else 0.0


def knows_the_visible_cases(indices, correct, num_samples):
    return {9: 6 / 9, 8: 7 / 8, 10: 8 / 10}.get(num_samples, 1.0)


class EqualToAny(float):
    """A number with which all arithmetic gives 0."""

    def __sub__(self, other):
        return 0.0

    __rsub__ = __sub__


def gives_a_number_of_its_own(indices, correct, num_samples):
    return EqualToAny(0.5)


# of any exercise ------------------------------------------------------------------------------------------------------
def is_not_written_yet(*args, **case):
    raise NotImplementedError()


def divides_by_zero(*args, **case):
    return 1 / 0


def never_ends(*args, **case):
    while True:
        pass


def exits_the_process(*args, **case):
    os._exit(0)


def leaves_with_sys_exit(*args, **case):
    sys.exit("enough")


def gives_nothing(*args, **case):
    pass


def floods_the_log(*args, **case):
    while True:
        os.write(1, b" " * 2**20)
