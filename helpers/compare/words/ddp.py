"""Sentences that say what a picture shows."""
from __future__ import annotations

import html

from helpers.compare.crossover import SIZES, Curves
from helpers.compare.ring_frames import Frame, parts_in
from helpers.facts.data_sharding import Sampling
from helpers.facts.network import Link
from helpers.facts.specs import card, model
from helpers.facts.trace import Trace, exposed_s
from helpers.facts.units import GB, UNITS, in_unit
from helpers.predict.memory import recipe, smallest_ranks, state_bytes


def fit_in_words(model_name: str, recipe_name: str, stage: int, ranks: int, card_name: str) -> str:
    """How much model state a rank holds, whether the card holds it, and how many ranks would do."""
    size, kept, limit = model(model_name).num_params, recipe(recipe_name), card(card_name)
    held = state_bytes(size, ranks, stage, kept)
    left = limit.memory_bytes - held
    verdict = (f"leaves {in_unit(left, 'GiB', 3)} of {in_unit(limit.memory_bytes, 'GiB', 3)} for activations and "
               "buffers" if left > 0 else f"is more than the card's {in_unit(limit.memory_bytes, 'GiB', 3)}")
    try:
        enough = smallest_ranks(size, limit.memory_bytes, stage, kept)
        need = f"Smallest number of ranks for the model state alone: {enough}."
    except ValueError as error:
        need = f"For the model state alone, {error}."
    return (f"{model_name}, {kept.bytes_per_param} bytes per parameter, stage {stage} on {ranks} "
            f"rank{'s' if ranks > 1 else ''}: {in_unit(held, 'GB')} ({in_unit(held, 'GiB')}) of model state a rank, "
            f"which {verdict}. {need}")


def ring_in_words(frame: Frame) -> str:
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
    bandwidth = f"{1 / link.beta_s / GB:.1f} GB/s" if link.beta_s else "beyond measure"
    return f"alpha = {1e6 * link.alpha_s:.0f} us, bandwidth 1 / beta = {bandwidth}"


def overlap_in_words(step: Trace) -> str:
    """How much of a predicted step's messages is hidden behind backward."""
    spent = {kind: sum(s.duration_s for s in step if s.kind == kind) for kind in ("B", "all_reduce")}
    num = sum(s.kind == "all_reduce" for s in step)
    shown = exposed_s(step, 0, "all_reduce", behind="B")
    share = f" ({1 - shown / spent['all_reduce']:.0%} hidden)" if spent["all_reduce"] else ""
    why = " Messages take longer than backward, so they cannot hide." if spent["all_reduce"] > spent["B"] else ""
    return (f"Backward takes {1e3 * spent['B']:,.0f} ms, {num} all_reduce{'s' if num > 1 else ''} "
            f"{1e3 * spent['all_reduce']:,.0f} ms, of which {1e3 * shown:,.1f} ms are exposed{share}.{why}")


def sampling_in_words(report: Sampling) -> str:
    """The report, as HTML."""
    return "<br>".join(map(html.escape, str(report).splitlines()))
