"""Checks of exercise set 04: the proof of a partition, and a script with a fault."""
from __future__ import annotations

from helpers.checks.judge import forbidden
from helpers.checks.judge.other_process import Raised, in_other_process, words_for
from helpers.checks.judge.verdict import CheckFailed, Verdict, plain, same_verdict, score, shown, unseen
from helpers.facts.data_sharding import Sampling
from helpers.run.data_sharding import check_sampling
from helpers.run.launch import RankHung, launch

PARTS = [([[0, 3], [1, 2]], 4), ([[2], [0]], 3), ([[0, 1], [1, 2]], 3), ([[0, 0], [3]], 3), ([[], []], 2)]
MORE_PARTS = [([[0, 4], [1, 2, 3]], 5), ([[0, 5], [1]], 2), ([[-1, 0]], 1), ([[1], [1], [1]], 2), ([], 0), ([[7]], 8)]


def check_proof(function: object) -> float:
    """1 point: what is missing, and what is drawn twice."""
    return score([Verdict(1, "five divisions", _wrong_proof(function, PARTS))], "An empty answer is the proof.")


@unseen
def check_proof_unseen(function: object) -> float:
    """1 point: unknown samples, empty parts, no samples."""
    return score([Verdict(1, "other divisions", _wrong_proof(function, MORE_PARTS))], "It holds anywhere.")


def _wrong_proof(function: object, cases: list[tuple[list, int]]) -> str | None:
    asked = [{"parts": parts, "num_samples": size} for parts, size in cases]
    got = in_other_process(_times, function, asked, forbidden.SAMPLERS)
    for (parts, size), answer in zip(cases, got, strict=True):
        if isinstance(answer, Raised):
            return answer.told_of(f"parts {parts} of {size} samples:")
        drawn = [index for part in parts for index in part]
        right = {index: drawn.count(index) for index in {*range(size), *drawn}
                 if drawn.count(index) != 1 or not 0 <= index < size}
        if answer != right:
            return f"parts {parts} of {size} samples: {shown(answer)}, expected {right}"
    return None


def _times(function, case: dict) -> dict[int, int] | Raised:
    try:
        value = function(**case)
        if not isinstance(value, dict):
            return Raised("returned None: is there a return?" if value is None else
                          f"returned {shown(value)}; a dict is asked for")
        times = [(plain(key), plain(number)) for key, number in dict.items(value)]
    except BaseException as error:              # also what would end this process
        return Raised(words_for(error))
    if not all(type(one) is int for pair in times for one in pair):
        return Raised(f"returned {shown(value)}; whole numbers are asked for")
    return dict(times)


SCRIPT = "d", "overlap", 351            # of `scripts` as they are given; the check runs them to be sure


def check_script(scripts: object, wrong: object, kind: object, never_drawn: object) -> float:
    """3 points: which of the loaders is wrong, how, and how many samples it never draws in epoch 0."""
    if _found_in(scripts) != SCRIPT:
        raise CheckFailed("scripts, or samples, which they use, are not what they were: leave them as they were given")
    name, fault, missing = SCRIPT
    return score([
        same_verdict("the script", wrong, name,
                     "which report has a FAULT, with before_epoch=, the second thing that a script returns?"),
        same_verdict("the kind of fault", kind, fault, "as the report names it, between FAULT and the colon"),
        same_verdict("never drawn", never_drawn, missing, "the report counts what no rank draws, of all 1003"),
    ], "No message, no other loss curve, and it is wrong.")


def _found_in(scripts: object) -> tuple | None:
    """None where there is not one fault among the scripts, or they cannot be run."""
    try:
        reports = launch(_reports, 4, dict(scripts), timeout_s=10).results[0]
        ((name, report),) = [(name, report) for name, report in reports.items() if report.faults]
        (fault,) = report.faults
        return name, fault.kind, report.num_missing
    except RankHung:
        raise CheckFailed("the scripts have not ended here: run the check again") from None
    except Exception:                                   # whatever changed scripts do
        return None


def _reports(rank: int, world_size: int, scripts: dict) -> dict[str, Sampling]:
    return {name: check_sampling(loader, before_epoch=before_epoch)
            for name, (loader, before_epoch) in ((name, make(rank, world_size)) for name, make in scripts.items())}
