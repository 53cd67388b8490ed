"""Bytes that one rank sends in a collective, at the least.

T is the size of the FULL tensor in bytes, N the number of ranks.

    all_reduce                   2 T (N-1)/N     a reduce-scatter, then an all-gather
    reduce_scatter, all_gather     T (N-1)/N     every rank ends with, or starts from, T/N
    all_to_all                     T (N-1)/N     T is what each rank holds
    broadcast, send                T             by the rank that has the data; a chain passes it on

A training step of P parameters is made of these, so DDP, ZeRO-1 and ZeRO-2 send
2 P (N-1)/N elements and ZeRO-3 sends 3 P (N-1)/N.

Source: nccl-tests, doc/PERFORMANCE.md; Thakur, Rabenseifner, Gropp 2005; the step:
Rajbhandari et al., "ZeRO", arXiv:1910.02054, section 7.
"""
from __future__ import annotations

from helpers.facts.errors import BadValue

SHARE_SENT = {
    "all_reduce": lambda n: 2 * (n - 1) / n,
    "reduce_scatter": lambda n: (n - 1) / n,
    "all_gather": lambda n: (n - 1) / n,
    "all_to_all": lambda n: (n - 1) / n,
    "broadcast": lambda n: 1.0,
    "send": lambda n: 1.0,
}


def bytes_sent(collective: str, full_bytes: float, world_size: int) -> float:
    """Bytes that one rank sends at the least, for a full tensor T of `full_bytes`.

    all_reduce 2 T (N-1)/N; reduce_scatter, all_gather, all_to_all T (N-1)/N; broadcast and send T; 0 on one rank.
    Raises `BadValue` for any other collective, or a size or world size that cannot be.
    """
    if collective not in SHARE_SENT:
        raise BadValue(f"no collective {collective!r}; there are {', '.join(SHARE_SENT)}")
    if type(world_size) is not int or world_size < 1:
        raise BadValue(f"world_size is a whole number from 1, not {world_size!r}")
    if not 0 <= full_bytes < float("inf"):
        raise BadValue(f"full_bytes is a size in bytes, 0 or more, not {full_bytes!r}")
    return full_bytes * SHARE_SENT[collective](world_size) if world_size > 1 else 0.0


STEP_COLLECTIVES = {                                           # by stage; 0 is DDP
    0: ("all_reduce",),                                        # gradients
    1: ("reduce_scatter", "all_gather"),                       # gradients; updated parameters
    2: ("reduce_scatter", "all_gather"),
    3: ("all_gather", "all_gather", "reduce_scatter"),         # parameters forward, again backward; gradients
}


def step_elements_sent(params: float, zero_stage: int, world_size: int, reshard_after_forward: bool = True) -> float:
    """Elements that one rank sends in a training step of `params` P parameters.

    DDP, ZeRO-1 and ZeRO-2 send 2 P (N-1)/N; ZeRO-3 sends 3 P (N-1)/N, or 2 P (N-1)/N if parameters stay gathered
    after forward (`reshard_after_forward=False`).  Raises `BadValue` for a stage other than 0, 1, 2, 3.
    Source: arXiv:1910.02054, section 7.
    """
    if type(zero_stage) is not int or zero_stage not in STEP_COLLECTIVES:
        raise BadValue(f"zero_stage is 0 (DDP), 1, 2 or 3, not {zero_stage!r}")
    collectives = STEP_COLLECTIVES[zero_stage][1 if zero_stage == 3 and not reshard_after_forward else 0:]
    return sum(bytes_sent(collective, params, world_size) for collective in collectives)
