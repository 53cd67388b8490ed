"""Exercises 1, 3 and 4 of set 06 as learners might write them, right and wrong.

No pytest here, so that ranks need not import it.
"""
import copy
import math
import sys

import numpy as np
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from helpers.run.collectives import Chunks, GlooMesh, ring_all_gather, ring_reduce_scatter
from tests.checks.ddp.ddp_answers import (  # noqa: F401  the tests take them from here
    divides_by_zero,
    is_not_written_yet,
    never_ends,
    takes_no_arguments,
)


# any of them ----------------------------------------------------------------------------------------------------------
def leaves_with_sys_exit(*answer):
    sys.exit(0)


def returns_nothing(*answer):
    pass


def yields_instead_of_returning(*answer):
    yield 1


def uses_the_courses_zero(*answer):
    import helpers.run.zero.stage_3 as zero3
    return zero3


def uses_the_courses_prediction(*answer):
    from helpers.predict.collectives import bytes_sent
    return bytes_sent


# 1. lend a layer ------------------------------------------------------------------------------------------------------
def _ring_gathered(shard, shape):
    mesh, whole = GlooMesh(), shard.new_empty(math.prod(shape))
    Chunks(whole, mesh.world_size)[mesh.rank].copy_(shard)
    ring_all_gather(mesh, whole)
    return whole.view(shape)


def _ring_reduced(gradient):
    return ring_reduce_scatter(GlooMesh(), gradient.reshape(-1)).clone()


def _stepped(layers, x, loss_gradient, lent=_ring_gathered, reduced=_ring_reduced, keep=False, scale=None):
    """The solution, in parts that others replace."""
    n, inputs, matrices, shards = dist.get_world_size(), [], [], []
    for layer in layers:
        inputs.append(x)
        matrix = lent(*layer)
        matrices.append(matrix if keep else None)
        x = x @ matrix.T
        del matrix
    upstream = loss_gradient(x) / (n if scale is None else scale)
    for layer, activation, matrix in zip(layers[::-1], inputs[::-1], matrices[::-1], strict=True):
        shards.append(reduced(upstream.T @ activation))
        upstream = upstream @ (matrix if keep else lent(*layer))
    return shards[::-1]


def _lengths(num_elements):
    return [len(Chunks(range(num_elements), dist.get_world_size())[rank]) for rank in range(dist.get_world_size())]


def _by_all_to_all(gradient):
    """The sum of what all have for this rank."""
    n, rank, flat = dist.get_world_size(), dist.get_rank(), gradient.reshape(-1)
    mine = _lengths(len(flat))[rank]
    theirs = torch.empty(n * mine)
    dist.all_to_all_single(theirs, flat, [mine] * n, _lengths(len(flat)))
    return theirs.view(n, mine).sum(0)


def gathers_padded_chunks(layers, x, loss_gradient):
    """By gloo's all_gather, and reduces by all_to_all."""
    def lent(shard, shape):
        lengths = _lengths(math.prod(shape))
        parts = [torch.empty(lengths[0]) for _ in lengths]
        dist.all_gather(parts, torch.nn.functional.pad(shard, (0, lengths[0] - len(shard))))
        return torch.cat([part[:length] for part, length in zip(parts, lengths, strict=True)]).view(shape)

    return _stepped(layers, x, loss_gradient, lent, _by_all_to_all)


def broadcasts_chunks(layers, x, loss_gradient):
    """All at once; returns a tuple, and prints."""
    def lent(shard, shape):
        whole = torch.empty(math.prod(shape))
        parts = whole.tensor_split(dist.get_world_size())
        parts[dist.get_rank()][:] = shard
        works = [dist.broadcast(part, source, async_op=True) for source, part in enumerate(parts) if len(part)]
        for work in works:
            work.wait()
        return whole.reshape(shape)

    print("step")
    return tuple(_stepped(layers, x, loss_gradient, lent))


def has_two_buffers(layers, x, loss_gradient):
    """One for all matrices, one for all gradients, both as large as the largest."""
    mesh, largest = GlooMesh(), max(math.prod(shape) for _, shape in layers)
    room, other, inputs, shards = torch.empty(largest), torch.empty(largest), [], [None] * len(layers)

    def lent(number):
        shard, shape = layers[number]
        whole = room[:math.prod(shape)]
        Chunks(whole, mesh.world_size)[mesh.rank].copy_(shard)
        ring_all_gather(mesh, whole)
        return whole.view(shape)

    for number in range(len(layers)):
        inputs.append(x)
        x = x @ lent(number).t()
    g = loss_gradient(x)
    for number in range(len(layers) - 1, -1, -1):
        shape = layers[number][1]
        gradient = other[:math.prod(shape)].view(shape)
        torch.matmul(g.t(), inputs[number], out=gradient)
        shards[number] = ring_reduce_scatter(mesh, gradient.view(-1)) / mesh.world_size
        g = g.mm(lent(number))
    return shards


def lets_autograd_do_a_layer(layers, x, loss_gradient):
    """And numpy hold the matrix."""
    def lent(shard, shape):
        whole = np.empty(math.prod(shape), np.float32)
        Chunks(whole, dist.get_world_size())[dist.get_rank()][:] = shard.numpy()
        ring_all_gather(GlooMesh(), whole)
        return torch.from_numpy(whole).view(shape).requires_grad_()

    inputs = [x]
    for layer in layers:
        with torch.no_grad():
            inputs.append(inputs[-1] @ lent(*layer).T)
    g, shards = loss_gradient(inputs.pop()), []
    for layer in reversed(layers):
        activation, matrix = inputs.pop().clone().requires_grad_(), lent(*layer)
        (activation @ matrix.T).backward(g)
        g, gradient = activation.grad, matrix.grad
        shards.insert(0, _ring_reduced(gradient) / dist.get_world_size())
        del activation, matrix, gradient
    return shards


def sums_only(layers, x, loss_gradient):
    return _stepped(layers, x, loss_gradient, scale=1)


def divides_twice(layers, x, loss_gradient):
    return [shard / dist.get_world_size() for shard in _stepped(layers, x, loss_gradient)]


def takes_four_ranks_for_granted(layers, x, loss_gradient):
    return _stepped(layers, x, loss_gradient, scale=4)


def takes_its_own_gradient(layers, x, loss_gradient):
    return _stepped(layers, x, loss_gradient, scale=1, reduced=lambda gradient: gradient.reshape(-1).tensor_split(
        dist.get_world_size())[dist.get_rank()].clone())


def transposes_the_gradient(layers, x, loss_gradient):
    return _stepped(layers, x, loss_gradient, reduced=lambda gradient: _ring_reduced(gradient.T))


def returns_from_the_last(layers, x, loss_gradient):
    return _stepped(layers, x, loss_gradient)[::-1]


def returns_whole_gradients(layers, x, loss_gradient):
    def reduced(gradient):
        dist.all_reduce(gradient)
        return gradient

    return _stepped(layers, x, loss_gradient, reduced=reduced)


def returns_matrices(layers, x, loss_gradient):
    return [shard[None] for shard in _stepped(layers, x, loss_gradient)]


def returns_a_number(layers, x, loss_gradient):
    return [shard.sum() for shard in _stepped(layers, x, loss_gradient)]


def returns_arrays(layers, x, loss_gradient):
    return [shard.numpy() for shard in _stepped(layers, x, loss_gradient)]


def forgets_the_last_layer(layers, x, loss_gradient):
    return _stepped(layers, x, loss_gradient)[:-1]


def gives_the_loss_something_else(layers, x, loss_gradient):
    return _stepped(layers, x, lambda y: loss_gradient(torch.zeros_like(y)))


def keeps_all_matrices(layers, x, loss_gradient):
    return _stepped(layers, x, loss_gradient, keep=True)


def keeps_views(layers, x, loss_gradient):
    return _stepped(layers, x, loss_gradient,
                    reduced=lambda gradient: ring_reduce_scatter(GlooMesh(), gradient.reshape(-1)))


def reduces_all(layers, x, loss_gradient):
    def reduced(gradient):
        flat = gradient.reshape(-1)
        dist.all_reduce(flat)
        return flat.tensor_split(dist.get_world_size())[dist.get_rank()].clone()

    return _stepped(layers, x, loss_gradient, reduced=reduced)


def gathers_three_times(layers, x, loss_gradient):
    return _stepped(layers, x, loss_gradient, lent=lambda *layer: (_ring_gathered(*layer), _ring_gathered(*layer))[1])


def needs_even_chunks(layers, x, loss_gradient):
    def lent(shard, shape):
        parts = [torch.empty_like(shard) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, shard)
        return torch.cat(parts).view(shape)

    return _stepped(layers, x, loss_gradient, lent)


def updates_its_shards(layers, x, loss_gradient):
    """A step of SGD that nobody has asked for."""
    shards = _stepped(layers, x, loss_gradient)
    for (shard, _), gradient in zip(layers, shards, strict=True):
        shard -= 0.1 * gradient
    return shards


def clears_its_input(layers, x, loss_gradient):
    shards = _stepped(layers, x.clone(), loss_gradient)
    x.zero_()
    return shards


def lends_on_rank_0_only(layers, x, loss_gradient):
    return _stepped(layers, x, loss_gradient) if dist.get_rank() == 0 else []


def looks_into_the_check(layers, x, loss_gradient):
    """Takes matrices and the others' samples from where the check makes them."""
    model = sys._getframe(1).f_locals["model"]
    weights, total = [weight.requires_grad_() for weight in model.weights()], 0
    for rank in range(model.world_size):
        y, t = model.sample(rank)
        for weight in weights:
            y = y @ weight.T
        total = total + (y * (y.detach() + t)).sum() / model.world_size
    total.backward()
    return [Chunks(weight.grad.flatten(), model.world_size)[dist.get_rank()].clone() for weight in weights]


# 3. mend the wrap -----------------------------------------------------------------------------------------------------
def _adam(model, lr):
    return model, torch.optim.Adam(model.parameters(), lr)


def _wrapped(model, units=None, **options):
    for unit in model.blocks if units is None else units:
        fully_shard(unit, **options)
    return fully_shard(model)


def names_a_mesh(model, lr):
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for number in reversed(range(len(model.blocks))):
        fully_shard(model.blocks[number], mesh=mesh, reshard_after_forward=True)
    fully_shard(model, mesh=mesh, reshard_after_forward=False)
    return [model, torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=lr, foreach=False)]


def looks_for_blocks(model, lr):
    """Among all modules; a unit for the embedding and the output, which share a tensor."""
    for module in model.modules():
        if type(module).__name__ == "Block":
            fully_shard(module)
    fully_shard([model.tokens, model.norm, model.output], reshard_after_forward=True)
    fully_shard(model, reshard_after_forward=True)
    return model, torch.optim.AdamW(model.parameters(), lr, weight_decay=0)


def wraps_a_copy(model, lr):
    model = copy.deepcopy(model)
    model.blocks.apply(lambda module: fully_shard(module) if hasattr(module, "qkv") else None)
    return _adam(fully_shard(model), lr)


def has_groups_of_parameters(model, lr):
    _wrapped(model)
    blocks = {*model.blocks.parameters()}
    rest = [p for p in model.parameters() if p not in blocks]
    return model, torch.optim.Adam([{"params": [*blocks]}, {"params": rest}], lr=lr)


def is_careless(model, lr):
    optimizer = torch.optim.Adam(model.parameters(), lr)
    fully_shard(model.blocks, reshard_after_forward=False)
    return fully_shard(model), optimizer


def shards_the_model_only(model, lr):
    return _adam(fully_shard(model), lr)


def shards_blocks_in_pairs(model, lr):
    """One unit of two, and others for the rest, as many as there are blocks."""
    blocks = [*model.blocks]
    return _adam(_wrapped(model, [blocks[:2], *blocks[2:], model.norm]), lr)


def splits_each_block(model, lr):
    for block in model.blocks:
        fully_shard([block.up, block.down])
    return _adam(_wrapped(model), lr)


def keeps_blocks(model, lr):
    return _adam(_wrapped(model, reshard_after_forward=False), lr)


def keeps_the_last_block(model, lr):
    fully_shard(model.blocks[-1], reshard_after_forward=False)
    return _adam(_wrapped(model, model.blocks[:-1]), lr)


def forgets_the_model(model, lr):
    for block in model.blocks:
        fully_shard(block)
    return _adam(model, lr)


def shards_the_model_first(model, lr):
    fully_shard(model)
    for block in model.blocks:
        fully_shard(block)
    return _adam(model, lr)


def wraps_in_ddp(model, lr):
    return _adam(DistributedDataParallel(model), lr)


def unties_the_output(model, lr):
    model.output.weight = torch.nn.Parameter(model.tokens.weight.detach().clone())
    return _adam(_wrapped(model), lr)


def trains_blocks_only(model, lr):
    _wrapped(model)
    return model, torch.optim.Adam(model.blocks.parameters(), lr)


def ignores_the_rate(model, lr):
    return _wrapped(model), torch.optim.Adam(model.parameters())


def decays_weights(model, lr):
    return _wrapped(model), torch.optim.AdamW(model.parameters(), lr)


def returns_the_optimizer_first(model, lr):
    return _adam(_wrapped(model), lr)[::-1]


def takes_two_ranks_for_granted(model, lr):
    mesh = init_device_mesh("cpu", (2,))
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    return _adam(fully_shard(model, mesh=mesh), lr)


def wraps_on_rank_0_only(model, lr):
    return _adam(_wrapped(model) if dist.get_rank() == 0 else model, lr)


# 4. clip what is scattered --------------------------------------------------------------------------------------------
def _squares(gradients):
    return sum((g.double().square().sum() for g in gradients), torch.zeros((), dtype=torch.float64))


def _summed(square):
    dist.all_reduce(square)
    return square


def _scaled(gradients, norm, max_norm):
    factor = min(1.0, max_norm / (float(norm) + 1e-6))
    for gradient in gradients:
        gradient.mul_(factor)
    return norm


def starts_the_sum_and_works_on(sharded, replicated, max_norm):
    """Returns a tensor."""
    square = _squares(sharded)
    work = dist.all_reduce(square, async_op=True)
    own = _squares(replicated)
    work.wait()
    return _scaled(sharded + replicated, (square + own).sqrt(), max_norm)


def counts_replicated_ones_by_parts(sharded, replicated, max_norm):
    """Each rank gives an N-th of their squares; a number of numpy."""
    square = _summed((_squares(sharded) + _squares(replicated) / dist.get_world_size()).float().reshape(1))
    return _scaled([*replicated, *sharded], np.sqrt(square.numpy()[0]), max_norm)


def lets_rank_0_count_the_replicated(sharded, replicated, max_norm):
    square = _summed(_squares(sharded + (replicated if dist.get_rank() == 0 else [])))
    norm = math.sqrt(square)
    if norm > max_norm:
        for gradient in sharded + replicated:
            gradient *= max_norm / (norm + 1e-6)
    return norm


def gathers_norms(sharded, replicated, max_norm):
    """One number of each rank, as an object; then by numpy's views."""
    norms = [None] * dist.get_world_size()
    dist.all_gather_object(norms, float(np.sqrt(sum((g.numpy().astype(float)**2).sum() for g in sharded))))
    norm = np.linalg.norm([*norms, *(np.linalg.norm(g.numpy()) for g in replicated)])
    for gradient in [*sharded, *replicated]:
        gradient.numpy()[...] *= min(1, max_norm / (norm + 1e-6))
    return norm


def lets_torch_clip(sharded, replicated, max_norm):
    """With its own functions for the norm and for scaling."""
    own = torch.nn.utils.get_total_norm(sharded) if sharded else torch.tensor(0.0)
    total = torch.stack([_summed(own**2).sqrt(), *(torch.linalg.vector_norm(g) for g in replicated)]).norm()
    parameters = [torch.nn.Parameter(torch.empty_like(g)) for g in sharded + replicated]
    for parameter, gradient in zip(parameters, sharded + replicated, strict=True):
        parameter.grad = gradient
    torch.nn.utils.clip_grads_with_norm_(parameters, max_norm, total)
    return total.item()


def takes_its_own_norm(sharded, replicated, max_norm):
    return _scaled(sharded + replicated, _squares(sharded + replicated).sqrt().item(), max_norm)


def clips_by_torch_on_each_rank(sharded, replicated, max_norm):
    parameters = [torch.nn.Parameter(torch.empty_like(g)) for g in sharded + replicated]
    for parameter, gradient in zip(parameters, sharded + replicated, strict=True):
        parameter.grad = gradient
    return torch.nn.utils.clip_grad_norm_(parameters, max_norm)


def counts_replicated_ones_on_each_rank(sharded, replicated, max_norm):
    return _scaled(sharded + replicated, _summed(_squares(sharded + replicated)).sqrt().item(), max_norm)


def adds_norms(sharded, replicated, max_norm):
    norm = _summed(_squares(sharded).sqrt()) + _squares(replicated).sqrt()
    return _scaled(sharded + replicated, norm.item(), max_norm)


def forgets_the_replicated(sharded, replicated, max_norm):
    return _scaled(sharded + replicated, _summed(_squares(sharded)).sqrt().item(), max_norm)


def forgets_the_root(sharded, replicated, max_norm):
    return _scaled(sharded + replicated, (_summed(_squares(sharded)) + _squares(replicated)).item(), max_norm)


def takes_the_mean(sharded, replicated, max_norm):
    square = _summed(_squares(sharded)) / dist.get_world_size() + _squares(replicated)
    return _scaled(sharded + replicated, square.sqrt().item(), max_norm)


def _norm(sharded, replicated):
    return (_summed(_squares(sharded)) + _squares(replicated)).sqrt().item()


def scales_always(sharded, replicated, max_norm):
    norm = _norm(sharded, replicated)
    for gradient in sharded + replicated:
        gradient.mul_(max_norm / (norm + 1e-6))
    return norm


def scales_copies(sharded, replicated, max_norm):
    norm = _norm(sharded, replicated)
    sharded[:] = [gradient * min(1, max_norm / norm) for gradient in sharded]
    return norm


def scales_shards_only(sharded, replicated, max_norm):
    return _scaled(sharded, _norm(sharded, replicated), max_norm)


def scales_replicated_ones_on_rank_0(sharded, replicated, max_norm):
    return _scaled(sharded + replicated * (dist.get_rank() == 0), _norm(sharded, replicated), max_norm)


def forgets_epsilon(sharded, replicated, max_norm):
    """Of no consequence until all is zero."""
    norm = (_summed(_squares(sharded)) + _squares(replicated)).sqrt()
    for gradient in sharded + replicated:
        gradient.copy_(gradient / norm * norm.clamp(max=max_norm))
    return norm.item()


def cuts_each_element(sharded, replicated, max_norm):
    for gradient in sharded + replicated:
        gradient.clamp_(-max_norm, max_norm)
    return _norm(sharded, replicated)


def returns_the_norm_after(sharded, replicated, max_norm):
    _scaled(sharded + replicated, _norm(sharded, replicated), max_norm)
    return _norm(sharded, replicated)


def returns_no_norm(sharded, replicated, max_norm):
    _scaled(sharded + replicated, _norm(sharded, replicated), max_norm)


def returns_norm_and_factor(sharded, replicated, max_norm):
    norm = _norm(sharded, replicated)
    return _scaled(sharded + replicated, norm, max_norm), max_norm / norm


def reduces_each_shard(sharded, replicated, max_norm):
    square = _squares(replicated)
    for gradient in sharded:
        square += _summed(_squares([gradient]))
    return _scaled(sharded + replicated, square.sqrt().item(), max_norm)


def gathers_gradients(sharded, replicated, max_norm):
    """Whole ones, by one call."""
    everybody = [None] * dist.get_world_size()
    dist.all_gather_object(everybody, sharded)
    square = sum(_squares(each) for each in everybody) + _squares(replicated)
    return _scaled(sharded + replicated, square.sqrt().item(), max_norm)


def takes_the_largest_of_each(sharded, replicated, max_norm):
    """Which an empty chunk has not."""
    largest = max(float(gradient.abs().max()) for gradient in sharded + replicated)
    return _norm([gradient / largest for gradient in sharded], [g / largest for g in replicated]) * largest


def leaves_out_ranks_without_elements(sharded, replicated, max_norm):
    if not sum(gradient.numel() for gradient in sharded):
        return _scaled(replicated, _squares(replicated).sqrt().item(), max_norm)
    return _scaled(sharded + replicated, _norm(sharded, replicated), max_norm)


def needs_flat_gradients(sharded, replicated, max_norm):
    flat = torch.cat([*replicated, torch.zeros(1)])
    return _scaled(sharded + replicated, _norm(sharded, [flat]), max_norm)


def needs_sharded_ones(sharded, replicated, max_norm):
    return _scaled(sharded + replicated, _norm([torch.cat(sharded)], replicated), max_norm)


def divides_by_four(sharded, replicated, max_norm):
    square = _summed(_squares(sharded) + _squares(replicated) / 4)
    return _scaled(sharded + replicated, square.sqrt().item(), max_norm)


def asks_the_check_for_the_norm(sharded, replicated, max_norm):
    norm = sys._getframe(1).f_locals["case"].norm()
    return _scaled(sharded + replicated, norm, max_norm)
