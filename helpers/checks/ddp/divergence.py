"""Checks of exercise set 03: the first step after which ranks are no longer one model."""
from __future__ import annotations

from helpers.checks.judge.verdict import CheckFailed, same_verdict, score
from helpers.run.launch import RankHung, launch

EXPECTED = 5, 3, "2.weight"              # of `careless` as it is given; the check runs it to be sure


def check_divergence(program: object, step: object, rank: object, tensor: object) -> float:
    """3 points: the step after which ranks first differ, the odd rank, and the first tensor that differs."""
    if _divergence(program) != EXPECTED:
        raise CheckFailed("careless is not what it was: leave it as it was given")
    name = tensor.removeprefix("parameter ").partition(" [")[0] if type(tensor) is str else tensor
    return score([same_verdict("step", step, EXPECTED[0], "call first_difference after each step, and count from 0"),
                  same_verdict("rank", rank, EXPECTED[1], "who is alone in the message?"),
                  same_verdict("tensor", name, EXPECTED[2], "the name only, as the message has it after 'parameter'")],
                 "Found before any loss curve would show it.")


def _divergence(program: object) -> tuple | None:
    """None where the program cannot be run, or never diverges."""
    try:
        return launch(_first_divergence, 4, program, timeout_s=10).results[0]
    except RankHung:
        raise CheckFailed("careless has not ended here: run the check again") from None
    except Exception:                                   # whatever a changed program does
        return None


def _first_divergence(rank: int, world_size: int, program) -> tuple[int, int, str] | None:
    """Where `program`, a generator that yields its model after each step, diverges."""
    from helpers.run.measure.fingerprint import first_difference

    for step, model in enumerate(program(rank, world_size)):
        if difference := first_difference(model):
            return step, difference.groups[0][0], difference.what.removeprefix("parameter ")
    return None
