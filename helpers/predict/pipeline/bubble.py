"""Bubbles in closed form.  Each is a test against `simulate`, which plays the schedule.

    p  ranks        m  microbatches       f, i, w  time of F, I and W of one stage       b = i + w
    pair            time of a forward and a backward that overlap, from max(f, b) to f + b

    GPipe, 1F1B       (p - 1)(f + b)
    interleaved       (p - 1)(f + b)                of the smaller stages: 1 / num_chunks of the above; m >= p
    ZB-H1             (p - 1)(f + i - w)            w <= f, w <= i, m >= p
    ZB-H2             (p - 1)(f + i - 2 w)          in a rank's own span; w <= f, 2 w <= f + i, m >= 2 p - 1
                      (p - 1) max(f, f + i - 2 w)   from the first start of any rank to the last end
    ZB-V              0, and (p - 1) f              likewise, of the smaller stages; f = i = w, m >= 2 p - 1
    DualPipe(V)       (s/2 - 1)(pair + b - 3 w)     s stages, the rank that idles most; f = i, w <= f, m >= 2 ranks

Outside these conditions a bubble may be larger or smaller: functions refuse, and `simulate` tells.
None depends on m: the bubble's TIME is constant, its fraction falls.
What is called bubble_... here is idle time over idle time and the work of all microbatches, m (f + b).

Sources: arXiv:1811.06965; arXiv:2104.04473, section 2.2; arXiv:2401.10241, table 2; README of deepseek-ai/DualPipe.
"""
from __future__ import annotations

from helpers.facts.errors import BadValue
from helpers.facts.schedules.dualpipe import check_dualpipe, check_dualpipe_v


def bubble_fraction(num_stages: int, num_microbatches: int) -> float:
    """(p - 1) / (m + p - 1): idle over total time, for one stage on each of p ranks, all alike, and m microbatches.

    Raises `BadValue` for counts below 1.
    """
    _check(num_stages, num_microbatches)
    return (num_stages - 1) / (num_microbatches + num_stages - 1)


def bubble_1f1b(num_stages: int, num_microbatches: int) -> float:
    """Idle over total time of 1F1B, (p - 1) / (m + p - 1): that of GPipe, since times of F and B cancel."""
    return bubble_fraction(num_stages, num_microbatches)


def bubble_interleaved(num_ranks: int, num_microbatches: int, num_chunks: int = 2) -> float:
    """Idle over total time of interleaved 1F1B: ((p - 1)/v) / (m + (p - 1)/v), v chunks on each of p ranks.

    For m a multiple of p; with fewer microbatches than ranks the schedule idles longer: simulate it.
    Source: arXiv:2104.04473, section 2.2.
    """
    _check(num_ranks, num_microbatches)
    _holds(num_chunks >= 1, "a rank has at least one chunk")
    return _of_total((num_ranks - 1) / num_chunks, num_microbatches)


def bubble_zero_bubble(num_stages: int, num_microbatches: int, *, f: float = 1, i: float = 1, w: float = 1) -> float:
    """Idle over total time of ZB-H1: (p - 1)(f + i - w) over that and m (f + i + w).

    f, i, w   times of F, I and W of a stage, in any one unit
    Raises `BadValue` unless w <= f, w <= i and m >= p.  Source: arXiv:2401.10241, table 2.
    """
    _check(num_stages, num_microbatches)
    _holds(w <= min(f, i) and num_microbatches >= num_stages, "w is at most f and at most i, and m at least p")
    return _of_total((num_stages - 1) * (f + i - w), num_microbatches * (f + i + w))


def bubble_dualpipe(num_stages: int, num_microbatches: int, *, f: float = 1, i: float = 1, w: float = 1,
                    pair: float | None = None) -> float:
    """The idle time of the rank that idles most, over that and m (f + b); holds where f = i, and w is at most f.

    For an even number of stages, an even m, and m >= 2 stages.
    pair    f + i + w if None: an overlap that saves nothing.  Where it saves, work takes less than m (f + b).
    """
    check_dualpipe(num_stages, num_microbatches)                # a rank for each stage
    return _overlapped(num_stages, num_microbatches, f, i, w, pair)


def bubble_dualpipev(num_stages: int, num_microbatches: int, *, f: float = 1, i: float = 1, w: float = 1,
                     pair: float | None = None) -> float:
    """As `bubble_dualpipe`, on half as many ranks as stages, for at least as many microbatches as stages.

    A rank has two stages here, and does 2 m (f + b) of work: the same idle time is half the fraction.
    """
    if num_stages % 2:
        raise BadValue(f"DualPipeV takes an even number of stages, two for each rank; not {num_stages}")
    check_dualpipe_v(num_stages // 2, num_microbatches)
    return _overlapped(num_stages, 2 * num_microbatches, f, i, w, pair)


def _overlapped(num_stages: int, num_microbatches: float, f: float, i: float, w: float, pair: float | None) -> float:
    _holds(f == i and w <= f, "f = i, and w is at most f")
    idle = (num_stages // 2 - 1) * ((f + i + w if pair is None else pair) + i - 2 * w)
    return _of_total(idle, num_microbatches * (f + i + w))


def _holds(condition: bool, where: str) -> None:
    if not condition:
        raise BadValue(f"the closed form holds where {where}; elsewhere simulate the schedule")


def _of_total(idle: float, work: float) -> float:
    return idle / (work + idle)


def _check(num_stages: int, num_microbatches: int) -> None:
    if num_stages < 1 or num_microbatches < 1:
        raise BadValue(f"there are at least 1 stage and 1 microbatch, not {num_stages} and {num_microbatches}")
