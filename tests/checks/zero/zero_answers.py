"""Exercises 1 and 2 of set 05 as learners might write them, right and wrong.

No pytest here, so that ranks need not import it.
"""
import sys

import numpy as np
import torch
import torch.distributed as dist
from torch.autograd import Variable

from helpers.run.collectives import Chunks, GlooMesh, ring_all_gather, ring_reduce_scatter
from tests.checks.ddp.ddp_answers import (  # noqa: F401  the tests take them from here
    divides_by_zero,
    exits_the_process,
    is_not_written_yet,
    never_ends,
    takes_no_arguments,
)


# either of them -------------------------------------------------------------------------------------------------------
def returns_nothing(*answer):
    pass


def uses_the_courses_zero(*answer):
    from helpers.run.zero import Zero1
    return Zero1


def uses_the_courses_flat(*answer):
    import helpers.run.zero.flat as flat
    return flat


# 1. Adam, a shard on each rank ----------------------------------------------------------------------------------------
def _flat(tensors):
    return torch.cat([tensor.detach().reshape(-1) for tensor in tensors])


def _back(flat, parameters):
    for parameter, part in zip(parameters, flat.split([p.numel() for p in parameters]), strict=True):
        parameter.detach().copy_(part.view_as(parameter))


class _Ring:
    """The solution, in parts that others replace."""

    def __init__(self, parameters, lr):
        self.parameters, self.mesh = parameters, GlooMesh()
        self.rank, self.n = self.mesh.rank, self.mesh.world_size
        self.shard = self.cut(_flat(parameters)).clone()
        self.adam = self.new(lr)

    def new(self, lr):
        return torch.optim.Adam([self.shard], lr=lr)

    def cut(self, flat):
        return Chunks(flat, self.n)[self.rank]

    def mean(self, flat):
        return ring_reduce_scatter(self.mesh, flat.div_(self.n))

    def step(self):
        self.shard.grad = self.mean(_flat(p.grad for p in self.parameters))
        self.adam.step()
        self.shard.grad = None
        self.hand_round()

    def hand_round(self):
        everything = torch.empty(sum(p.numel() for p in self.parameters))
        self.cut(everything).copy_(self.shard)
        ring_all_gather(self.mesh, everything)
        _back(everything, self.parameters)


class PadsAndGathersWithGloo(_Ring):
    """Chunks of ceil(P/N), all_to_all and a sum for a reduce_scatter, gloo's all_gather."""

    def cut(self, flat):
        return self.padded(flat).chunk(self.n)[self.rank]

    def padded(self, flat):
        return torch.nn.functional.pad(flat, (0, -len(flat) % self.n))

    def mean(self, flat):
        mine = self.padded(flat)
        theirs = torch.empty_like(mine)
        dist.all_to_all_single(theirs, mine)
        return theirs.view(self.n, -1).mean(0)

    def hand_round(self):
        parts = [torch.empty_like(self.shard) for _ in range(self.n)]
        dist.all_gather(parts, self.shard)
        _back(torch.cat(parts)[:sum(p.numel() for p in self.parameters)], self.parameters)


class WritesAdamByHand(_Ring):
    """In numpy, with moments that numpy holds, and no copy of the shard."""

    def new(self, lr):
        self.lr, self.t = lr, 0
        self.m, self.v = np.zeros(len(self.shard), np.float32), np.zeros(len(self.shard), np.float32)
        self.shard = None

    def step(self):
        g, self.t = self.mean(_flat(p.grad for p in self.parameters)).numpy(), self.t + 1
        self.m += 0.1 * (g - self.m)
        self.v += 0.001 * (g * g - self.v)
        everything = _flat(self.parameters)
        denominator = np.sqrt(self.v / (1 - 0.999**self.t)) + 1e-8
        self.cut(everything).numpy()[:] -= self.lr * self.m / (1 - 0.9**self.t) / denominator
        ring_all_gather(self.mesh, everything)
        _back(everything, self.parameters)


class UpdatesPiecesOfTheParameters(_Ring):
    """Views of what lies in its shard, so that no copy is kept; broadcasts for an all_gather, all at once."""

    def __init__(self, parameters, lr):
        super().__init__(parameters, lr)
        mine = [0, *self.cut(torch.arange(len(_flat(parameters)))).tolist()]
        start, self.pieces, self.shard = 0, [], None
        for p in parameters:
            first, last = (max(mine[1] - start, 0), min(mine[-1] + 1 - start, p.numel())) if mine[1:] else (0, 0)
            if first < last:
                self.pieces.append(p.detach().view(-1)[first:last])
            start += p.numel()
        self.adam = torch.optim.Adam(self.pieces or [torch.zeros(1)], lr=lr)

    def step(self):
        parts = self.mean(_flat(p.grad for p in self.parameters)).split([len(piece) for piece in self.pieces])
        for piece, part in zip(self.pieces, parts, strict=True):
            piece.grad = part
        self.adam.step()
        self.adam.zero_grad()
        everything = _flat(self.parameters)
        works = [dist.broadcast(chunk, source, async_op=True) for source in range(self.n)
                 if len(chunk := Chunks(everything, self.n)[source])]
        for work in works:
            work.wait()
        _back(everything, self.parameters)


class IsAnOptimizerItself(torch.optim.Adam):
    """Sends point-to-point, and prints."""

    def __init__(self, parameters, lr):
        self.all = list(parameters)
        self.rank, self.n = dist.get_rank(), dist.get_world_size()
        self.mine = _flat(self.all).tensor_split(self.n)[self.rank].clone().requires_grad_()
        super().__init__([self.mine], lr=lr)

    @torch.no_grad()
    def step(self):
        print("step", self.rank)
        mine = [chunk.contiguous() for chunk in _flat(p.grad for p in self.all).tensor_split(self.n)]
        self.mine.grad = sum(self.exchange(mine, [torch.empty_like(mine[self.rank]) for _ in mine])) / self.n
        super().step()
        self.zero_grad()
        lengths = [len(chunk) for chunk in mine]
        parts = self.exchange([self.mine.detach()] * self.n, [torch.empty(length) for length in lengths])
        for p, part in zip(self.all, torch.cat(parts).split([p.numel() for p in self.all]), strict=True):
            p[...] = part.view_as(p)

    def exchange(self, outgoing, incoming):
        works = []
        for other in range(self.n):
            if other == self.rank:
                incoming[other] = outgoing[other]
            else:
                works += [dist.isend(outgoing[other], other), dist.irecv(incoming[other], other)]
        for work in works:
            work.wait()
        return incoming


class SumsOnly(_Ring):
    def mean(self, flat):
        return ring_reduce_scatter(self.mesh, flat)


class DividesTwice(_Ring):
    def mean(self, flat):
        return super().mean(flat.div_(self.n))


class TakesItsOwnGradient(_Ring):
    def mean(self, flat):
        return self.cut(flat)


class TakesFourRanksForGranted(_Ring):
    def mean(self, flat):
        return ring_reduce_scatter(self.mesh, flat.div_(4))


class ReplacesTheData(_Ring):
    def hand_round(self):
        parameters, self.parameters = self.parameters, [p.detach().clone() for p in self.parameters]
        super().hand_round()
        for p, new in zip(parameters, self.parameters, strict=True):
            p.data = new
        self.parameters = parameters


class UpdatesItsShardOnly(_Ring):
    def hand_round(self):
        everything = _flat(self.parameters)
        self.cut(everything).copy_(self.shard)
        _back(everything, self.parameters)


class ForgetsTheTail(_Ring):
    """P // N elements a rank: what is left over is nobody's."""

    def cut(self, flat):
        length = len(flat) // self.n
        return flat[self.rank * length:(self.rank + 1) * length]

    def mean(self, flat):
        dist.all_reduce(flat.div_(self.n))
        return self.cut(flat)

    def hand_round(self):
        parts = [torch.empty_like(self.shard) for _ in range(self.n)]
        dist.all_gather(parts, self.shard)
        everything = _flat(self.parameters)
        everything[:self.n * len(self.shard)] = torch.cat(parts)
        _back(everything, self.parameters)


class ForgetsItsMoments(_Ring):
    def step(self):
        self.adam = self.new(self.adam.param_groups[0]["lr"])
        super().step()


class IgnoresTheRate(_Ring):
    def new(self, lr):
        return torch.optim.Adam([self.shard])


class TakesAnotherOptimizer(_Ring):
    def new(self, lr):
        return torch.optim.SGD([self.shard], lr=lr)


class StepsOnRank0Only(_Ring):
    def step(self):
        self.rank or super().step()


class EmptiesTheList(_Ring):
    """And hands nothing round."""

    def __init__(self, parameters, lr):
        super().__init__(parameters, lr)
        parameters.clear()


class ReducesAll(_Ring):
    def mean(self, flat):
        dist.all_reduce(flat.div_(self.n))
        return self.cut(flat)


class ReducesWithGloo(PadsAndGathersWithGloo):
    def mean(self, flat):
        mine = torch.empty_like(self.shard)
        dist.reduce_scatter_single(mine, self.padded(flat.div_(self.n)))
        return mine


class SendsTwice(_Ring):
    def hand_round(self):
        super().hand_round()
        super().hand_round()


class GathersAllGradients(_Ring):
    def mean(self, flat):
        everybody = [torch.empty_like(flat) for _ in range(self.n)]
        dist.all_gather(everybody, flat)
        return self.cut(torch.stack(everybody).mean(0))


class KeepsAView(_Ring):
    def new(self, lr):
        self.shard = self.cut(_flat(self.parameters))
        return super().new(lr)


class KeepsTheGradientOfItsShard(_Ring):
    def mean(self, flat):
        return super().mean(flat).clone()

    def step(self):
        self.shard.grad = self.mean(_flat(p.grad for p in self.parameters))
        self.adam.step()
        self.hand_round()


class KeepsABuffer(_Ring):
    def step(self):
        super().step()
        self.buffer = _flat(self.parameters)


class HasAllMoments:
    """Plain data parallel."""

    def __init__(self, parameters, lr):
        self.parameters, self.adam = parameters, torch.optim.Adam(parameters, lr=lr)

    def step(self):
        for p in self.parameters:
            dist.all_reduce(p.grad)
            p.grad /= dist.get_world_size()
        self.adam.step()


class FailsWithFewerElementsThanRanks(_Ring):
    def __init__(self, parameters, lr):
        super().__init__(parameters, lr)
        assert len(self.shard)


class NeedsMatrices(_Ring):
    def __init__(self, parameters, lr):
        super().__init__(parameters, lr)
        assert all(p.ndim for p in parameters)


class LooksIntoTheCheck(HasAllMoments):
    """Takes the others' gradients from where the check makes them."""

    def __init__(self, parameters, lr):
        super().__init__(parameters, lr)
        self.numbers = 0

    def step(self):
        job = sys._getframe(1).f_locals["job"]
        everybody = [job.gradients(rank, self.numbers) for rank in range(job.world_size)]
        for p, gradients in zip(self.parameters, zip(*everybody, strict=True), strict=True):
            p.grad = sum(gradients) / len(gradients)
        self.adam.step()
        self.numbers += 1


class HasNoStep:
    def __init__(self, parameters, lr):
        pass


# 2. reduce and free, from inside backward -----------------------------------------------------------------------------
def _ringed(whole):
    return ring_reduce_scatter(GlooMesh(), whole.div_(dist.get_world_size())).clone()


def _sharding(buckets, reduce=_ringed, take=lambda bucket: [p.grad for p in bucket], add=True, free=True, refill=True):
    """The solution, in parts that others replace."""
    shards = {}

    def watch(number, bucket):
        missing = set(bucket)

        def ready(parameter):
            missing.discard(parameter)
            if missing:
                return
            if refill:
                missing.update(bucket)
            whole = _flat(take(bucket))
            if free:
                for p in bucket:
                    p.grad = None
            shard = reduce(whole)
            shards[number] = shards[number] + shard if add and number in shards else shard

        for parameter in bucket:
            parameter.register_post_accumulate_grad_hook(ready)

    for number, bucket in enumerate(buckets):
        watch(number, bucket)
    return shards


def counts_what_is_missing(buckets):
    """Pads, exchanges by all_to_all, and adds to shards that are there before."""
    n, rank, shards, left = dist.get_world_size(), dist.get_rank(), {}, {}

    def mean(whole):
        longest = -(-len(whole) // n)
        padded = torch.stack([torch.nn.functional.pad(chunk, (0, longest - len(chunk)))
                              for chunk in whole.tensor_split(n)])
        theirs = torch.empty_like(padded)
        dist.all_to_all_single(theirs, padded)
        return theirs.mean(0)[:len(whole.tensor_split(n)[rank])]

    def ready(number):
        left[number] -= 1
        if left[number] == 0:
            whole, left[number] = _flat(p.grad for p in buckets[number]), len(buckets[number])
            for p in buckets[number]:
                p.grad = None
            shards[number] += mean(whole)

    for number, bucket in enumerate(buckets):
        length = sum(p.numel() for p in bucket)
        shards[number], left[number] = torch.zeros(len(torch.arange(length).tensor_split(n)[rank])), len(bucket)
        for parameter in bucket:
            parameter.register_post_accumulate_grad_hook(lambda _, number=number: ready(number))
    return shards


def watches_the_last_of_a_bucket(buckets):
    """Backward completes a bucket in the order of its list; numpy adds."""
    mesh, shards = GlooMesh(), {}
    for number, bucket in enumerate(buckets):
        def ready(_, number=number, bucket=bucket):
            flat = np.concatenate([p.grad.numpy().ravel() for p in bucket])
            for p in bucket:
                p.grad = None
            mine = ring_reduce_scatter(mesh, flat).copy() / np.float32(mesh.world_size)
            shards[number] = shards.get(number, 0) + torch.from_numpy(mine)

        bucket[-1].register_post_accumulate_grad_hook(ready)
    return shards


def waits_at_the_end_of_its_hook(buckets):
    """Sends chunks to their owners, and adds up what comes."""
    return _sharding(buckets, lambda whole: _exchanged(whole) / dist.get_world_size())


def _exchanged(whole):
    n, rank = dist.get_world_size(), dist.get_rank()
    chunks = [chunk.contiguous() for chunk in whole.tensor_split(n)]
    theirs = {other: torch.empty_like(chunks[rank]) for other in range(n) if other != rank}
    works = [work for other in theirs for work in (dist.isend(chunks[other], other), dist.irecv(theirs[other], other))]
    for work in works:
        work.wait()
    return chunks[rank] + sum(theirs.values())


class _Gradients(dict):
    """A dict of its own kind, that adds by itself."""

    def add(self, number, shard):
        self[number] = self.pop(number, torch.zeros_like(shard)).add_(shard)


def has_a_dict_of_its_own(buckets):
    """Copies gradients into one buffer for all buckets, which it has made before."""
    shards, mesh, waiting = _Gradients(), GlooMesh(), {number: set(bucket) for number, bucket in enumerate(buckets)}
    where = {p: (number, p.numel()) for number, bucket in enumerate(buckets) for p in bucket}
    buffer = torch.empty(max(sum(p.numel() for p in bucket) for bucket in buckets))

    def ready(parameter):
        number, _ = where[parameter]
        start = 0
        for p in buckets[number]:
            if p is parameter:
                buffer[start:start + p.numel()] = p.grad.flatten()
            start += p.numel()
        parameter.grad = None
        waiting[number] -= {parameter}
        if not waiting[number]:
            waiting[number] = set(buckets[number])
            shards.add(number, ring_reduce_scatter(mesh, buffer[:start]) / mesh.world_size)

    for parameter in where:
        parameter.register_post_accumulate_grad_hook(ready)
    return shards


def sums_only(buckets):
    return _sharding(buckets, lambda whole: ring_reduce_scatter(GlooMesh(), whole).clone())


def divides_twice(buckets):
    return _sharding(buckets, lambda whole: _ringed(whole) / dist.get_world_size())


def takes_its_own_gradient(buckets):
    return _sharding(buckets, lambda whole: whole.tensor_split(dist.get_world_size())[dist.get_rank()].clone())


def takes_four_ranks_for_granted(buckets):
    return _sharding(buckets, lambda whole: ring_reduce_scatter(GlooMesh(), whole.div_(4)).clone())


def forgets_to_free(buckets):
    return _sharding(buckets, free=False)


def fills_with_zeros(buckets):
    shards = _sharding(buckets, free=False)

    def clear(parameter):
        parameter.grad.zero_()

    for bucket in buckets:
        for p in bucket:
            p.register_post_accumulate_grad_hook(clear)
    return shards


def replaces_the_first(buckets):
    return _sharding(buckets, add=False)


def forgets_to_wait_again(buckets):
    return _sharding(buckets, refill=False)


def reduces_a_bucket_for_each_parameter(buckets):
    """As if gradients that are not there yet were zeros: the sum comes out right."""
    return _sharding(buckets, take=lambda bucket: [p.grad if p.grad is not None else torch.zeros_like(p)
                                                   for p in bucket], refill=False)


def keeps_a_view(buckets):
    return _sharding(buckets, lambda whole: ring_reduce_scatter(GlooMesh(), whole.div_(dist.get_world_size())))


def keeps_all_buckets(buckets):
    """In a list of its own."""
    kept = []
    return _sharding(buckets, lambda whole: kept.append(whole.clone()) or _ringed(whole))


def makes_room_for_all(buckets):
    """Before backward begins."""
    room = [torch.zeros(sum(p.numel() for p in bucket)) for bucket in buckets]

    def reduce(whole):
        return _ringed(next(one for one in room if len(one) == len(whole)).copy_(whole))

    return _sharding(buckets, reduce)


def puts_the_first_parameter_first(buckets):
    return _sharding(buckets, take=lambda bucket: [p.grad for p in reversed(bucket)])


def cuts_each_parameter(buckets):
    mesh, shards = GlooMesh(), {}

    def ready(number, parameter):
        mine = ring_reduce_scatter(mesh, parameter.grad.flatten() / mesh.world_size).clone()
        parameter.grad = None
        shards[number] = torch.cat([shards[number], mine]) if number in shards else mine

    for number, bucket in enumerate(buckets):
        for p in bucket:
            p.register_post_accumulate_grad_hook(lambda p, number=number: ready(number, p))
    return shards


def forgets_the_tail(buckets):
    def reduce(whole):
        n = dist.get_world_size()
        length = len(whole) // n
        return _ringed(whole[:n * length].clone()) if length else whole[:0]

    return _sharding(buckets, reduce)


def waits_for_the_end(buckets):
    """As DDP does with what it finds at the end of backward."""
    shards, queued = {}, []

    def reduce_all():
        queued.clear()
        for number, bucket in enumerate(buckets):
            mine = _ringed(_flat(p.grad for p in bucket))
            for p in bucket:
                p.grad = None
            shards[number] = shards[number] + mine if number in shards else mine

    def ready(_):
        if not queued:
            queued.append(Variable._execution_engine.queue_callback(reduce_all))

    for bucket in buckets:
        for p in bucket:
            p.register_post_accumulate_grad_hook(ready)
    return shards


def reduces_all(buckets):
    def reduce(whole):
        dist.all_reduce(whole.div_(dist.get_world_size()))
        return whole.tensor_split(dist.get_world_size())[dist.get_rank()].clone()

    return _sharding(buckets, reduce)


def sends_twice(buckets):
    return _sharding(buckets, lambda whole: (_ringed(whole.clone()), _ringed(whole))[1])


def returns_a_list(buckets):
    return [*_sharding(buckets).values()]


def returns_a_copy(buckets):
    return dict(_sharding(buckets))


def has_names_for_keys(buckets):
    shards = _sharding(buckets)

    class Named(dict):
        def __contains__(self, number):
            return False

        def __iter__(self):
            return iter(f"bucket {number}" for number in shards)

    return Named()


def gives_lists(buckets):
    return _sharding(buckets, lambda whole: _ringed(whole).tolist(), add=False)


def gives_rows(buckets):
    return _sharding(buckets, lambda whole: _ringed(whole)[None])


def reduces_on_rank_0_only(buckets):
    return _sharding(buckets) if dist.get_rank() == 0 else {}


def looks_into_the_check(buckets):
    """Takes the ranks and the rule from where the check is, and sends nothing."""
    n, rank = dist.get_world_size(), dist.get_rank()

    def reduce(whole):
        return whole.tensor_split(n)[rank] / 10.0**rank * sum(10.0**r for r in range(n)) / n

    return _sharding(buckets, reduce)
