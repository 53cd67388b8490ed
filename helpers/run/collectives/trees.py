"""Broadcast, reduce and all-reduce along trees: few messages one after another.

    tree_broadcast, tree_reduce    ceil(log2 N) messages one after another, each of T bytes
    double_tree_all_reduce         two trees, each for half of the tensor; a rank has children in one of them at most,
                                   so it sends no more than 2 T, and latency grows with log2 N

Source: Thakur, Rabenseifner, Gropp 2005, section 4 (binomial tree); Sanders,
Speck, Träff, "Two-tree algorithms for full bandwidth broadcast, reduction and
scan", 2009; Jeaugey, "Massively scale your deep learning training with NCCL 2.4", 2019.
"""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from helpers.facts.errors import BadValue
from helpers.run.collectives.mesh import Mesh, Tensor, Work, empty, flatten
from helpers.run.collectives.ring import Chunks


def tree_broadcast(mesh: Mesh, tensor: Tensor, source: int = 0) -> None:
    """Every rank ends with the tensor [T] of `source`, in place: who has it doubles in each of ceil(log2 N) steps."""
    n, place = mesh.world_size, mesh.distance_from(source)
    mine, reach = flatten(tensor), 1
    while reach < n:                                        # the first `reach` places have it
        if place < reach and place + reach < n:
            mesh.send(mine, (mesh.rank + reach) % n)
        elif reach <= place < 2 * reach:
            mesh.recv(mine, (mesh.rank - reach) % n)
        reach *= 2


def tree_reduce(mesh: Mesh, tensor: Tensor, to: int = 0) -> None:
    """Rank `to` ends with the sum of all tensors [T], in place; the others keep parts of sums.

    A broadcast backwards: who still has a part of the sum halves in each step.
    """
    n, place = mesh.world_size, mesh.distance_from(to)
    mine, reach = flatten(tensor), 1
    incoming = empty(mine, len(mine))
    while reach < n:
        reach *= 2
    while reach > 1:
        reach //= 2
        if place < reach and place + reach < n:
            mesh.recv(incoming, (mesh.rank + reach) % n)
            mesh.add(mine, incoming)
        elif reach <= place < 2 * reach:
            mesh.send(mine, (mesh.rank - reach) % n)


@dataclass(frozen=True)
class Node:
    """Where one rank stands in a tree."""

    parent: int | None
    children: tuple[int, ...]


def double_tree(rank: int, world_size: int) -> tuple[Node, Node]:
    """A rank's places in two trees; whoever has children in one is a leaf of the other.

    The places 1 to N stand in order, as in a search tree: odd ones are leaves, and 2, 6, 10, ... are above them, and
    4, 12, ... above those.  In the second tree each rank stands one place further on, and the last one at place 1.
    """
    first = [r + 1 for r in range(world_size)]                              # rank -> place
    second = [(r + 1) % world_size + 1 for r in range(world_size)]
    return _node(rank, first), _node(rank, second)


def _node(rank: int, places: list[int]) -> Node:
    n, rank_at = len(places), {place: r for r, place in enumerate(places)}
    above = _above(places[rank], n)
    below = [place for place in range(1, n + 1) if _above(place, n) == places[rank]]
    return Node(rank_at[above] if above else None, tuple(rank_at[place] for place in below))


def _above(place: int, most: int) -> int:
    """The parent's place: the lowest bit moves up by one; 0 for the root."""
    bit = place & -place
    above = (place ^ bit) | (bit << 1)
    return above if above <= most else place ^ bit


def double_tree_all_reduce(mesh: Mesh, tensor: Tensor, num_segments: int = 8) -> None:
    """Every rank ends with the sum of all tensors [T], in place: half of it by each of two trees.

    Sums go up both trees and come down again, in `num_segments` pieces so that all links are busy.
    """
    if num_segments < 1:
        raise BadValue(f"num_segments is 1 or more, not {num_segments!r}")
    halves = [Chunks(half, num_segments) for half in Chunks(flatten(tensor), 2)]
    trees = list(zip(double_tree(mesh.rank, mesh.world_size), halves, strict=True))
    leaf_first = sorted(trees, key=lambda tree: len(tree[0].children))      # a leaf waits for nobody
    # All receives are posted before anything is sent: first what comes up, then what comes down.
    rising = [_from_children(mesh, node, part) for node, half in leaf_first for part in half]
    falling = [(node, part, mesh.irecv(part, node.parent)) for node, half in reversed(leaf_first)
               if node.parent is not None for part in half]
    sent = [work for part in rising for work in part()]
    for node, part, work in falling:
        work.wait()
        sent += [mesh.isend(part, child) for child in node.children]
    for work in sent:
        work.wait()


def _from_children(mesh: Mesh, node: Node, part: Tensor) -> Callable[[], list[Work]]:
    """Ask the children for their sums; what is returned adds them and passes the sum on."""
    buffers = [empty(part, len(part)) for _ in node.children]
    arriving = [mesh.irecv(buffer, child) for buffer, child in zip(buffers, node.children, strict=True)]

    def add_and_pass_on() -> list[Work]:
        for buffer, work in zip(buffers, arriving, strict=True):
            work.wait()
            mesh.add(part, buffer)
        return [mesh.isend(part, to) for to in (node.children if node.parent is None else [node.parent])]

    return add_and_pass_on
