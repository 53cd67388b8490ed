"""The ring, as fast as it gets: chunks go in pieces, and nobody waits at a step's end.

    plain ring:      receive a chunk, add it, receive the next      the link rests while a rank adds
    pipelined ring:  while one piece is added, the next arrives     a piece travels on as soon as it is added

The bytes are those of the plain ring, 2 (N-1)/N T a rank; there are more messages.
`benchmarks/ring.py` holds it against gloo's own all_reduce.
"""
from __future__ import annotations

from helpers.run.collectives.mesh import Mesh, Tensor, empty, flatten
from helpers.run.collectives.ring import Chunks

PIECE_BYTES = 2 * 2**20         # smaller pieces cost more messages, larger ones leave the cache


def pipelined_ring_all_reduce(mesh: Mesh, tensor: Tensor, piece_bytes: int = PIECE_BYTES) -> None:
    """Every rank ends with the sum of all tensors [T], in place: the ring, in pieces of `piece_bytes` at most."""
    _around(mesh, flatten(tensor), mesh.rank - 1, piece_bytes, adds=True)
    _around(mesh, flatten(tensor), mesh.rank, piece_bytes, adds=False)


def _around(mesh: Mesh, mine: Tensor, first: int, piece_bytes: int, adds: bool) -> None:
    """Send chunk `first`, then each chunk that arrives but the last, and add what arrives or keep it."""
    n, left, right = mesh.world_size, (mesh.rank - 1) % mesh.world_size, (mesh.rank + 1) % mesh.world_size
    length = max(1, piece_bytes // mine.itemsize)
    pieces = [[chunk[at:at + length] for at in range(0, len(chunk), length)] for chunk in Chunks(mine, n)]
    coming = [piece for step in range(n - 1) for piece in pieces[(first - step - 1) % n]]
    num_passed_on = len(coming) - len(pieces[(first - n + 1) % n])
    buffers = [empty(mine, length), empty(mine, length)] if adds else []
    targets = [buffers[k % 2][:len(piece)] if adds else piece for k, piece in enumerate(coming)]
    arriving = mesh.irecv(targets[0], left) if coming else None
    sent = [mesh.isend(piece, right) for piece in pieces[first % n]] if n > 1 else []
    for k, piece in enumerate(coming):
        arriving.wait()
        if k + 1 < len(coming):
            arriving = mesh.irecv(targets[k + 1], left)     # it arrives while this one is added
        if adds:
            mesh.add(piece, targets[k])
        if k < num_passed_on:
            sent.append(mesh.isend(piece, right))
    for work in sent:
        work.wait()
