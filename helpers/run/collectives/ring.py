"""Collectives from nothing but send and receive: the naive ones, and the ring.

Every rank calls them, with a contiguous tensor of T bytes and one shape and dtype.  They add up, in place.
A tensor is cut into N chunks, one for each rank; if N does not divide, the
first ones are an element longer.  Chunk r belongs to rank r.

                                the busiest rank sends      messages one after another
    naive_all_reduce              (N-1) T                     2 (N-1)
    ring_reduce_scatter           (N-1)/N T                   N-1
    ring_all_gather               (N-1)/N T                   N-1
    ring_all_reduce               2 (N-1)/N T                 2 (N-1)

Source: Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for
clusters of workstations", 2009.
"""
from __future__ import annotations

from helpers.run.collectives.mesh import Mesh, Tensor, empty, flatten


class Chunks:
    """N views of a flat tensor, as `torch.tensor_split` cuts it; each is made when it is asked for."""

    def __init__(self, tensor: Tensor, world_size: int):
        self.tensor, self.world_size = tensor, world_size
        self.length, self.num_longer = divmod(len(tensor), world_size)

    def __getitem__(self, number: int) -> Tensor:
        if not 0 <= number < self.world_size:
            raise IndexError(f"no chunk {number} of {self.world_size}")
        start = number * self.length + min(number, self.num_longer)
        return self.tensor[start:start + self.length + (number < self.num_longer)]


def naive_reduce(mesh: Mesh, tensor: Tensor, to: int = 0) -> None:
    """Everybody sends tensor [T] to rank `to`, which adds up in place; the others keep what they had.

    Every rank must call it, with equal sizes and dtypes, as for all collectives here.
    """
    mine = flatten(tensor)
    if mesh.rank != to:
        mesh.send(mine, to)
        return
    incoming = empty(mine, len(mine))
    for source in range(mesh.world_size):
        if source != to:
            mesh.recv(incoming, source)
            mesh.add(mine, incoming)


def naive_broadcast(mesh: Mesh, tensor: Tensor, source: int = 0) -> None:
    """Rank `source` sends its tensor [T] to one after another, who are overwritten in place."""
    mine = flatten(tensor)
    if mesh.rank != source:
        mesh.recv(mine, source)
        return
    for to in range(mesh.world_size):
        if to != source:
            mesh.send(mine, to)


def naive_all_reduce(mesh: Mesh, tensor: Tensor) -> None:
    """Every rank ends with the sum of all tensors [T], in place: reduce to rank 0, then broadcast."""
    naive_reduce(mesh, tensor)
    naive_broadcast(mesh, tensor)


def naive_reduce_scatter(mesh: Mesh, tensor: Tensor) -> Tensor:
    """Return this rank's chunk [T/N] of tensor [T], a view, which now holds the sum over ranks."""
    naive_reduce(mesh, tensor)
    mine = Chunks(flatten(tensor), mesh.world_size)
    if mesh.rank != 0:
        mesh.recv(mine[mesh.rank], 0)
    else:
        for to in range(1, mesh.world_size):
            mesh.send(mine[to], to)
    return mine[mesh.rank]


def naive_all_gather(mesh: Mesh, tensor: Tensor) -> None:
    """Every rank ends with all chunks of tensor [T], in place: rank 0 collects chunk r of rank r, and hands all out."""
    mine = Chunks(flatten(tensor), mesh.world_size)
    if mesh.rank != 0:
        mesh.send(mine[mesh.rank], 0)
    else:
        for source in range(1, mesh.world_size):
            mesh.recv(mine[source], source)
    naive_broadcast(mesh, tensor)


def ring_reduce_scatter(mesh: Mesh, tensor: Tensor) -> Tensor:
    """Return this rank's chunk [T/N] of tensor [T], a view, which now holds the sum over ranks.

    N - 1 messages of T/N each; the other chunks are left with parts of sums.
    """
    rank, n = mesh.rank, mesh.world_size
    mine = Chunks(flatten(tensor), n)
    buffer = empty(tensor, len(mine[0]))
    for step in range(n - 1):
        # the sum of a chunk walks once around the ring, from the rank after its owner to its owner
        chunk = mine[(rank - step - 2) % n]
        incoming = buffer[:len(chunk)]
        mesh.exchange(mine[(rank - step - 1) % n], (rank + 1) % n, incoming, (rank - 1) % n)
        mesh.add(chunk, incoming)
    return mine[rank]


def ring_all_gather(mesh: Mesh, tensor: Tensor) -> None:
    """Every rank ends with all chunks of tensor [T], in place, where rank r had chunk r: N - 1 messages of T/N."""
    rank, n = mesh.rank, mesh.world_size
    mine = Chunks(flatten(tensor), n)
    for step in range(n - 1):
        mesh.exchange(mine[(rank - step) % n], (rank + 1) % n, mine[(rank - step - 1) % n], (rank - 1) % n)


def ring_all_reduce(mesh: Mesh, tensor: Tensor) -> None:
    """Every rank ends with the sum of all tensors [T], in place: 2 (N - 1) messages of T/N, reduced, then gathered."""
    ring_reduce_scatter(mesh, tensor)
    ring_all_gather(mesh, tensor)


def naive_all_to_all(mesh: Mesh, tensor: Tensor) -> Tensor:
    """Rank 0 collects everything and hands it out.  Return [N, T/N]: row r is the chunk that rank r had for us."""
    rank, n = mesh.rank, mesh.world_size
    mine = flatten(tensor)
    received = empty(mine, n * len(Chunks(mine, n)[rank]))
    if rank != 0:
        mesh.send(mine, 0)
        mesh.recv(received, 0)
        return received.reshape(n, -1)
    everything = empty(mine, n * len(mine)).reshape(n, -1)
    everything[0] = mine
    for source in range(1, n):
        mesh.recv(everything[source], source)
    for to in range(1, n):
        mesh.send(_chunk_of_all(everything, to), to)
    return _chunk_of_all(everything, 0)


def _chunk_of_all(everything: Tensor, number: int) -> Tensor:
    """Chunk `number` of each row of `everything` [N, T], as rows."""
    n = len(everything)
    rows = empty(everything[0], n * len(Chunks(everything[0], n)[number])).reshape(n, -1)
    for row, source in zip(rows, everything, strict=True):
        row[:] = Chunks(source, n)[number]
    return rows


def pairwise_all_to_all(mesh: Mesh, tensor: Tensor) -> Tensor:
    """Return [N, T/N], as `naive_all_to_all`: in step s each rank sends to the one s above, receives from s below."""
    rank, n = mesh.rank, mesh.world_size
    mine = Chunks(flatten(tensor), n)
    received = empty(tensor, n * len(mine[rank])).reshape(n, -1)
    received[rank] = mine[rank]
    for step in range(1, n):
        to, source = (rank + step) % n, (rank - step) % n
        mesh.exchange(mine[to], to, received[source], source)
    return received
