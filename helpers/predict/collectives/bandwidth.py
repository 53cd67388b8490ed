"""From times to bandwidths, and from measured times to alpha and beta.

    algorithm bandwidth = T / seconds                 how fast the collective looks
    bus bandwidth       = algorithm bandwidth * f     how fast each link is, whatever the number of ranks

    f = 2 (N-1)/N   all_reduce        T: the tensor on each rank
    f =   (N-1)/N   all_gather, reduce_scatter, all_to_all      T: the gathered one; for all_to_all what a rank holds
    f = 1           broadcast, reduce

Source: nccl-tests, doc/PERFORMANCE.md.
"""
from __future__ import annotations

import numpy

from helpers.facts.errors import BadValue
from helpers.facts.network import Link
from helpers.predict.collectives.volume import SHARE_SENT

# the share of T that a rank must send; a reduce is a broadcast backwards
BUS_FACTORS = {**SHARE_SENT, "reduce": SHARE_SENT["broadcast"]}
del BUS_FACTORS["send"]


def algorithm_bandwidth(full_bytes: float, seconds: float) -> float:
    """full_bytes / seconds, in bytes per second: how fast a collective looks from outside.

    Raises `BadValue` unless seconds is above 0.
    """
    if not seconds > 0:
        raise BadValue(f"seconds is above 0, not {seconds!r}")
    return full_bytes / seconds


def bus_bandwidth(collective: str, full_bytes: float, seconds: float, world_size: int) -> float:
    """Algorithm bandwidth times f(N), in bytes per second: how fast each link is, whatever the number of ranks.

    f is 2 (N-1)/N for all_reduce, (N-1)/N for all_gather, reduce_scatter and all_to_all, 1 for broadcast and reduce.
    full_bytes is the whole tensor T, as nccl-tests counts it.  Raises `BadValue` for any other collective.
    """
    if collective not in BUS_FACTORS:
        raise BadValue(f"no collective {collective!r}; there are {', '.join(BUS_FACTORS)}")
    if type(world_size) is not int or world_size < 1:
        raise BadValue(f"world_size is a whole number from 1, not {world_size!r}")
    return algorithm_bandwidth(full_bytes, seconds) * BUS_FACTORS[collective](world_size)


def fit_link(seconds_by_bytes: dict[float, float]) -> Link:
    """The `Link` whose line alpha + n beta is nearest, by relative error, to measured times of single messages.

    seconds_by_bytes maps the size of a message to its time.  Neither alpha nor beta is ever below 0.
    Raises `BadValue` for fewer than two sizes, or a time that is not above 0.
    """
    sizes, seconds = (numpy.array(list(some), float) for some in (seconds_by_bytes, seconds_by_bytes.values()))
    if len(set(sizes)) < 2:
        raise BadValue("a line takes messages of two sizes at least")
    if not (seconds > 0).all():
        raise BadValue(f"times are above 0 s, not {seconds.min()}")
    rows = numpy.stack([numpy.ones_like(sizes), sizes], axis=1) / seconds[:, None]
    alpha_s, beta_s = numpy.linalg.lstsq(rows, numpy.ones_like(sizes), rcond=None)[0]
    if alpha_s < 0:                                 # a line through zero is nearest
        alpha_s, beta_s = 0.0, (sizes / seconds).sum() / ((sizes / seconds) ** 2).sum()
    elif beta_s < 0:
        alpha_s, beta_s = (1 / seconds).sum() / ((1 / seconds) ** 2).sum(), 0.0
    return Link(float(alpha_s), float(beta_s))
