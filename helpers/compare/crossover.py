"""Which all-reduce is fastest: seconds over sizes, by formula and played on the virtual clock."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy

from helpers.facts.network import Network
from helpers.predict.collectives import cost, crossover_bytes
from helpers.run.collectives import (
    Mesh,
    double_tree_all_reduce,
    halving_doubling_all_reduce,
    naive_all_reduce,
    play,
    recursive_doubling_all_reduce,
    ring_all_reduce,
)

ALL_REDUCES = {"naive": naive_all_reduce, "ring": ring_all_reduce, "recursive doubling": recursive_doubling_all_reduce,
               "halving-doubling": halving_doubling_all_reduce, "double tree": double_tree_all_reduce}
SIZES = tuple(10.0**k for k in range(2, 10))            # bytes


@dataclass(frozen=True)
class Curves:
    """Seconds of each all-reduce at each of SIZES."""

    world_size: int
    played: dict[str, tuple[float, ...]]
    predicted: dict[str, tuple[float, ...]]             # no formula for the double tree, none at all for nodes
    crossover_bytes: float | None                       # recursive doubling is faster below, the ring above

    def fastest(self, size: float) -> list[str]:
        """All within 1 % of the fastest at this size."""
        times = {name: played[SIZES.index(size)] for name, played in self.played.items()}
        return [name for name, s in times.items() if s <= 1.01 * min(times.values())]


def curves(world_size: int, network: Network) -> Curves:
    """Play all algorithms on `world_size` ranks, and predict them if all links are alike."""
    played = {name: tuple(seconds(all_reduce, world_size, size, network) for size in SIZES)
              for name, all_reduce in ALL_REDUCES.items()}
    elements = 64 * world_size
    if network.between is not None and world_size > network.ranks_per_node:
        return Curves(world_size, played, {}, None)
    network = Network(network.link, network.gamma_s)
    predicted = {name: tuple(cost(ALL_REDUCES[name].__name__, elements, world_size, size / elements).seconds(network)
                             for size in SIZES) for name in ALL_REDUCES if name != "double tree"}
    return Curves(world_size, played, predicted,
                  crossover_bytes("recursive_doubling_all_reduce", "ring_all_reduce", world_size, network))


def seconds(all_reduce: Callable, world_size: int, size: float, network: Network) -> float:
    """Virtual time of one all-reduce of `size` bytes."""
    num_elements = 64 * world_size                      # few, but all chunks divide them
    return play(_on_ones, world_size, all_reduce, num_elements, network=network,
                bytes_per_element=size / num_elements).time_s


def _on_ones(mesh: Mesh, all_reduce: Callable, num_elements: int) -> None:
    all_reduce(mesh, numpy.ones(num_elements, "f"))
