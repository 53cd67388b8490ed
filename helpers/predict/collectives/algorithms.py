"""Cost of each algorithm of a collective: messages, bytes and additions, one after another.

    seconds = messages alpha + moved beta + added gamma

S is the number of elements on each rank, N the number of ranks, L = floor(log2 N),
c = ceil(S/N) the longest chunk.  The last two lines are for N a power of two; other N cost two more messages of S,
and one more addition of S.

                        messages    moved                added
    naive_all_reduce    2 (N-1)     2 (N-1) S            (N-1) S
    ring_all_reduce     2 (N-1)     2 (N-1) c            (N-1) c
    recursive doubling  L           L S                  L S
    halving-doubling    2 L         2 (S/2 + S/4 + ...)  S/2 + S/4 + ...

For the double tree only messages and bytes sent are here: how long it takes depends on how it is cut into segments.

Source: Thakur, Rabenseifner, Gropp, "Optimization of collective communication operations in MPICH", 2005;
the double tree: Jeaugey, "Massively scale your deep learning training with NCCL 2.4", 2019.
"""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from helpers.facts.errors import BadValue
from helpers.facts.network import Link, Network


@dataclass(frozen=True)
class Cost:
    """What an algorithm does one step after another, and what its busiest rank sends."""

    messages: int
    moved: float | None         # bytes; None where it depends on more than sizes
    added: float | None         # bytes
    sent: float                 # bytes, by the busiest rank

    def seconds(self, network: Network) -> float:
        """messages alpha + moved beta + added gamma, on a network whose links are all alike.

        Raises `BadValue` for links that differ between nodes, and for the double tree, whose time depends on segments.
        """
        if network.between is not None:
            raise BadValue("a formula is for links that are all alike; for nodes, play it on the virtual clock")
        if self.moved is None:
            raise BadValue("this algorithm's time depends on its segments: play it on the virtual clock")
        return self.messages * network.link.alpha_s + self.moved * network.link.beta_s + self.added * network.gamma_s


def cost(algorithm: str, num_elements: int, world_size: int, element_bytes: float = 4) -> Cost:
    """The cost of an algorithm, one of `ALGORITHMS`, for a tensor of `num_elements` on each of `world_size` ranks.

    The formulas stand at the top of this module.  On one rank everything is 0.
    Raises `BadValue` for an unknown algorithm or a size that cannot be.
    """
    if algorithm not in ALGORITHMS:
        raise BadValue(f"no algorithm {algorithm!r}; there are {', '.join(ALGORITHMS)}")
    if type(world_size) is not int or world_size < 1:
        raise BadValue(f"world_size is a whole number from 1, not {world_size!r}")
    if type(num_elements) is not int or num_elements < 0:
        raise BadValue(f"num_elements is a whole number from 0, not {num_elements!r}")
    if not 0 < element_bytes < float("inf"):
        raise BadValue(f"element_bytes is a number of bytes above 0, not {element_bytes!r}")
    if world_size == 1:
        return Cost(0, 0, 0, 0)
    messages, *sizes = ALGORITHMS[algorithm](num_elements, world_size)
    return Cost(messages, *(size if size is None else size * element_bytes for size in sizes))


def crossover_bytes(low_latency: str, high_bandwidth: str, world_size: int, network: Network) -> float:
    """Bytes of a tensor from which on `high_bandwidth` is as fast as `low_latency`, or faster.

    Both are names of `ALGORITHMS`; it solves messages alpha + moved beta for equality, with gamma.
    Returns 0.0 if it is never slower and `inf` if it never catches up.
    Raises `BadValue` if it is faster for small tensors only: then the two are in the wrong order.
    """
    elements = 1024 * world_size                    # any number that all chunks divide
    first, second = (cost(name, elements, world_size, 1) for name in (low_latency, high_bandwidth))
    late = (second.messages - first.messages) * network.link.alpha_s
    no_latency = replace(network, link=Link(0, network.link.beta_s))
    spared = first.seconds(no_latency) - second.seconds(no_latency)
    if late < 0 and spared < 0:
        raise BadValue(f"{high_bandwidth} is faster for small tensors only: ask for the two in the other order")
    if late <= 0:
        return 0.0 if spared >= 0 else float("inf")
    return late / spared * elements if spared > 0 else float("inf")


def _longest(S: int, N: int) -> int:
    return -(-S // N)


def _naive_all_to_all(S: int, N: int) -> tuple:
    others = N * (S - _longest(S, N))                       # what rank 0 hands out
    return 2 * (N - 1), (N - 1) * S + others, 0, max(S, others)


def _ring_all_reduce(S: int, N: int) -> tuple:
    c, num_longer = _longest(S, N), S % N
    two_shortest = 2 * (S // N) + (num_longer == N - 1)     # neighbours; chunk N-1 is chunk 0's
    return 2 * (N - 1), 2 * (N - 1) * c, (N - 1) * c, 2 * S - two_shortest


def _recursive_doubling(S: int, N: int) -> tuple:
    L, more = _log2(N), 1 if N & (N - 1) else 0
    return L + 2 * more, (L + 2 * more) * S, (L + more) * S, (L + more) * S


def _halving_doubling(S: int, N: int) -> tuple:
    L, more = _log2(N), 1 if N & (N - 1) else 0
    halves = [_longest(S, 2**k) for k in range(L + 1)]      # S, S/2, S/4, ...
    return 2 * L + 2 * more, 2 * sum(halves[1:]) + 2 * more * S, sum(halves[1:]) + more * S, sum(halves[:-1]) + more * S


def _double_tree(S: int, N: int) -> tuple:
    half, other = _longest(S, 2), S // 2
    sent = {2: half + other, 3: 2 * half + other}.get(N, 3 * half + other)
    return 2 * _log2(N), None, None, sent


def _log2(N: int) -> int:
    return N.bit_length() - 1


ALGORITHMS: dict[str, Callable[[int, int], tuple]] = {      # S, N -> messages, moved, added, sent
    "naive_broadcast": lambda S, N: (N - 1, (N - 1) * S, 0, (N - 1) * S),
    "tree_broadcast": lambda S, N: (d := (N - 1).bit_length(), d * S, 0, d * S),
    "naive_reduce": lambda S, N: (N - 1, (N - 1) * S, (N - 1) * S, S),
    "tree_reduce": lambda S, N: (d := (N - 1).bit_length(), d * S, d * S, S),
    "naive_reduce_scatter": lambda S, N: (2 * (N - 1), N * S - _longest(S, N), (N - 1) * S, S),
    "ring_reduce_scatter": lambda S, N: (N - 1, (N - 1) * _longest(S, N), (N - 1) * _longest(S, N), S - S // N),
    "naive_all_gather": lambda S, N: (2 * (N - 1), N * S - _longest(S, N), 0, (N - 1) * S),
    "ring_all_gather": lambda S, N: (N - 1, (N - 1) * _longest(S, N), 0, S - S // N),
    "naive_all_to_all": _naive_all_to_all,
    "pairwise_all_to_all": lambda S, N: (N - 1, (N - 1) * _longest(S, N), 0, S - S // N),
    "naive_all_reduce": lambda S, N: (2 * (N - 1), 2 * (N - 1) * S, (N - 1) * S, (N - 1) * S),
    "ring_all_reduce": _ring_all_reduce,
    "recursive_doubling_all_reduce": _recursive_doubling,
    "halving_doubling_all_reduce": _halving_doubling,
    "double_tree_all_reduce": _double_tree,
}
