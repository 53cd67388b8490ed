"""All-reduce by partners at distances 1, 2, 4, ...: log2 N messages one after another.

    recursive_doubling_all_reduce      each message is the whole tensor:  T log2 N bytes a rank
    halving_doubling_all_reduce        T/2, T/4, ..., T/N, and back:      2 (N-1)/N T bytes a rank

The nearest partner comes first, and so gets the largest half: where ranks of one node are neighbours, little leaves it.

Both want a power of two.  Of other numbers, the ranks beyond it give what they
have to a neighbour first and get the sum back last: two more messages of T.

Source: Rabenseifner, "Optimization of collective reduction operations", 2004;
Thakur, Rabenseifner, Gropp 2005, section 4.5.
"""
from __future__ import annotations

from collections.abc import Callable
from functools import partial

from helpers.run.collectives.mesh import Mesh, Tensor, empty, flatten


def recursive_doubling_all_reduce(mesh: Mesh, tensor: Tensor) -> None:
    """Every rank ends with the sum of all tensors [T], in place: log2 N swaps of all T between partners.

    Each step doubles how many ranks a sum covers.  Where N is no power of two, two messages more.
    """
    _with_a_power_of_two(mesh, flatten(tensor), _doubling)


def halving_doubling_all_reduce(mesh: Mesh, tensor: Tensor, nearest_first: bool = True) -> None:
    """Every rank ends with the sum of all tensors [T], in place: Rabenseifner's 2 log2 N messages of T/2, T/4, ...

    Halves of halves are added up, then spread in reverse.
    nearest_first   partners at distance 1 come first, else those at half of the ranks
    """
    _with_a_power_of_two(mesh, flatten(tensor), partial(_halving_doubling, nearest_first))


def _doubling(mesh: Mesh, mine: Tensor, place: int, num_places: int, rank_at: Callable[[int], int]) -> None:
    incoming, distance = empty(mine, len(mine)), 1
    while distance < num_places:
        partner = rank_at(place ^ distance)
        mesh.exchange(mine, partner, incoming, partner)
        mesh.add(mine, incoming)
        distance *= 2


def _halving_doubling(nearest_first: bool, mesh: Mesh, mine: Tensor, place: int, num_places: int,
                      rank_at: Callable[[int], int]) -> None:
    buffer, block, blocks = empty(mine, len(mine)), mine, []
    distances = [2**k for k in range(num_places.bit_length() - 1)]
    for distance in distances if nearest_first else reversed(distances):
        middle = (len(block) + 1) // 2
        lower, upper = block[:middle], block[middle:]
        kept, given = (upper, lower) if place & distance else (lower, upper)
        partner, incoming = rank_at(place ^ distance), buffer[:len(kept)]
        mesh.exchange(given, partner, incoming, partner)
        mesh.add(kept, incoming)
        blocks.append((partner, kept, given))
        block = kept
    for partner, kept, given in reversed(blocks):
        mesh.exchange(kept, partner, given, partner)


def _with_a_power_of_two(mesh: Mesh, mine: Tensor, all_reduce: Callable) -> None:
    """Of the first 2 `extra` ranks, each even one lets its neighbour stand in for it."""
    rank, num_places = mesh.rank, 1 << (mesh.world_size.bit_length() - 1)
    extra = mesh.world_size - num_places

    def rank_at(place: int) -> int:
        return 2 * place + 1 if place < extra else place + extra

    if rank >= 2 * extra:
        all_reduce(mesh, mine, rank - extra, num_places, rank_at)
    elif rank % 2 == 0:
        mesh.send(mine, rank + 1)
        mesh.recv(mine, rank + 1)
    else:
        incoming = empty(mine, len(mine))
        mesh.recv(incoming, rank - 1)
        mesh.add(mine, incoming)
        all_reduce(mesh, mine, rank // 2, num_places, rank_at)
        mesh.send(mine, rank - 1)
