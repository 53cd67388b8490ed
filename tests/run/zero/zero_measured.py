"""Rank programs that measure what ZeRO holds and sends: its stages, and PyTorch's."""
import gc

import torch
from torch.distributed.fsdp import fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

from helpers.checks.judge.live_peak import settled
from helpers.run.launch import preload
from helpers.run.measure.meters import live_tensor_bytes, memory, wire
from helpers.run.measure.residency import residency
from helpers.run.models import mlp, perceptron
from helpers.run.zero import Zero1, Zero2, Zero3

STAGES = {1: Zero1, 2: Zero2, 3: Zero3}
SIZES = {"even": lambda: mlp(12, 4), "odd": lambda: perceptron(7, 5, 3, 2)}     # 144 is a multiple of 2, 3 and 4
DTYPES = {"fp32": None, "mixed": torch.bfloat16}
WIDTH, DEPTH = 1024, 10                                     # 40 MiB of fp32 parameters


def wrapped(stage, model, **options):
    options |= {"units": list(model)} if stage == 3 else {"bucket_bytes": 0}
    return STAGES[stage](model, torch.optim.Adam, **options)


def step(model, width):
    model(torch.ones(2, width)).float().sum().backward()
    model.step()


def num_bytes(tensors):
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def held(rank, world_size):
    """By sizes, recipe and stage."""
    return {(sizes, recipe, stage): _held(make, stage, dtype) for sizes, make in SIZES.items()
            for recipe, dtype in DTYPES.items() for stage in STAGES}


def _held(make, stage, dtype):
    """Bytes by term, bytes of all tensors, sizes of the flat parameters, and number of pieces.

    gloo's threads let go of a message's buffer a moment after it was waited for.
    """
    gc.collect()
    before, model = live_tensor_bytes(), make()
    width = next(model.parameters()).shape[1]
    model = wrapped(stage, model, dtype=dtype)
    step(model, width)
    by_term = {term: num_bytes(tensors) for term, tensors in model.held().items()}
    gc.collect()
    everything = settled(lambda: live_tensor_bytes() - before, sum(by_term.values()))
    return by_term, everything, [flat.full.numel() for flat in model.flats], len(model.optimizer.pieces)


def steps_of(rank, world_size, stage, dtype=None):
    """Bytes of memory after two steps: the kernel's count, and the state's."""
    with memory() as grown:
        model = wrapped(stage, mlp(WIDTH, DEPTH), dtype=dtype)
        for _ in range(2):
            model.zero_grad()
            step(model, WIDTH)
    return grown.private, sum(map(num_bytes, model.held().values()))


SENDER = 240, 8                                             # 460,800 parameters; 240 is a multiple of 2, 3 and 4


def sent_by_each(rank, world_size):
    """Bytes of the third step."""
    ways = {(stage, True): wrapped(stage, mlp(*SENDER)) for stage in STAGES}
    ways[3, False] = wrapped(3, mlp(*SENDER), reshard_after_forward=False)
    return {way: _sent(model, model) for way, model in ways.items()} | {
        "fully_shard": _sent(*fully_sharded()), "beside DDP": _sent(*beside_ddp())}


def fully_sharded():
    model = mlp(*SENDER)
    for unit in (*model, model):
        fully_shard(unit)
    return model, torch.optim.Adam(model.parameters())


def beside_ddp():
    model = DistributedDataParallel(mlp(*SENDER))
    return model, ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam)


def _sent(model, optimizer):
    for _ in range(3):
        optimizer.zero_grad()
        with wire() as sent:
            model(torch.ones(2, SENDER[0])).sum().backward()
            optimizer.step()
    return sent.sent


LIVING = 256, 8
UNIT = 4 * LIVING[0]**2


def lives(rank, world_size):
    """By stage: the residency of a second step, with gradients kept through the next forward."""
    found = {}
    for stage in STAGES:
        model = wrapped(stage, mlp(*LIVING))
        step(model, LIVING[0])
        model.zero_grad()
        with residency(model.held()) as alive:
            step(model, LIVING[0])
        found[stage] = alive
    return found


preload(__name__)
