"""The calls of the reference card (row C9), each on gloo, as it prints them."""
import os
import socket

import pytest
import torch
import torch.distributed as dist

from helpers.run.launch import launch

pytestmark = pytest.mark.ranks


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_c9_a_group_is_started_by_port_and_by_name_of_its_backend():
    def program(rank, world_size, port):
        dist.destroy_process_group()                    # the one that launch has made
        os.environ["MASTER_ADDR"] = "127.0.0.1"
        os.environ["MASTER_PORT"] = str(port)
        dist.init_process_group(backend="gloo", rank=rank, world_size=world_size)
        dist.all_reduce(tensor := torch.tensor([10.0**rank]), op=dist.ReduceOp.SUM)
        return dist.get_backend(), tensor.item()

    assert launch(program, 3, free_port()).results == [("gloo", 111.0)] * 3


def test_c9_parameters_become_those_of_rank_0():
    def program(rank, world_size):
        torch.manual_seed(rank)
        layer = torch.nn.Linear(3, 2)
        for p in layer.parameters():
            dist.broadcast(p.data, src=0)
        return [p.tolist() for p in layer.parameters()]

    first, *others = launch(program, 3).results
    assert others == [first] * 2


def test_c9_gradients_are_summed_and_then_the_mean():
    def program(rank, world_size):
        p = torch.nn.Parameter(torch.ones(2))
        (p * 10.0**rank).sum().backward()
        dist.all_reduce(p.grad.data, op=dist.ReduceOp.SUM)
        total = p.grad.tolist()
        p.grad.data.div_(world_size)
        return total, p.grad.tolist()

    assert launch(program, 4).results == [([1111.0] * 2, [277.75] * 2)] * 4


def test_c9_a_gradient_is_sharded_and_the_parameters_come_back():
    def program(rank, world_size):
        chunks = list((torch.arange(1, 5) * 10**rank).chunk(world_size))
        local_grad = torch.zeros(1, dtype=torch.int64)
        dist.reduce_scatter(local_grad, chunks, op=dist.ReduceOp.SUM)
        gathered = [torch.zeros_like(local_grad) for _ in range(world_size)]
        dist.all_gather(gathered, local_grad)
        return local_grad.item(), torch.cat(gathered).tolist()

    assert launch(program, 4).results == [(1111 * (r + 1), [1111, 2222, 3333, 4444]) for r in range(4)]
