"""Checks of exercise set 01: functions that a learner has written.

The first cases explain themselves: with the bytes of the terms set to 1, 10,
100, ... each digit of the answer says what became of one term.
"""
from __future__ import annotations

import math

from helpers.checks.judge.other_process import Raised, answers
from helpers.checks.judge.seed import draws_for
from helpers.checks.judge.verdict import CheckFailed, Verdict, is_number, score, shown, unseen
from helpers.facts.units import GB, GiB

TERMS = ("parameter", "gradient", "master", "momentum", "variance")
SHARDED_FROM = (3, 2, 1, 1, 1)
DIGITS = {term: 10**place for place, term in enumerate(TERMS)}
MIXED = {"parameter": 2, "gradient": 2, "master": 4, "momentum": 4, "variance": 4}


def check_bytes_per_rank(function: object) -> float:
    """2 points: the right terms are sharded at each stage; the smallest cases."""
    cases = [{"params": 2, "ranks": 2, "stage": stage, "recipe": DIGITS} for stage in range(4)]
    verdicts = [Verdict(0.5, f"stage {case['stage']}", _digits_wrong(case["stage"], got))
                for case, got in zip(cases, answers(function, cases), strict=True)]
    return score(verdicts, "Each term is whole before its stage and sharded from it on.")


def _digits_wrong(stage: int, got: object) -> str | None:
    if isinstance(got, Raised):
        return f"the function {got.words}"
    expected = sum((1 if stage >= first else 2) * DIGITS[term] for term, first in zip(TERMS, SHARDED_FROM, strict=True))
    if is_number(got) and got == expected:
        return None
    case = "2 parameters on 2 ranks, terms of 1, 10, 100, 1000 and 10000 bytes"
    if not is_number(got):
        return f"{case}: expected {expected}, got {shown(got)}"
    if math.isclose(got * GB, expected, rel_tol=1e-6):
        return f"{case}: expected {expected}, got {got:.12g}: bytes are asked for, not GB"
    return (f"{case}: expected {expected}, got {got:.12g}. "
            "Digits from the right are parameter, gradient, master, momentum, variance; 2 is whole, 1 is sharded.")


@unseen
def check_bytes_per_rank_unseen(function: object) -> float:
    """2 points: unseen published figures, and recipes with other terms."""
    published = [("7.5 billion parameters on 64 ranks", 75 * 10**8, 64, (120, 31.4, 16.6, 1.88)),     # ZeRO, figure 1
                 ("1 trillion parameters on 1024 ranks", 10**12, 1024, (16000, 4011, 2013, 15.6))]    # ZeRO, table 1
    cases = [{"params": params, "ranks": ranks, "stage": stage, "recipe": MIXED}
             for _, params, ranks, _ in published for stage in range(4)]
    figures = [(f"{name}, stage {stage}", figure) for name, _, _, row in published for stage, figure in enumerate(row)]
    others = [({"parameter": 4, "gradient": 4, "momentum": 4}, 1, 8 + 4 / 3),                     # bytes a parameter
              ({"parameter": 4, "gradient": 4}, 2, 4 + 4 / 3),
              ({"parameter": 2, "gradient": 4, "master": 4, "momentum": 4, "average": 4}, 1, 6 + 12 / 3)]
    odd = [{"params": 5, "ranks": 3, "stage": stage, "recipe": kept} for kept, stage, _ in others]
    drawn = _drawn_recipes()
    got = answers(function, cases + odd + drawn)
    wrong = [_far(name, value, figure * GB, 0.006)
             for (name, figure), value in zip(figures, got[:len(cases)], strict=True)]
    other = [_far(f"5 parameters on 3 ranks at stage {stage}, recipe {kept}", value, 5 * each, 1e-9)
             for (kept, stage, each), value in zip(others, got[len(cases):-len(drawn)], strict=True)]
    other += [_far(f"{case['params']:,} parameters on {case['ranks']} ranks at stage {case['stage']}, recipe "
                   f"{case['recipe']}", value, _bytes_per_rank(**case), 1e-6)
              for case, value in zip(drawn, got[-len(drawn):], strict=True)]
    return score([Verdict(1, "the ZeRO paper's figures", next(filter(None, wrong), None)),
                  Verdict(1, "other recipes", next(filter(None, other), None))],
                 "Your function gives the figures of the ZeRO paper.")


def _drawn_recipes() -> list[dict]:
    """Cases that nobody knows who has not the seed: any terms, an unknown one among them, any number of ranks."""
    draws = draws_for("bytes_per_rank")
    return [{"params": draws.randint(10**6, 10**11), "ranks": draws.randint(3, 999), "stage": stage, "recipe": {
        term: draws.choice((1, 2, 4, 8)) for term in ["average", *draws.sample(TERMS, draws.randint(2, 5))]}}
        for stage in range(4)]


def _bytes_per_rank(params: int, ranks: int, stage: int, recipe: dict[str, int]) -> float:
    first = dict(zip(TERMS, SHARDED_FROM, strict=True))
    return sum(params * each / (ranks if stage >= first.get(term, 1) else 1) for term, each in recipe.items())


def _far(what: str, got: object, expected: float, close: float) -> str | None:
    if isinstance(got, Raised):
        return f"{what}: the function {got.words}"
    if is_number(got) and math.isclose(got, expected, rel_tol=close):
        return None
    return f"{what}: expected {expected:,.6g} bytes, got {f'{got:,.6g}' if is_number(got) else shown(got)}"


def check_most_layers(function: object) -> float:
    """1 point: small cases that show what was forgotten."""
    one = {"card_bytes": 99, "ranks": 1, "layer_params": 1}
    two = one | {"ranks": 2}
    cases = [("nothing but layers: 16 L + 4 <= 99", one, 5),
             ("the state is sharded, the gathered layer is not: 16 L / 2 + 4 <= 99", two, 11),
             ("other parameters are sharded, too: 16 (L + 2) / 2 + 4 <= 99", two | {"other_params": 2}, 9),
             ("the reserve is not sharded: 16 L / 2 + 4 + 40 <= 99", two | {"reserve_bytes": 40}, 6),
             ("an exact fit fits: 16 L + 4 <= 36", one | {"card_bytes": 36}, 2),
             ("not even one layer fits: 16 L + 4 + 40 <= 3", one | {"card_bytes": 3, "reserve_bytes": 40}, 0)]
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
    draws = draws_for("most_layers")
    for _ in range(4):
        case = {"card_bytes": draws.randint(20, 200) * GiB + draws.randint(0, 10**9), "ranks": draws.randint(2, 600),
                "layer_params": draws.randint(10**8, 10**9), "other_params": draws.randint(0, 10**10),
                "reserve_bytes": draws.randint(0, 10 * GiB)}
        cases.append(("any card, any model", case, _most_layers(**case)))
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
            kind = "" if type(got) is int else "; a whole number (int) is asked for"
            raise CheckFailed(f"{what}\n  called with {case}\n  expected {expected}\n  got      {shown(got)}{kind}")
    return score([Verdict(1, f"{len(cases)} cases")], established)
