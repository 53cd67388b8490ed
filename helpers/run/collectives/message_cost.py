"""Time messages between real ranks, to find this machine's alpha and beta.

    two ranks hand one message back and forth; half of a round trip is one message
"""
from __future__ import annotations

import time

import torch

from helpers.facts.errors import BadValue
from helpers.run.collectives.mesh import Mesh, run_on_gloo

WARM_UPS, ROUNDS = 5, 31


def message_seconds(sizes: tuple[int, ...]) -> dict[int, float]:
    """The shortest time of one message of each size (bytes, a multiple of 4) from one rank to another on gloo.

    The shortest, since other programs only ever make a message slower.
    """
    if odd := [size for size in sizes if type(size) is not int or size < 4 or size % 4]:
        raise BadValue(f"a size is a multiple of 4 bytes, not {odd[0]!r}")
    return run_on_gloo(_hand_back_and_forth, 2, sizes).results[0]


def _hand_back_and_forth(mesh: Mesh, sizes: tuple[int, ...]) -> dict[int, float]:
    return {size: _half_a_round_trip(mesh, torch.zeros(size // 4)) for size in sizes}


def _half_a_round_trip(mesh: Mesh, tensor: torch.Tensor) -> float:
    seconds, other = [], 1 - mesh.rank
    for _ in range(WARM_UPS + ROUNDS):
        started = time.perf_counter()
        if mesh.rank == 0:
            mesh.send(tensor, other)
        mesh.recv(tensor, other)
        if mesh.rank == 1:
            mesh.send(tensor, other)
        seconds.append((time.perf_counter() - started) / 2)
    return min(seconds[WARM_UPS:])
