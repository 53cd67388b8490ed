"""Checks of exercise set 06: what FSDP sends with parameters freed or kept after forward, foretold and measured."""
from __future__ import annotations

from helpers.checks.judge.verdict import Verdict, is_number, number_verdict, plain, same_verdict, score, shown
from helpers.predict.collectives import bytes_sent
from helpers.predict.fsdp import Sharding, num_collectives, step_bytes_sent

NUM_BLOCKS, WIDTH, RANKS = 8, 512, 4
FULL_BYTES = 4 * NUM_BLOCKS * WIDTH**2
MODES = {"freed": True, "kept": False}              # after forward


def sharding(mode: str) -> Sharding:
    """The sharding of the exercise's model on 4 ranks, with what is to be different."""
    return Sharding(NUM_BLOCKS * WIDTH**2, NUM_BLOCKS, RANKS, MODES[mode])


def sent(mode: str) -> float:
    """Bytes that a rank sends in a step, on gloo."""
    return step_bytes_sent(sharding(mode), gloo=True)


OTHER = "is that of the other mode"
SPARING = "is that of a reduce_scatter that sends no more than it must; gloo's sends as much as an all_reduce"
KEEPS = "is without (N-1)/N: a rank keeps its own part"
ELEMENTS = "is in elements; bytes are asked for"
MISTAKES = {            # what two mistakes lead to names both
    "freed": {f"{OTHER}, or {SPARING}": sent("kept"), "is what DDP sends": bytes_sent("all_reduce", FULL_BYTES, RANKS),
              KEEPS: sent("freed") * RANKS / (RANKS - 1), ELEMENTS: sent("freed") / 4},
    "kept": {SPARING: step_bytes_sent(sharding("kept")), f"{OTHER}, or {KEEPS}": sent("freed"),
             ELEMENTS: sent("kept") / 4}}


def check_fsdp_step(predicted_bytes: object, predicted_gathers: object, measured: object) -> float:
    """4 points: bytes on gloo in both modes, number of all_gathers, and bytes measured."""
    given = predicted_bytes if isinstance(predicted_bytes, dict) else {}
    counts = predicted_gathers if isinstance(predicted_gathers, dict) else {}
    gathers = {mode: num_collectives(sharding(mode))["all_gather"] for mode in MODES}
    return score([
        *(number_verdict(1, f"bytes, {mode}", given.get(mode), sent(mode), MISTAKES[mode]) for mode in MODES),
        Verdict(1, "all_gathers", _not_gathers(counts, gathers)),
        Verdict(1, "both measured", _not_measured(measured))], "Foretold, and so it was.")


def _not_gathers(counts: dict, right: dict[str, int]) -> str | None:
    for mode, number in right.items():
        wrong = same_verdict(mode, counts.get(mode), number, "how many units, and how often is each gathered?").wrong
        if wrong:
            return wrong if wrong == "nothing here yet" else f"{mode}: {wrong}"
    return None


def _not_measured(measured: object) -> str | None:
    if not isinstance(measured, dict) or all(value is None or value is ... for value in measured.values()):
        return "nothing here yet"
    for mode in MODES:
        each, right = measured.get(mode), sent(mode)
        if not isinstance(each, (list, tuple)) or len(each) != RANKS:
            return f"measured[{mode!r}] is a list of bytes for each of {RANKS} ranks, not {shown(each)}"
        for rank, value in enumerate(map(plain, each)):
            if not is_number(value):
                return f"measured[{mode!r}] has {shown(value)} for rank {rank}; bytes are asked for"
            if value == right:
                return f"{mode}: rank {rank} sends {value:,.0f} bytes, exactly the formula. Is it measured?"
            if not right < value < 1.03 * right:
                return (f"{mode}: rank {rank} sends {value:,.0f} bytes, which is not what one step of this model sends"
                        + _other(value, right))
    return None


def _other(value: float, right: float) -> str:
    """Which known mistake measures this."""
    if (steps := round(value / right)) > 1 and right < value / steps < 1.03 * right:
        return f": that is {steps} steps"
    swapped = any(other != right and other < value < 1.03 * other for other in map(sent, MODES))
    return ": that is the other mode's" if swapped else ""
