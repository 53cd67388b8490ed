"""Bytes that one rank sends in a collective, at the least.

T is the size of the FULL tensor in bytes, N the number of ranks.

    all_reduce                   2 T (N-1)/N     a reduce-scatter, then an all-gather
    reduce_scatter, all_gather     T (N-1)/N     every rank ends with, or starts from, T/N
    all_to_all                     T (N-1)/N     T is what each rank holds
    broadcast, send                T             by the rank that has the data; a chain passes it on

Source: nccl-tests, doc/PERFORMANCE.md; Thakur, Rabenseifner, Gropp 2005.
"""
from __future__ import annotations

SHARE_SENT = {
    "all_reduce": lambda n: 2 * (n - 1) / n,
    "reduce_scatter": lambda n: (n - 1) / n,
    "all_gather": lambda n: (n - 1) / n,
    "all_to_all": lambda n: (n - 1) / n,
    "broadcast": lambda n: 1.0,
    "send": lambda n: 1.0,
}


def bytes_sent(collective: str, full_bytes: float, world_size: int) -> float:
    """What one rank sends of a tensor of `full_bytes` bytes."""
    if collective not in SHARE_SENT:
        raise ValueError(f"no collective {collective!r}; there are {', '.join(SHARE_SENT)}")
    if type(world_size) is not int or world_size < 1:
        raise ValueError(f"world_size is a whole number from 1, not {world_size!r}")
    return full_bytes * SHARE_SENT[collective](world_size) if world_size > 1 else 0.0
