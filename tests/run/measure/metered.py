"""Rank programs that measure themselves.  A module of its own, so that the ranks need not import pytest."""
import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from helpers.run.launch import preload
from helpers.run.measure.meters import memory, wire
from helpers.run.models import mlp

WIDTH = 1024                    # 4 MiB of fp32 parameters a layer


def collective(rank, world_size, name, num_elements):
    full = torch.ones(num_elements)
    part = full.chunk(world_size)[rank].clone()
    with wire() as counted:
        if name == "all_reduce":
            dist.all_reduce(full)
        elif name == "all_gather":
            dist.all_gather([torch.empty_like(part) for _ in range(world_size)], part)
        elif name == "reduce_scatter":
            dist.reduce_scatter(part, list(full.chunk(world_size)))
        elif name == "all_to_all":
            dist.all_to_all_single(torch.empty_like(full), full)
        elif name == "broadcast":
            dist.broadcast(full, src=0)
        elif name == "send" and rank == 0:
            dist.send(full, 1)
        elif name == "send" and rank == 1:
            dist.recv(full, 0)
    return counted


def train_step(rank, world_size, how, depth):
    with memory() as grown:
        model = mlp(WIDTH, depth)
        if how == "fsdp":
            for block in model:
                fully_shard(block)
            fully_shard(model)
        else:
            model = DistributedDataParallel(model, gradient_as_bucket_view=how == "ddp with bucket view")
        optimizer = torch.optim.Adam(model.parameters(), foreach=False)
        model(torch.ones(2, WIDTH)).sum().backward()
        optimizer.step()
    return grown


preload(__name__)
