"""Checks of exercise set 03: the learning rate, predictions, and where ranks part."""
from __future__ import annotations

import itertools
import math

from helpers.checks.judge.other_process import Raised, answers
from helpers.checks.judge.verdict import (
    CheckFailed,
    Verdict,
    is_number,
    number_verdict,
    plain,
    same_verdict,
    score,
    shown,
    unseen,
)
from helpers.facts.buckets import buckets
from helpers.facts.units import MiB
from helpers.predict.collectives import bytes_sent
from helpers.run.launch import launch
from helpers.run.launch.launcher import RankHung
from helpers.run.launch.outcome import Wire

WIDTHS = 64, 8192, 64, 8192, 32                     # of the perceptron
SHAPES = [shape for before, after in itertools.pairwise(WIDTHS) for shape in ((after, before), (after,))]
SIZES = [4 * math.prod(shape) for shape in SHAPES]
RANKS = 3


def _case(rate: float, before: tuple[int, int, str], after: tuple[int, int, str]) -> dict:
    names = "world_size", "batch_size", "reduction"
    return {"rate": rate, "before": dict(zip(names, before, strict=True)),
            "after": dict(zip(names, after, strict=True))}


SEEN = [_case(0.1, (1, 32, "mean"), (4, 8, "mean")), _case(0.1, (1, 8, "mean"), (4, 8, "mean")),
        _case(0.1, (1, 32, "mean"), (4, 8, "sum")), _case(0.1, (4, 8, "sum"), (4, 8, "mean")),
        _case(0.4, (8, 16, "mean"), (2, 16, "mean"))]
UNSEEN = [_case(0.3, (2, 8, "sum"), (4, 8, "sum")), _case(0.2, (8, 4, "mean"), (8, 16, "mean")),
          _case(0.2, (8, 4, "sum"), (1, 32, "mean")), _case(1.0, (3, 10, "mean"), (6, 5, "sum")),
          _case(0.05, (1, 1, "mean"), (64, 4, "mean")), _case(0.5, (16, 2, "sum"), (2, 16, "sum")),
          _case(0.1, (4, 8, "mean"), (3, 8, "sum")), _case(0.7, (5, 3, "sum"), (5, 3, "sum"))]


def right_rate(rate: float, before: dict, after: dict) -> float:
    """The sum is the mean with a rate that is world_size times as large; the mean's rate grows with the batch."""
    as_mean = {"mean": lambda setup: 1, "sum": lambda setup: setup["world_size"]}
    batches = [setup["world_size"] * setup["batch_size"] for setup in (before, after)]
    factors = [as_mean[setup["reduction"]](setup) for setup in (before, after)]
    return rate * factors[0] / factors[1] * batches[1] / batches[0]


def check_rate(function: object) -> float:
    """1 point: five changes of a job."""
    return score([Verdict(1, "five changes", _wrong_rate(function, SEEN))], "Same steps, whatever the number of ranks.")


@unseen
def check_rate_unseen(function: object) -> float:
    """2 points: more of them, one for jobs that take the mean and one for sums."""
    sums = [case for case in UNSEEN if "sum" in (case["before"]["reduction"], case["after"]["reduction"])]
    means = [case for case in UNSEEN if case not in sums]
    return score([Verdict(1, "other means", _wrong_rate(function, means)),
                  Verdict(1, "other sums", _wrong_rate(function, sums))], "It holds for all of them.")


def _wrong_rate(function: object, cases: list[dict]) -> str | None:
    for case, got in zip(cases, answers(function, cases), strict=True):
        right = right_rate(**case)
        if isinstance(got, Raised):
            return got.words if got.words == "is not written yet" else f"{_said(case)}: {got.words}"
        if not is_number(got):
            return f"a rate is asked for, not {shown(got)}"
        if not math.isclose(got, right, rel_tol=1e-6):
            return f"{_said(case)}: {got:.4g}, expected {right:.4g}{_why(got, right, case)}"
    return None


def _said(case: dict) -> str:
    before, after = ("{world_size} x {batch_size} samples, {reduction}".format(**case[when])
                     for when in ("before", "after"))
    return f"rate {case['rate']:g}, from {before} to {after}"


def _why(got: float, right: float, case: dict) -> str:
    batches = [case[when]["world_size"] * case[when]["batch_size"] for when in ("before", "after")]
    scale = batches[1] / batches[0]
    sums = right / case["rate"] / scale
    if scale != 1 and any(math.isclose(got, right / scale / factor, rel_tol=1e-6) for factor in (1, sums)):
        return ". How many samples does a step of all ranks have, before and after?"
    if sums != 1 and math.isclose(got, right / sums, rel_tol=1e-6):
        return ". By what factor is the sum over ranks larger than their mean?"
    if math.isclose(got, case["rate"] / scale, rel_tol=1e-6):
        return ". A larger batch takes a larger rate"
    sums = "" if sums == 1 else ", and what a sum is larger by than a mean"
    return f". What counts is the batch of all ranks, before and after{sums}"


def check_step(predicted_bytes: object, predicted_all_reduces: object, measured: object) -> float:
    """3 points: bytes and all_reduces of a step of DDP on 3 ranks, and bytes as measured."""
    total = sum(SIZES)
    right = bytes_sent("all_reduce", total, RANKS)
    calls = len(buckets(SIZES, 4 * MiB, 1 * MiB))
    bytes_mistakes = {"is the size of the gradients": total, "is the number of parameters": total / 4,
                      "is the number of elements sent; a float32 has 4 bytes": right / 4,
                      "is half of an all_reduce": right / 2, "is what all ranks send together": right * RANKS}
    call_mistakes = {"is one for each parameter": len(SIZES), "is one for each layer; count bytes": len(SIZES) / 2,
                     "would be right if the first bucket had 4 MiB, too": len(buckets(SIZES, 4 * MiB, 4 * MiB))}
    return score([number_verdict(1, "bytes predicted", predicted_bytes, right, bytes_mistakes),
                  number_verdict(1, "all_reduces predicted", predicted_all_reduces, calls, call_mistakes),
                  Verdict(1, "bytes measured", _wrong_measured(measured, right))], "Predicted and measured agree.")


def _wrong_measured(measured: object, right: float) -> str | None:
    if measured is None or measured is ...:
        return "nothing here yet"
    if type(measured) not in (list, tuple) or len(measured) != RANKS:
        return f"a list of {RANKS} numbers is asked for, one for each rank, not {shown(measured)}"
    if any(type(one) is Wire for one in measured):
        return "these are the counters; the numbers are in each one's .sent"
    for rank, sent in enumerate(map(plain, measured)):
        if not is_number(sent):
            return f"rank {rank} has {shown(sent)}; a number of bytes is asked for"
        if abs(sent - right) < 1:
            return f"{right:,.0f} is the formula; what the kernel has counted has headers, too"
        if not right < sent < 1.05 * right:
            steps = round(sent / right)
            why = f": that is {steps} steps" if steps > 1 and steps * right < sent < 1.05 * steps * right else \
                ". Is the broadcast at construction counted, too?" if sent > right else ""
            return f"rank {rank} has {sent:,.0f}, which is not one step of DDP and some headers{why}"
    return None


PARTING = 5, 3, "2.weight"              # of `careless` as it is given; the check runs it to be sure


def check_parting(program: object, step: object, rank: object, tensor: object) -> float:
    """3 points: the step after which ranks first differ, the odd rank, and the first tensor that differs."""
    if _parting(program) != PARTING:
        raise CheckFailed("careless is not what it was: leave it as it was given")
    name = tensor.removeprefix("parameter ").partition(" [")[0] if type(tensor) is str else tensor
    return score([same_verdict("step", step, PARTING[0], "call first_difference after each step, and count from 0"),
                  same_verdict("rank", rank, PARTING[1], "who is alone in the message?"),
                  same_verdict("tensor", name, PARTING[2], "the name only, as the message has it after 'parameter'")],
                 "Found before any loss curve would show it.")


def _parting(program: object) -> tuple | None:
    """None where the program cannot be run, or never parts."""
    try:
        return launch(_first_parting, 4, program, timeout_s=10).results[0]
    except RankHung:
        raise CheckFailed("careless has not ended here: run the check again") from None
    except Exception:                                   # whatever a changed program does
        return None


def _first_parting(rank: int, world_size: int, program) -> tuple[int, int, str] | None:
    """Where `program`, a generator that yields its model after each step, parts."""
    from helpers.run.measure.fingerprint import first_difference

    for step, model in enumerate(program(rank, world_size)):
        if difference := first_difference(model):
            return step, difference.groups[0][0], difference.what.removeprefix("parameter ")
    return None
