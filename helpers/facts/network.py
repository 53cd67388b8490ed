"""What a message costs: the alpha-beta-gamma model.

    a message of n bytes       alpha + n beta     seconds
    adding up n bytes          n gamma            seconds

alpha is the latency, beta the seconds a byte (1 / bandwidth), gamma the seconds to add a byte to another.
Links inside a node may differ from links between nodes.

Source: Thakur, Rabenseifner, Gropp, "Optimization of collective communication
operations in MPICH", 2005, section 3.
"""
from __future__ import annotations

from dataclasses import dataclass

from helpers.facts.errors import BadValue


def _check_seconds(name: str, value: object) -> None:
    if not isinstance(value, (int, float)) or not 0 <= value < float("inf"):
        raise BadValue(f"{name} is a number of seconds, 0 or more, not {value!r}")


@dataclass(frozen=True)
class Link:
    """A way from one rank to another: a message of n bytes takes alpha_s + n beta_s seconds.

    Raises `BadValue` unless both are numbers of seconds, 0 or more and finite.
    """

    alpha_s: float                      # latency of a message
    beta_s: float                       # per byte

    def __post_init__(self):
        _check_seconds("alpha_s", self.alpha_s)
        _check_seconds("beta_s", self.beta_s)


@dataclass(frozen=True)
class Network:
    """Every rank is linked to every other; each can send one message and receive one at the same time.

    So can each node: what goes from its ranks to other nodes takes turns.  Adding up n bytes takes n gamma_s seconds.
    Raises `BadValue` if gamma_s is negative, if ranks_per_node is not a whole number from 1, and if only one of
    `ranks_per_node` and `between` is given.
    """

    link: Link
    gamma_s: float = 0.0                # per byte added up
    ranks_per_node: int | None = None   # None: one node
    between: Link | None = None         # links between nodes; None: as inside
    in_turn: bool = False               # ranks are dealt to the nodes in turn, not node by node

    def __post_init__(self):
        _check_seconds("gamma_s", self.gamma_s)
        if (self.ranks_per_node is None) != (self.between is None):
            raise BadValue("ranks_per_node and between belong together: give both or neither")
        if self.ranks_per_node is not None and (type(self.ranks_per_node) is not int or self.ranks_per_node < 1):
            raise BadValue(f"ranks_per_node is a whole number from 1, not {self.ranks_per_node!r}")

    def node_of(self, rank: int, world_size: int) -> int:
        """The number of a rank's node: ranks 0 to ranks_per_node - 1 are node 0, unless they are dealt in turn."""
        if self.ranks_per_node is None:
            return 0
        num_nodes = -(-world_size // self.ranks_per_node)
        return rank % num_nodes if self.in_turn else rank // self.ranks_per_node


def network(alpha_s: float, beta_s: float, gamma_s: float = 0.0) -> Network:
    """A network whose links are all alike; all three times are in seconds.

    alpha_s     latency of a message
    beta_s      for each byte of it, 1 / bandwidth: 1 / 25e9 is 25 GB/s
    gamma_s     for each byte that is added up

    Raises `BadValue` if a time is negative or infinite.
    """
    return Network(Link(alpha_s, beta_s), gamma_s)


STEPS = network(1.0, 0.0)               # on it, seconds are messages one after another
