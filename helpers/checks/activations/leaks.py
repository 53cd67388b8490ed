"""Checks of exercise set 07: training whose memory grows with every step, and its cure.

What stays alive is counted from allocations and releases, as torch's profiler reports them: Python does not see the
tensors that a graph keeps.
"""
from __future__ import annotations

import math
from dataclasses import dataclass

from helpers.checks.judge import forbidden
from helpers.checks.judge.other_process import Raised
from helpers.checks.judge.real_ranks import on_ranks
from helpers.checks.judge.verdict import CheckFailed, Verdict, number_verdict, plain, score, shown

LINES = ("A", "B", "C")
LEAKING = "C"
HELD_OUT, WIDTHS = 512, (256, 128, 8)               # samples of the validation; outputs of the layers
STEP_BYTES = 4 * HELD_OUT * sum(WIDTHS)             # both ReLUs' outputs, and the difference that is squared
NUM_STEPS, EARLY, LATE = 8, 3, 7
MOST_BYTES = 1000                                   # a step: lists and numbers


@dataclass
class Watched:
    """What a training yielded in the end, and the bytes that were alive after some steps."""

    curve: list[float]
    checks: list[float]
    alive: dict[int, int]

    @property
    def bytes_a_step(self) -> float:
        """Bytes by which what is alive grows from step to step, between an early step and a late one."""
        return (self.alive[LATE] - self.alive[EARLY]) / (LATE - EARLY)


def check_leak(leaky: object, line: object, bytes_a_step: object, mended: object) -> float:
    """3 points: the line and what it leaves behind, the same losses, and no growth."""
    given = _watch(leaky)
    if isinstance(given, Raised) or not math.isclose(given.bytes_a_step, STEP_BYTES, rel_tol=0.001):
        raise CheckFailed("leaky is not what it was: leave it as it was given")
    cured = _watch(mended)
    wrong = _unlike(cured, given)
    return score([
        Verdict(0.5, "line", _wrong_line(line)),
        number_verdict(0.5, "bytes that each step leaves behind", bytes_a_step, STEP_BYTES, {
            "has the inputs, too; they are there anyway, once": STEP_BYTES + 4 * HELD_OUT * 32,
            "has both sides of each ReLU; its output is enough": 4 * HELD_OUT * (2 * sum(WIDTHS) - WIDTHS[-1]),
            "leaves out the difference, which its square keeps": 4 * HELD_OUT * sum(WIDTHS[:-1]),
            "is for the 64 samples of a training batch": 4 * 64 * sum(WIDTHS),
            "is in elements; bytes are asked for": HELD_OUT * sum(WIDTHS),
            "is in MB; bytes are asked for": STEP_BYTES / 1e6,
            "is in MiB; bytes are asked for": STEP_BYTES / 2**20,
            **{f"is what {number} steps leave behind; one is asked for": number * STEP_BYTES
               for number in range(2, NUM_STEPS)},
            f"is what all {NUM_STEPS} steps leave behind; one is asked for": NUM_STEPS * STEP_BYTES}),
        Verdict(1, "mended: the same losses", wrong),
        Verdict(1, "mended: nothing is left behind", "judged once the losses are right" if wrong else _grows(cured))],
        "Each step forgets what it no longer needs.")


def _watch(trains: object) -> Watched | Raised:
    run = on_ranks(_train, trains, None, 1, forbidden.FORMULAS)
    if isinstance(run, Raised):
        return run
    result = run.results[0]
    return Raised(result) if isinstance(result, str) else result


def _train(trains, rank: int, world_size: int, _: None) -> Watched | str:
    from helpers.run.measure.residency import residency

    alive = {}
    for num_steps in (EARLY, LATE):
        steps = trains(NUM_STEPS)
        if not hasattr(steps, "__next__"):
            return f"a generator is asked for, which yields after each step, as leaky does, not {shown(steps)}"
        with residency({}) as watched:
            for _ in range(num_steps):
                losses = next(steps, None)
        if losses is None:
            return f"{NUM_STEPS} steps are asked for, and it ended before step {num_steps}"
        alive[num_steps] = sum(sizes[-1] for sizes in watched.bytes.values())
    if not isinstance(losses, tuple) or len(losses) != 2 or not all(isinstance(each, list) for each in losses):
        return f"two lists are yielded, losses of training and of validation, not {shown(losses)}"
    return Watched(*([float(plain(loss)) for loss in each] for each in losses), alive)


def _wrong_line(line: object) -> str | None:
    if line is None or line is ...:
        return "nothing here yet"
    if line not in LINES:
        return f"one of {', '.join(LINES)} is asked for, not {shown(line)}"
    why = {"A": "backward has freed what this graph kept; four bytes are left",
           "B": "what is appended was taken from a detached tensor: it has no graph"}
    return None if line == LEAKING else f"not {line}: {why[line]}"


def _unlike(cured: Watched | Raised, given: Watched) -> str | None:
    if isinstance(cured, Raised):
        return cured.words
    for name, got, right in (("training", cured.curve, given.curve), ("validation", cured.checks, given.checks)):
        if len(got) != len(right):
            return f"after {LATE} steps there are {len(got)} losses of {name}, and leaky has {len(right)}"
        place = next((n for n, (one, other) in enumerate(zip(got, right, strict=True))
                      if not math.isclose(one, other, rel_tol=1e-5)), None)
        if place is not None:
            return f"loss {place} of {name} is {got[place]:.6g}, and leaky's is {right[place]:.6g}"
    return None


def _grows(cured: Watched) -> str | None:
    grown = cured.bytes_a_step
    if grown <= MOST_BYTES:
        return None
    hint = ": as much as before" if math.isclose(grown, STEP_BYTES, rel_tol=0.01) else ""
    return f"each step leaves {grown:,.0f} bytes behind, and at most {MOST_BYTES:,} are allowed{hint}"
