"""Checks of exercise set 10: printed bubbles that are not what is asked for, each held against counted idle slots."""
from __future__ import annotations

from functools import cache

from helpers.checks.judge.verdict import Verdict, is_number, number_verdict, plain, score, shown
from helpers.facts.bubbles import bubble_of_ideal, bubble_of_total, bubble_rate, idle_s
from helpers.facts.schedules import Schedule, dualpipe, dualpipe_v, interleaved, one_f_one_b, zb_h1, zb_h2
from helpers.facts.schedules.durations import UNIT_DURATIONS
from helpers.facts.trace import Trace
from helpers.predict.pipeline import simulate

P, M, PAIR = 12, 48, 2.5
FRACTION = "is a fraction; percent are asked for"
IDLE = "is in idle units; percent of time are asked for"
B_IS_1 = "counts a whole backward as 1 unit; it is I and W, 2 units"
KEYS = ("ZB-H1, % of total", "1F1B, % of ideal", "ZB-H2, % of total", "ZB-H2, % of own span", "DualPipe, idle units",
        "DualPipeV, % of total")
POINTS = (0.5, 0.5, 0.5, 0.5, 1, 1)


def check_bubbles(bubbles: object) -> float:
    """4 points: the right number for each line of the card."""
    given = bubbles if isinstance(bubbles, dict) else {}
    odd = [key for key in given if key not in KEYS]
    if odd or not isinstance(bubbles, dict):
        what = f"{shown(odd[0])} is none of its keys" if odd else f"it is {shown(bubbles)}"
        return score([Verdict(4, "bubbles", f"leave the keys of the dict `bubbles` as they are: {what}")], "")
    return score([_verdict(points, key, plain(given.get(key))) for points, key in zip(POINTS, KEYS, strict=True)],
                 "Counted, and each with its denominator.")


def _verdict(points: float, key: str, value: object) -> Verdict:
    right, mistakes = _right(key)
    if is_number(value):
        value = 0.0 if abs(value) < 1e-9 else value             # what a calculation leaves of zero is zero
        mistakes = dict(sorted(mistakes.items(), key=lambda mistake: abs(mistake[1] - value)))
    return number_verdict(points, key, value, right, mistakes)


@cache
def _right(key: str) -> tuple[float, dict[str, float]]:
    """The value, counted on a played schedule, and what known mistakes lead to."""
    return {KEYS[0]: _zb_h1, KEYS[1]: _one_f_one_b, KEYS[2]: _zb_h2, KEYS[3]: _own_span, KEYS[4]: _dualpipe,
            KEYS[5]: _dualpipe_v}[key]()


def _of_total(idle: float, work: float = 3 * M) -> float:
    return 100 * idle / (work + idle)


@cache
def _played(schedule: Schedule, unit: float = 1, **other: float) -> Trace:
    return simulate(schedule, {kind: unit * units for kind, units in (UNIT_DURATIONS | other).items()})


def _zb_h1() -> tuple[float, dict[str, float]]:
    trace = _played(zb_h1(P, M))
    whole = 100 * bubble_of_total(_played(one_f_one_b(P, M)))
    return 100 * bubble_of_total(trace), {
        "is the card's (p-1)/(3m+2(p-1)): the idle units are counted twice in the length": 100 * (P - 1) / (
            3 * M + 2 * (P - 1)),
        "is of ideal, idle over work; of total is idle over all time": 100 * bubble_of_ideal(trace),
        "is the bubble of 1F1B": whole, FRACTION: bubble_of_total(trace), IDLE: idle_s(trace)[0],
        "is a third of 1F1B's percentage; a third of its idle units is left, of a shorter step": whole / 3,
        B_IS_1: _of_total(P - 1, 2 * M), "has p idle units; it is p - 1": _of_total(P)}


def _one_f_one_b() -> tuple[float, dict[str, float]]:
    trace = _played(one_f_one_b(P, M))
    return 100 * bubble_of_ideal(trace), {
        "is the card's, of total: idle over all time; of ideal is idle over work": 100 * bubble_of_total(trace),
        "is p / m; the idle time is that of p - 1": 100 * P / M, FRACTION: bubble_of_ideal(trace),
        "is of total, and a fraction": bubble_of_total(trace), IDLE: idle_s(trace)[0],
        "is interleaved 1F1B's with two chunks": 100 * bubble_of_ideal(_played(interleaved(P, M), unit=0.5)),
        "is ZB-H1's of ideal": 100 * (P - 1) / (3 * M)}


def _zb_h2() -> tuple[float, dict[str, float]]:
    trace = _played(zb_h2(P, M))
    return 100 * bubble_of_total(trace), {
        "is the card's, of a rank's own span; of total counts from the first start of any rank to the last end": 0,
        "is of ideal, idle over work; of total is idle over all time": 100 * bubble_of_ideal(trace),
        "is (p-1)/(3m+2(p-1)): the idle units are counted twice in the length": 100 * (P - 1) / (3 * M + 2 * (P - 1)),
        FRACTION: bubble_of_total(trace), IDLE: idle_s(trace)[0], B_IS_1: _of_total(P - 1, 2 * M)}


def _own_span() -> tuple[float, dict[str, float]]:
    trace = _played(zb_h2(P, M))
    return round(100 * bubble_rate(trace), 9), {
        "is of total: a rank's own span leaves out what it waits before its first step and after its last":
            100 * bubble_of_total(trace),
        "is of ideal; a rank's own span leaves out what it waits before its first step": 100 * bubble_of_ideal(trace)}


def _dualpipe() -> tuple[float, dict[str, float]]:
    trace, slow, fast = (_played(dualpipe(P, M), **{"F&B": pair}) for pair in (PAIR, 3, 2))
    idle, half = max(idle_s(trace)), P // 2
    return idle, {
        "is for pairs of 3 units, an overlap that saves nothing": max(idle_s(slow)),
        "is the card's (p-1)//2, or for pairs of 2 units; here they take 2.5": max(idle_s(fast)),
        "is in percent; idle units are asked for": 100 * bubble_of_total(trace),
        "counts a whole backward as 1 unit; b is I and W, 2 units": (half - 1) * (PAIR + 1 - 3),
        "is (p/2)(pair + b - 3w); it is p/2 - 1": half * (PAIR + 2 - 3),
        "is (p-1)(pair + b - 3w); it is p/2 - 1": (P - 1) * (PAIR + 2 - 3),
        "is the mean over ranks; the rank that idles most is asked for": sum(idle_s(trace)) / P,
        "is the rank that idles least; the one that idles most is asked for": min(idle_s(trace)),
        "adds up all ranks; that of one is asked for": sum(idle_s(trace)),
        "adds up p times the rank that idles most; that of one is asked for": P * idle,
        "is pair + b - 2w, with (p/2-1); it is - 3w": (half - 1) * (PAIR + 2 - 2)}


def _dualpipe_v() -> tuple[float, dict[str, float]]:
    trace, stages = _played(dualpipe_v(P, M), unit=0.5), _played(dualpipe_v(P // 2, M))
    two_ways = 100 * bubble_of_total(_played(dualpipe(P, M)))
    card = 100 * ((P - 1) // 2) / (3 * M + P - 1)
    return 100 * bubble_of_total(trace), {
        f"is with {P} stages, and so on {P // 2} ranks; on {P} ranks there are {2 * P}": 100 * bubble_of_total(stages),
        f"is DualPipe's, or that of {P} stages over the work of one": two_ways,
        "is the card's, 1.2 times a DualPipe that nobody has": 1.2 * card,
        "is DualPipe's, times 1.2; nobody counted that": 1.2 * two_ways, "is the card's for DualPipe": card,
        "has stages of full size on both sides of half the work": _of_total(2 * (P - 1)),
        "is of ideal, idle over work; of total is idle over all time": 100 * bubble_of_ideal(trace),
        FRACTION: bubble_of_total(trace), IDLE: max(idle_s(trace)), "is ZB-V's": _of_total((P - 1) / 2)}
