"""Checks of exercise set 06: what FSDP sends with parameters freed or kept after forward, foretold and measured."""
from __future__ import annotations

from helpers.checks.verdict import Verdict, is_number, number_verdict, plain, same_verdict, score, shown
from helpers.predict.comm import bytes_sent
from helpers.predict.fsdp import Sharding, num_collectives, step_bytes_sent

NUM_BLOCKS, WIDTH, RANKS = 8, 512, 4
FULL_BYTES = 4 * NUM_BLOCKS * WIDTH**2
MODES = {"freed": True, "kept": False}              # after forward


def sharding(mode: str) -> Sharding:
    return Sharding(NUM_BLOCKS * WIDTH**2, NUM_BLOCKS, RANKS, MODES[mode])


def check_fsdp(predicted_bytes: object, predicted_gathers: object, measured: object) -> float:
    """4 points: bytes on gloo in both modes, number of all_gathers, and bytes measured."""
    given = predicted_bytes if isinstance(predicted_bytes, dict) else {}
    counts = predicted_gathers if isinstance(predicted_gathers, dict) else {}
    gathers = {mode: num_collectives(sharding(mode))["all_gather"] for mode in MODES}
    return score([
        *(number_verdict(1, f"bytes, {mode}", given.get(mode), step_bytes_sent(sharding(mode), gloo=True), {
            "is for a reduce_scatter that sends no more than it must; gloo's sends as much as an all_reduce":
                step_bytes_sent(sharding(mode)),
            "is that of the other mode": step_bytes_sent(sharding(other), gloo=True),
            "is that of the other mode, and of a reduce_scatter that sends no more than it must":
                step_bytes_sent(sharding(other)),
            "is what DDP sends": bytes_sent("all_reduce", FULL_BYTES, RANKS),
            "is in elements; bytes are asked for": step_bytes_sent(sharding(mode), gloo=True) / 4,
            "is without (N-1)/N: a rank keeps its own part": step_bytes_sent(sharding(mode), gloo=True) * 4 / 3,
        }) for mode, other in (("freed", "kept"), ("kept", "freed"))),
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
        each, right = measured.get(mode), step_bytes_sent(sharding(mode), gloo=True)
        if not isinstance(each, (list, tuple)) or len(each) != RANKS:
            return f"measured[{mode!r}] is a list of bytes for each of {RANKS} ranks, not {shown(each)}"
        for rank, sent in enumerate(map(plain, each)):
            if not is_number(sent):
                return f"measured[{mode!r}] has {shown(sent)} for rank {rank}; bytes are asked for"
            if sent == right:
                return f"{mode}: rank {rank} sends {sent:,.0f} bytes, exactly the formula. Is it measured?"
            if not right < sent < 1.03 * right:
                return f"{mode}: rank {rank} sends {sent:,.0f} bytes, which is not what one step of this model sends"
    return None
