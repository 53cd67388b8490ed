"""Checks of exercise set 01: functions and rank programs that a learner has written.

The first cases explain themselves: with the bytes of the terms set to 1, 10,
100, ... each digit of the answer says what became of one term.
"""
from __future__ import annotations

import math

from helpers.checks.elsewhere import Raised, answers
from helpers.checks.verdict import CheckFailed, Verdict, is_number, number_verdict, score, unseen
from helpers.facts.units import GB, GiB, MiB
from helpers.predict.memory import recipe, state_bytes
from helpers.run.launch import RankFailed, RankHung, launch

TERMS = ("parameter", "gradient", "master", "momentum", "variance")
SHARDED_FROM = (3, 2, 1, 1, 1)
DIGITS = {term: 10**place for place, term in enumerate(TERMS)}
MIXED = {"parameter": 2, "gradient": 2, "master": 4, "momentum": 4, "variance": 4}


def check_bytes_per_rank(function: object) -> float:
    """2 points: the right terms are sharded at each stage; the smallest cases."""
    cases = [{"params": 2, "ranks": 2, "stage": stage, "recipe": DIGITS} for stage in range(4)]
    verdicts = [Verdict(0.5, f"stage {case['stage']}", _digits_wrong(case["stage"], got))
                for case, got in zip(cases, answers(function, cases), strict=True)]
    return score(verdicts, "Each term is whole before its stage and shared from it on.")


def _digits_wrong(stage: int, got: object) -> str:
    if isinstance(got, Raised):
        return got.words
    expected = sum((1 if stage >= first else 2) * DIGITS[term] for term, first in zip(TERMS, SHARDED_FROM, strict=True))
    if is_number(got) and got == expected:
        return ""
    shown = f"{got:g}" if is_number(got) else repr(got)
    return (f"2 parameters on 2 ranks, terms of 1, 10, 100, 1000 and 10000 bytes: expected {expected}, got {shown}. "
            "Read the digits from the right, parameter, gradient, master, momentum, variance: 2 is whole, 1 is shared.")


@unseen
def check_bytes_per_rank_unseen(function: object) -> float:
    """2 points: unseen published figures, and recipes with other terms."""
    published = [("7.5 billion parameters on 64 ranks", 7.5e9, 64, (120, 31.4, 16.6, 1.88)),      # ZeRO, figure 1
                 ("1 trillion parameters on 1024 ranks", 1e12, 1024, (16000, 4011, 2013, 15.6))]  # ZeRO, table 1
    cases = [{"params": params, "ranks": ranks, "stage": stage, "recipe": MIXED}
             for _, params, ranks, _ in published for stage in range(4)]
    figures = [(f"{name}, stage {stage}", figure) for name, _, _, row in published for stage, figure in enumerate(row)]
    others = [({"parameter": 4, "gradient": 4, "momentum": 4}, 1, 8 + 4 / 3),                     # bytes a parameter
              ({"parameter": 4, "gradient": 4}, 2, 4 + 4 / 3),
              ({"parameter": 2, "gradient": 4, "master": 4, "momentum": 4, "variance": 4}, 1, 6 + 12 / 3)]
    odd = [{"params": 5, "ranks": 3, "stage": stage, "recipe": kept} for kept, stage, _ in others]
    got = answers(function, cases + odd)
    wrong = [_far(name, value, figure * GB, 0.006)
             for (name, figure), value in zip(figures, got[:len(cases)], strict=True)]
    other = [_far(f"5 parameters on 3 ranks at stage {stage}, recipe {kept}", value, 5 * each, 1e-9)
             for (kept, stage, each), value in zip(others, got[len(cases):], strict=True)]
    return score([Verdict(1, "the ZeRO paper's figures", next(filter(None, wrong), "")),
                  Verdict(1, "other recipes", next(filter(None, other), ""))],
                 "Your function gives the figures of the ZeRO paper.")


def _far(what: str, got: object, expected: float, close: float) -> str:
    if isinstance(got, Raised):
        return f"{what}: the function {got.words}"
    if is_number(got) and math.isclose(got, expected, rel_tol=close):
        return ""
    return f"{what}: expected {expected:,.6g} bytes, got {got:,.6g}" if is_number(got) else f"{what}: got {got!r}"


def check_most_layers(function: object) -> float:
    """1 point: small cases that show what was forgotten."""
    cases = [("nothing but layers: 16 L + 4 <= 100", {"card_bytes": 100, "ranks": 1, "layer_params": 1}, 6),
             ("the state is shared: 16 L / 2 + 4 <= 100", {"card_bytes": 100, "ranks": 2, "layer_params": 1}, 12),
             ("an exact fit fits: 16 L + 4 <= 36", {"card_bytes": 36, "ranks": 1, "layer_params": 1}, 2),
             ("other parameters count", {"card_bytes": 100, "ranks": 1, "layer_params": 1, "other_params": 2}, 4),
             ("the reserve stays free", {"card_bytes": 100, "ranks": 1, "layer_params": 1, "reserve_bytes": 40}, 3),
             ("not even one layer fits", {"card_bytes": 10, "ranks": 1, "layer_params": 1}, 0)]
    return _layers_score(function, cases, "Buffers and reserve do not shrink with more ranks, the state does.")


@unseen
def check_most_layers_unseen(function: object) -> float:
    """1 point: models and cards of real size, against trying every number of layers."""
    block, embeddings = 855_654_400, 2 * 128_256 * 8192           # Llama 3.1 70B, arXiv:2407.21783, table 3
    sizes = [(80 * GiB, 64, 20 * GiB), (80 * GiB, 16, 10 * GiB), (24 * GiB, 8, 4 * GiB), (24 * GiB, 256, 4 * GiB)]
    cases = []
    for card, ranks, reserve in sizes:
        case = {"card_bytes": card, "ranks": ranks, "layer_params": block, "other_params": embeddings,
                "reserve_bytes": reserve}
        cases.append((f"card {card // GiB} GiB, {ranks} ranks, Llama 3.1 70B's blocks", case, _most_layers(**case)))
    return _layers_score(function, cases, "Right for cards and models of real size.")


def _most_layers(card_bytes: int, ranks: int, layer_params: int, other_params: int, reserve_bytes: int) -> int:
    layers = 0
    while 16 * ((layers + 1) * layer_params + other_params) / ranks + 4 * layer_params + reserve_bytes <= card_bytes:
        layers += 1
    return layers


def _layers_score(function: object, cases: list[tuple], established: str) -> float:
    full = [{"other_params": 0, "reserve_bytes": 0} | case for _, case, _ in cases]
    for (what, _, expected), case, got in zip(cases, full, answers(function, full), strict=True):
        if isinstance(got, Raised):
            raise CheckFailed(f"{what}: the function {got.words}\n  called with {case}")
        if type(got) is not int or got != expected:
            kind = "" if type(got) is int else f" of type {type(got).__name__}; a whole number (int) is asked for"
            raise CheckFailed(f"{what}\n  called with {case}\n  expected {expected}\n  got      {got!r}{kind}")
    return score([Verdict(1, f"{len(cases)} cases")], established)


def check_measured(measure: object, predicted_mib: object) -> float:
    """2 points: a prediction for two ranks, and a program that measures it there."""
    params, sgd = 16 * 512**2, recipe("fp32, SGD with momentum")
    right = state_bytes(params, 2, 3, sgd) / MiB
    mistakes = {"is DDP's size; FSDP shares it between two ranks": state_bytes(params, 1, 0, sgd) / MiB,
                "has Adam's variance; SGD keeps a momentum only": state_bytes(params, 2, 3, recipe("fp32")) / MiB,
                "leaves out the momentum": state_bytes(params, 2, 3, recipe("fp32, plain SGD")) / MiB,
                "is the number of bytes; MiB are asked for": right * MiB,
                "is the size in MB; MiB are asked for": right * MiB / 1e6,
                "is the mixed-precision size; this model is fp32": state_bytes(params, 2, 3) / MiB,
                "is the parameters' share alone": 4 * params / 2 / MiB}
    return score([number_verdict(1, "predicted", predicted_mib, right, mistakes),
                  Verdict(1, "measured on 2 ranks", _measured_wrong(measure, 2))], "Prediction and measurement agree.")


@unseen
def check_measured_unseen(measure: object) -> float:
    """1 point: the same program on other numbers of ranks."""
    return score([Verdict(0.5, f"measured on {n} ranks", _measured_wrong(measure, n)) for n in (1, 4)],
                 "The program measures, whatever the number of ranks.")


def _measured_wrong(measure: object, world_size: int) -> str:
    """What is wrong with a program that should measure SGD with momentum under FSDP on `world_size` ranks."""
    try:
        run = launch(measure, world_size, timeout_s=30)
    except (RankFailed, RankHung, ValueError) as error:
        return str(error)
    params = 16 * 512**2
    expected = state_bytes(params, world_size, 3, recipe("fp32, SGD with momentum"))
    for rank, (got, metered) in enumerate(zip(run.results, run.memory, strict=True)):
        if not is_number(got):
            return f"rank {rank} returned a {type(got).__name__}; the number of bytes is asked for"
        if got != metered.tensors:
            return (f"rank {rank} returned {got:,.0f}, but its memory() block measured {metered.tensors:,}: "
                    "return that measurement's tensors")
        if not math.isclose(got, expected, rel_tol=0.01):
            return (f"rank {rank} holds {got / MiB:.2f} MiB, expected {expected / MiB:.2f}: "
                    + _why(got, params, world_size))
    gathered = {s.rank for s in run.trace if s.kind.startswith("all_gather")}
    return "" if len(gathered) == world_size or world_size == 1 else "no parameters were gathered: is it sharded?"


def _why(got: float, params: int, ranks: int) -> str:
    known = {"that is DDP's size, the model is not sharded": 12 * params,
             "the momentum is missing: has the optimizer taken its step inside the block?": 8 * params / ranks,
             "that is Adam; SGD with momentum is asked for": 16 * params / ranks,
             "only the parameters are there: no backward pass?": 4 * params / ranks}
    return next((words for words, size in known.items() if math.isclose(got, size, rel_tol=0.01)),
                "is it mlp(width=512, depth=16), each block and the whole under fully_shard, one step of SGD?")
