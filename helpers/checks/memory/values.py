"""Checks of exercise set 01: values that a learner has worked out.

Each takes the answer and returns its points.  What is right comes from
`helpers.predict`, which published figures hold to account.
"""
from __future__ import annotations

import re

from helpers.checks.judge.verdict import CheckFailed, Verdict, is_number, number_verdict, plain, score, shown
from helpers.facts.units import GB, GiB
from helpers.predict.memory import recipe, smallest_ranks, state_bytes

ZERO_STAGES_ASKED = {"DDP": 0, "ZeRO-1": 1, "ZeRO-2": 2, "ZeRO-3": 3}
PARAMS, RANKS, BUDGET = 13e9, 8, 24 * GB


def check_table(gb_per_rank: object) -> float:
    """4 points: GB of model state a rank for 13 billion parameters on 8 ranks, one for each of STAGES."""
    answer = _dict_with(gb_per_rank, list(ZERO_STAGES_ASKED))
    verdicts = [number_verdict(1, name, answer[name], state_bytes(PARAMS, RANKS, stage) / GB, _table_mistakes(stage))
                for name, stage in ZERO_STAGES_ASKED.items()]
    return score(verdicts, "Each stage shards more; the parameters come last, and only then does the floor go.")


def _table_mistakes(stage: int) -> dict[str, float]:
    def held(at_stage: int = stage, recipe_name: str = "mixed") -> float:
        return state_bytes(PARAMS, RANKS, at_stage, recipe(recipe_name))

    return {
        "is the size in GiB; GB are asked for": held() / GiB,
        "is the number of bytes; GB are asked for": held(),
        "is the sum over all ranks; one rank's share is asked for": held() * RANKS / GB,
        "is DDP's size; this stage shards something": held(0) / GB,
        "is divided by 8; DDP shards nothing" if stage == 0 else
        "divides everything by 8; this stage keeps some terms whole": held(3) / GB,
        "leaves out the fp32 master copy": held(recipe_name="mixed, no master") / GB,
        "has fp32 gradients; here they are bf16": held(recipe_name="mixed, fp32 gradients") / GB,
        "is stage 1's size": held(1) / GB,
        "is stage 2's size": held(2) / GB,
    }


def check_smallest(smallest: object) -> float:
    """3 points: the smallest number of ranks with less than 24 GB a rank at stage 3, for three recipes."""
    names = ["mixed", "mixed, fp32 gradients", "mixed, no master"]
    answer = _dict_with(smallest, names)
    return score([_smallest_verdict(name, plain(answer[name])) for name in names],
                 "The same card, the same model: the number depends on which terms you keep.")


def _smallest_verdict(name: str, value: object) -> Verdict:
    what, kept = f'"{name}", {recipe(name).bytes_per_param}P', recipe(name)
    if value is None or value is ...:
        return Verdict(1, what, "nothing here yet")
    if not is_number(value):
        return Verdict(1, what, f"a whole number is asked for, not {shown(value)}")
    if value != int(value) or value < 1:
        return Verdict(1, what, f"ranks come whole and from 1 on, not {value:g}")
    value = int(value)
    held, enough = state_bytes(PARAMS, value, 3, kept), smallest_ranks(PARAMS, BUDGET, 3, kept)
    if value < enough:
        return Verdict(1, what, f"on {value} ranks each holds {held / GB:.2f} GB, which is not below 24")
    if value > enough:
        return Verdict(1, what, f"{value} ranks are enough with {held / GB:.2f} GB each, but fewer are, too")
    return Verdict(1, what)


def check_mistake(wrong_term: object, right_gb: object) -> float:
    """2 points: the wrong row in a table of 30 billion parameters under ZeRO-1 on 16 ranks, and the right sum."""
    def held(stage: int) -> float:
        return state_bytes(30e9, 16, stage) / GB

    mistakes = {
        "is what the table says, and that is stage 2's": held(2),
        "is DDP's size; stage 1 shards the optimizer's terms": held(0),
        "shards everything; stage 1 keeps some terms whole": held(3),
        "is the wrong row alone; the sum is asked for": 60,
        "is the size in GiB; GB are asked for": held(1) * GB / GiB,
        "is the number of bytes; GB are asked for": held(1) * GB,
        "is the sum over all ranks; one rank's share is asked for": held(1) * 16,
    }
    return score([_term_verdict(wrong_term), number_verdict(1, "the right sum", right_gb, held(1), mistakes)],
                 "With sharded gradients it is stage 2's table; stage 1 shards only what the optimizer keeps.")


def _term_verdict(term: object) -> Verdict:
    what = "the wrong row"
    if term is None or term is ...:
        return Verdict(1, what, "nothing here yet")
    if not isinstance(term, str):
        return Verdict(1, what, f"the name of a term is asked for, not {shown(term)}")
    words = [word.rstrip("s") for word in re.findall(r"[a-z]+", str(term).lower())]
    if set(words) <= {"gradient", "the", "row", "bf"} and "gradient" in words:
        return Verdict(1, what)
    if "master" in words or words in (["momentum"], ["variance"]):
        return Verdict(1, what, f"{shown(term)} is right: the optimizer keeps it, and stage 1 shards that")
    if words == ["parameter"]:
        return Verdict(1, what, "the parameters are right: stage 1 keeps them whole on every rank")
    return Verdict(1, what, f"{shown(term)} is no row of the table; name one as it stands there")


def _dict_with(answer: object, names: list[str]) -> dict:
    """What the answer has under each name, None where it has nothing."""
    if not isinstance(answer, dict) or not any(dict.__contains__(answer, name) for name in names):
        raise CheckFailed(f"a dict with the keys {', '.join(map(repr, names))} is asked for, not {shown(answer)}")
    return {name: dict.get(answer, name) for name in names}
