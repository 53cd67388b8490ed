"""The sentences beside the pictures of lesson 02: what moves around a ring, and which algorithm is fastest."""
from __future__ import annotations

from helpers.compare.crossover import SIZES, Curves
from helpers.compare.ring_frames import RingFrame, parts_in
from helpers.facts.network import Link
from helpers.facts.units import GB, UNITS, in_unit


def ring_in_words(frame: RingFrame) -> str:
    """What every rank sends next, and how much each has sent so far; as HTML."""
    n, half = len(frame.held), frame.num_steps // 2
    sent = f"So far each rank has sent {frame.step - 1} chunks, {(frame.step - 1) / n:.3g} T."
    if not frame.moving:
        return f"The end: every chunk on every rank is the sum over all {n} ranks. {sent}"
    phase = f"reduce-scatter, step {frame.step} of {half}" if frame.reduces else \
        f"all-gather, step {frame.step - half} of {half}"
    said = [f"rank {rank} sends chunk {chunk} ({_sum_of(parts_in(frame.held[rank][chunk], n), n)}) "
            f"to rank {(rank + 1) % n}" for rank, chunk in enumerate(frame.moving)]
    does = "adds it to its own" if frame.reduces else "keeps it"
    listed = "".join(f"<li>{one}</li>" for one in said)
    return f"{phase.capitalize()}:<ul>{listed}</ul>Whoever receives a chunk {does}. {sent}"


def _sum_of(parts: list[int], n: int) -> str:
    if len(parts) == n:
        return "complete"
    return f"of rank {parts[0]}" if len(parts) == 1 else f"sum of ranks {', '.join(map(str, parts))}"


def times_in_words(curves: Curves) -> str:
    """Which algorithm is fastest at which size, as played."""
    spans = []                                          # names, first size, last size
    for size in SIZES:
        if spans and spans[-1][0] == curves.fastest(size):
            spans[-1][2] = size
        else:
            spans.append([curves.fastest(size), size, size])
    said = [f"{' or '.join(names)} at {_size(first)}{f' to {_size(last)}' if last > first else ''}"
            for names, first, last in spans]
    fastest = f"On {curves.world_size} ranks the fastest, of the sizes played, is {'; '.join(said)}."
    if curves.crossover_bytes is None:
        return f"{fastest} Links differ, so there are no formulas: all marks are played."
    if curves.crossover_bytes in (0, float("inf")):
        often = "never" if curves.crossover_bytes == 0 else "always"
        return f"{fastest} Recursive doubling is {often} faster than the ring."
    return f"{fastest} Recursive doubling and the ring are equally fast at {in_unit(curves.crossover_bytes, 'KB', 3)}."


def _size(num_bytes: float) -> str:
    return in_unit(num_bytes, next(unit for unit in ("GB", "MB", "KB", "B") if num_bytes >= UNITS[unit]))


def link_in_words(link: Link) -> str:
    """Latency in microseconds and bandwidth in GB/s of a link."""
    bandwidth = f"{1 / link.beta_s / GB:.1f} GB/s" if link.beta_s else "beyond measure"
    return f"alpha = {1e6 * link.alpha_s:.0f} us, bandwidth 1 / beta = {bandwidth}"
