"""Checks of exercise set 03: the learning rate that keeps the steps of a job when its ranks or batches change."""
from __future__ import annotations

import math

from helpers.checks.judge.other_process import Raised, answers
from helpers.checks.judge.verdict import Verdict, is_number, score, shown, unseen


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
            return got.told_of(f"{_said(case)}:")
        if not is_number(got):
            return f"a rate is asked for, not {shown(got)}"
        if not math.isclose(got, right, rel_tol=1e-6):
            return f"{_said(case)}: {got:.4g}, expected {right:.4g}{_known_mistake(got, right, case)}"
    return None


def _said(case: dict) -> str:
    before, after = ("{world_size} x {batch_size} samples, {reduction}".format(**case[when])
                     for when in ("before", "after"))
    return f"rate {case['rate']:g}, from {before} to {after}"


def _known_mistake(got: float, right: float, case: dict) -> str:
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
