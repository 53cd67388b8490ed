"""Which all-reduce is fastest: seconds over sizes, by formula and played on the virtual clock."""
from __future__ import annotations

from dataclasses import dataclass

import numpy

from helpers.facts.network import Network
from helpers.predict.algorithms import cost, crossover_bytes
from helpers.run.collectives import naive_all_reduce, ring_all_reduce
from helpers.run.doubling import halving_doubling_all_reduce, recursive_doubling_all_reduce
from helpers.run.mesh import Mesh
from helpers.run.trees import double_tree_all_reduce
from helpers.run.virtual import play

ALL_REDUCES = {"naive": naive_all_reduce, "ring": ring_all_reduce, "recursive doubling": recursive_doubling_all_reduce,
               "halving-doubling": halving_doubling_all_reduce, "double tree": double_tree_all_reduce}
SIZES = tuple(10.0**k for k in range(2, 10))            # bytes
SEGMENTS = (1, 16)                                      # of the double tree: the better of these


@dataclass(frozen=True)
class Curves:
    """Seconds of each all-reduce at each of SIZES."""

    world_size: int
    played: dict[str, tuple[float, ...]]
    predicted: dict[str, tuple[float, ...]]             # no formula for the double tree, none at all for nodes
    crossover_bytes: float | None                       # recursive doubling is faster below, the ring above

    def fastest(self, size: float) -> str:
        number = SIZES.index(size)
        return min(self.played, key=lambda name: self.played[name][number])


def curves(world_size: int, network: Network) -> Curves:
    """Play all algorithms on `world_size` ranks, and predict them if all links are alike."""
    elements = 64 * world_size                          # few, but all chunks divide them
    played = {name: tuple(_played_s(name, elements, world_size, size, network) for size in SIZES)
              for name in ALL_REDUCES}
    if network.between is not None:
        return Curves(world_size, played, {}, None)
    predicted = {name: tuple(cost(ALL_REDUCES[name].__name__, elements, world_size, size / elements).seconds(network)
                             for size in SIZES) for name in ALL_REDUCES if name != "double tree"}
    return Curves(world_size, played, predicted,
                  crossover_bytes("recursive_doubling_all_reduce", "ring_all_reduce", world_size, network))


def _played_s(name: str, elements: int, world_size: int, size: float, network: Network) -> float:
    cuts = [(segments,) for segments in SEGMENTS] if name == "double tree" else [()]
    return min(play(_on_ones, world_size, ALL_REDUCES[name], elements, *cut, network=network,
                    bytes_per_element=size / elements).time_s for cut in cuts)


def _on_ones(mesh: Mesh, all_reduce, elements: int, *cut: int) -> None:
    all_reduce(mesh, numpy.ones(elements, "f"), *cut)
