"""Every algorithm against torch.distributed, in one rank program.  A module of its own: the ranks need no pytest."""
import torch
import torch.distributed as dist

from helpers.run.collectives import doubling, pipelined_ring_all_reduce, ring, trees
from helpers.run.launch import preload
from helpers.run.measure.meters import wire

ALL_REDUCES = (ring.naive_all_reduce, ring.ring_all_reduce, doubling.recursive_doubling_all_reduce,
               doubling.halving_doubling_all_reduce, trees.double_tree_all_reduce, pipelined_ring_all_reduce)
REDUCES = (ring.naive_reduce, trees.tree_reduce)
BROADCASTS = (ring.naive_broadcast, trees.tree_broadcast)
REDUCE_SCATTERS = (ring.naive_reduce_scatter, ring.ring_reduce_scatter)
ALL_GATHERS = (ring.naive_all_gather, ring.ring_all_gather)
ALL_TO_ALLS = (ring.naive_all_to_all, ring.pairwise_all_to_all)
BY_NAME = {a.__name__: a for a in (*ALL_REDUCES, *REDUCES, *BROADCASTS, *REDUCE_SCATTERS, *ALL_GATHERS, *ALL_TO_ALLS)}


def wrong_ones(mesh, cases):
    """Names of all algorithms that differ from torch's, with the case; sums of small whole numbers are exact.

    cases   of sizes and dtypes
    """
    rank, n = mesh.rank, mesh.world_size
    wrong = []

    def expect(algorithm, got, expected, size):
        if not torch.equal(got, expected):
            wrong.append((algorithm.__name__, size, got.dtype, got.tolist()[:4], expected.tolist()[:4]))

    for size, dtype in cases:
        mine = ((torch.arange(size) * 7 + rank * 3) % 11).to(dtype)
        total = mine.clone()
        dist.all_reduce(total)
        for all_reduce in ALL_REDUCES:
            all_reduce(mesh, tensor := mine.clone())
            expect(all_reduce, tensor, total, size)
        for reduce_scatter in REDUCE_SCATTERS:
            expect(reduce_scatter, reduce_scatter(mesh, mine.clone()), total.tensor_split(n)[rank], size)
        for root in {0, n // 2, n - 1}:
            dist.broadcast(sent := mine.clone(), root)
            for broadcast in BROADCASTS:
                broadcast(mesh, tensor := mine.clone(), root)
                expect(broadcast, tensor, sent, size)
            for reduce in REDUCES:
                reduce(mesh, tensor := mine.clone(), root)
                if rank == root:
                    expect(reduce, tensor, total, size)
        for all_gather in ALL_GATHERS:
            tensor = torch.full_like(mine, 9)
            tensor.tensor_split(n)[rank].copy_(mine.tensor_split(n)[rank])
            all_gather(mesh, tensor)
            expect(all_gather, tensor, _gathered(mine, n, rank), size)
        for all_to_all in ALL_TO_ALLS:
            expect(all_to_all, all_to_all(mesh, mine.clone()), _exchanged(mine, n, rank), size)
    return wrong


def _gathered(mine, n, rank):
    """torch's all_gather, of chunks padded to one length."""
    longest = len(mine.tensor_split(n)[0])
    padded = torch.zeros(longest, dtype=mine.dtype)
    padded[:len(mine.tensor_split(n)[rank])] = mine.tensor_split(n)[rank]
    dist.all_gather(rows := [torch.empty_like(padded) for _ in range(n)], padded)
    return torch.cat([row[:len(chunk)] for row, chunk in zip(rows, mine.tensor_split(n), strict=True)])


def _exchanged(mine, n, rank):
    lengths = [len(chunk) for chunk in mine.tensor_split(n)]
    received = torch.empty(n * lengths[rank], dtype=mine.dtype)
    dist.all_to_all_single(received, mine, [lengths[rank]] * n, lengths)
    return received.reshape(n, -1)


def bytes_sent(mesh, num_elements):
    """What the kernel counts on this rank for each algorithm."""
    counted = {}
    for name, algorithm in BY_NAME.items():
        tensor = torch.ones(num_elements)
        dist.barrier()
        with wire() as sent:
            algorithm(mesh, tensor)
        counted[name] = sent.sent
    return counted


preload(__name__)
