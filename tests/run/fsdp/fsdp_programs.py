"""Rank programs that shard.  A module of its own, so that the ranks need not import pytest."""
from collections import Counter

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard, register_fsdp_forward_method
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import clip_grad_norm_, get_total_norm

from helpers.run.data_sharding import part_of_batch
from helpers.run.fsdp import shard, watch_steps
from helpers.run.launch import preload
from helpers.run.measure import recorder
from helpers.run.measure.memory_limit import limit_memory
from helpers.run.measure.meters import wire
from helpers.run.models import mlp, regression

MiB = 2**20
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


def policy(param_dtype="fp32", reduce_dtype="fp32"):
    if param_dtype == reduce_dtype == "fp32":
        return MixedPrecisionPolicy()
    return MixedPrecisionPolicy(param_dtype=DTYPES[param_dtype], reduce_dtype=DTYPES[reduce_dtype])


def one_step(rank, world_size, num_units, reshard, dtypes=("fp32", "fp32"), width=512, depth=8):
    """Bytes that the kernel has sent, and calls, in the second step."""
    model = shard(mlp(width, depth), num_units, reshard_after_forward=reshard, mp_policy=policy(*dtypes))
    model(torch.ones(1, width)).sum().backward()
    before = len(recorder.spans())
    with wire() as sent:
        model(torch.ones(1, width)).sum().backward()
    return sent.sent, Counter(span.kind for span in recorder.spans()[before:])


def watched_step(rank, world_size, num_units, reshard, dtypes=("fp32", "fp32"), width=1024, depth=8):
    return watch_steps(shard(mlp(width, depth), num_units, reshard_after_forward=reshard, mp_policy=policy(*dtypes)),
                       width)


def without_root(rank, world_size, width=1024, depth=8):
    model = mlp(width, depth)
    for block in model:
        fully_shard(block)
    before = len(recorder.spans())
    model(torch.ones(1, width)).sum().backward()
    return Counter(span.kind for span in recorder.spans()[before:]), watch_steps(model, width)


def hybrid(rank, world_size, width=512, depth=8):
    mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("node", "rank in node"))
    model = shard(mlp(width, depth), depth, mesh=mesh, reshard_after_forward=True)
    with wire() as sent:
        model(torch.ones(1, width)).sum().backward()
    return sent.sent, sum(p.to_local().numel() for p in model.parameters())


def trained(rank, world_size, num_units, reshard=None, early=False):
    """Weights [D, 16, 16] before and after 20 steps of Adam on batches of 32; no units: not sharded at all."""
    torch.manual_seed(7)
    model = mlp(width=16, depth=4)
    start = torch.stack([p.detach().clone() for p in model.parameters()])
    optimizer = torch.optim.Adam(model.parameters(), 0.01) if early else None
    model = shard(model, num_units, reshard_after_forward=reshard) if num_units else model
    optimizer = optimizer or torch.optim.Adam(model.parameters(), 0.01)
    mine = part_of_batch(32, rank, world_size)
    for inputs, targets in zip(*(whole.split(32) for whole in regression(20 * 32, num_targets=16).tensors),
                               strict=True):
        optimizer.zero_grad()
        mse_loss(model(inputs[mine]), targets[mine]).backward()
        optimizer.step()
    return start, torch.stack([p.full_tensor() if num_units else p.detach() for p in model.parameters()])


def dtypes_kept(rank, world_size, param_dtype, reduce_dtype):
    model = shard(mlp(64, 4), 4, mp_policy=policy(param_dtype, reduce_dtype))
    optimizer = torch.optim.Adam(model.parameters())
    output = model(torch.ones(1, 64))
    output.sum().backward()
    optimizer.step()
    weight = next(model.parameters())
    return output.dtype, {weight.dtype, weight.grad.dtype, *(s.dtype for s in optimizer.state[weight].values())}


def clipped(rank, world_size):
    """Norm by clip_grad_norm_, norm of what the rank holds, and the gradients [D, 16, 16] afterwards."""
    torch.manual_seed(7)
    model, (x, y) = mlp(width=16, depth=4), regression(64, num_targets=16).tensors
    model = shard(model, 4) if world_size > 1 else model
    mse_loss(model(x), y).backward()
    held = [p.grad.to_local() if world_size > 1 else p.grad for p in model.parameters()]
    own, norm = get_total_norm(held).item(), clip_grad_norm_(model.parameters(), 0.01)
    plain = [tensor.full_tensor() if world_size > 1 else tensor
             for tensor in (norm, *(p.grad for p in model.parameters()))]
    return plain[0].item(), own, torch.stack(plain[1:])


def saved(rank, world_size, who):
    from torch.distributed.checkpoint.state_dict import (  # not above: it would cost every rank 50 ms
        StateDictOptions,
        get_model_state_dict,
    )

    model, state = shard(mlp(width=64, depth=4), 4), {}
    if rank in who:
        state = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
    dist.barrier()
    return {name: tuple(tensor.shape) for name, tensor in state.items()}


def plain_state_dict(rank, world_size):
    model = shard(mlp(width=64, depth=4), 4)
    return [tuple(tensor.to_local().shape) for tensor in model.state_dict().values()] if rank == 0 else None


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def attend(self, x):
        return self.layer(x)


def another_method(rank, world_size, registered):
    block = fully_shard(Attention())
    if registered:
        register_fsdp_forward_method(block, "attend")
    block.attend(torch.ones(2, 8)).sum().backward()
    return all(p.grad is not None for p in block.parameters())


def on_a_small_card(rank, world_size, how, card_bytes=140 * MiB, num_steps=2):
    """The lesson's run out of memory: DDP, or this many units.

    DDP's first broadcast is left out: it needs a copy of the model, which gloo's threads may let go of late.
    """
    limit_memory(card_bytes)
    torch.manual_seed(0)
    model = mlp(width=1024, depth=16)
    model = DistributedDataParallel(model, init_sync=False) if how == "DDP" else shard(model, how)
    optimizer = torch.optim.Adam(model.parameters())
    dist.barrier()                                      # all ranks have their model, so each dies by itself
    for _ in range(num_steps):                          # Adam's state comes at the end of the first
        total = model(torch.ones(4, 1024)).sum()
        total.backward()
        optimizer.step()
        optimizer.zero_grad()
    return "trained"


preload(__name__)
