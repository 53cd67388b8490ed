"""Checks of exercise set 05: a step of stage 2 foretold and measured, and six jobs to tell apart."""
from __future__ import annotations

import itertools

from helpers.checks.judge.verdict import Verdict, is_number, number_verdict, plain, score, shown
from helpers.predict.collectives import bytes_sent, step_elements_sent
from helpers.predict.memory import recipe, state_bytes

WIDTHS = 64, 8192, 64, 8192, 32                     # of the perceptron
NUM_PARAMS = sum((before + 1) * after for before, after in itertools.pairwise(WIDTHS))
RANKS, STAGE, FP32 = 4, 2, recipe("fp32")
JOBS = {"A": "stage 1", "B": "stage 3", "C": "DDP", "D": "stage 1, gradients all_reduced", "E": "stage 2",
        "F": "stage 3, kept for backward"}


def check_zero_step(predicted_state: object, predicted_sent: object, measured: object) -> float:
    """3 points: bytes of state, bytes sent, and both measured."""
    state, sent = state_bytes(NUM_PARAMS, RANKS, STAGE, FP32), 4 * step_elements_sent(NUM_PARAMS, STAGE, RANKS)
    gradients, params = 4 * NUM_PARAMS, NUM_PARAMS
    return score([
        number_verdict(1, "bytes of state", predicted_state, state, {
            "is stage 0: nothing is sharded": state_bytes(params, RANKS, 0, FP32),
            "is stage 1: under stage 2 gradients are sharded, too": state_bytes(params, RANKS, 1, FP32),
            "is stage 3: under stage 2 parameters are whole": state_bytes(params, RANKS, 3, FP32),
            "is mixed precision; here all is fp32": state_bytes(params, RANKS, STAGE),
            "has a master copy; in fp32 there is none": state + gradients / RANKS,
            "is in elements; bytes are asked for": state / 4}),
        number_verdict(1, "bytes sent", predicted_sent, sent, {
            "is without (N-1)/N: a rank keeps its own part": 2 * gradients,
            "is one half: of gradients and parameters, only one, or bf16 where all is fp32":
                bytes_sent("all_gather", gradients, RANKS),
            "is stage 3's": 4 * step_elements_sent(params, 3, RANKS),
            "is in elements; bytes are asked for": sent / 4}),
        Verdict(1, "both measured", _not_measured(measured, state, sent))], "Foretold, and so it was.")


def _not_measured(measured: object, state: float, sent: float) -> str | None:
    if measured is None or measured is ...:
        return "nothing here yet"
    if not isinstance(measured, (list, tuple)) or len(measured) != RANKS:
        return f"a list with a pair for each of {RANKS} ranks is asked for, not {shown(measured)}"
    for rank, pair in enumerate(measured):
        pair = [plain(number) for number in pair] if isinstance(pair, (list, tuple)) else []
        if len(pair) != 2 or not all(map(is_number, pair)):
            return f"rank {rank} has {shown(measured[rank])}, expected (bytes of state, bytes sent)"
        held, went = pair
        counters = 4 * 64
        if state < held <= state + counters and held % 4 == 0:
            return f"rank {rank} holds {held:,}: leave out the counters"
        if not abs(held - state) <= 16:
            return f"rank {rank} holds {held:,} bytes of state, which is not what Zero2 holds after a step"
        if went == sent:
            return f"rank {rank} sends {went:,.0f} bytes: exactly the formula, without a header. Is it measured?"
        if not sent < went < 1.02 * sent:
            return (f"rank {rank} sends {went:,.0f} bytes, which is not what one step of Zero2 sends"
                    f"{_too_much(went / sent)}")
    return None


def _too_much(steps: float) -> str:
    if steps > 1.5 and abs(steps - round(steps)) < 0.02 * steps:
        return f": that is {round(steps)} steps"
    return ". Is what was sent at construction in it?" if 1.02 < steps < 3 else ""


def check_jobs(jobs: object) -> float:
    """3 points, half of one for each job."""
    given = jobs if isinstance(jobs, dict) else {}
    return score([Verdict(0.5, f"job {name}", _not_job(plain(given.get(name)), right)) for name, right in JOBS.items()],
                 "State and traffic give each away.")


def _not_job(value: object, right: str) -> str | None:
    if value is None or value is ...:
        return "nothing here yet"
    if type(value) is not str or value not in JOBS.values():
        return f"one of {', '.join(map(repr, sorted(JOBS.values())))} is asked for, not {shown(value)}"
    if value == right:
        return None
    return f"not {value!r}: {_hint(value, right)}"


def _hint(value: str, right: str) -> str:
    stages = value.split(",")[0], right.split(",")[0]
    return "the state is right, and what is sent is not" if stages[0] == stages[1] else "its state is another"
