"""Checks of exercise set 09: blocks dealt to stages so that the slowest stage is as fast as can be.

The oracle tries, stage by stage, every number of blocks; no rule is taken from any solution.
"""
from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import cache

from helpers.checks.judge import forbidden
from helpers.checks.judge.other_process import Raised, in_other_process, words_for
from helpers.checks.judge.verdict import Verdict, first_wrong, plain, score, shown, unseen
from helpers.checks.pipeline.orders import LARGEST, told


@dataclass(frozen=True)
class BalanceCase:
    """What `balance` is called with."""

    num_blocks: int
    num_stages: int
    block_s: float = 1.0
    embedding_s: float = 0.0
    output_s: float = 0.0

    def times(self, blocks: tuple[int, ...]) -> list[float]:
        """Of each stage."""
        last = self.num_stages - 1
        return [self.block_s * count + self.embedding_s * (stage == 0) + self.output_s * (stage == last)
                for stage, count in enumerate(blocks)]

    def __str__(self) -> str:
        return (f"balance({self.num_blocks}, {self.num_stages}, block_s={self.block_s:g}, "
                f"embedding_s={self.embedding_s:g}, output_s={self.output_s:g})")


OUTPUT = BalanceCase(7, 3, output_s=2.0), BalanceCase(16, 4, 2.0, output_s=7.0)
BOTH = (BalanceCase(9, 3, 1.0, 2.0, 4.0), BalanceCase(4, 3, 2.0, 2.5, 5.0), BalanceCase(6, 3, 2.0, 2.5, 5.0),
        BalanceCase(6, 4, 0.1, 0.3, 0.05), BalanceCase(2, 5, 1.0, 0.25, 0.125))
_draw = random.Random(9)
OTHERS = (BalanceCase(5, 1, 1.0, 0.5, 2.0), BalanceCase(2, 4), BalanceCase(6, 3, 1.0, 0.0, 9.0),
          BalanceCase(32, 4, 0.0021, 0.0001, 0.0063),
          BalanceCase(7, 3, 2.0, 1.5, 5.0), BalanceCase(5, 3, 2.0, 2.5, 3.0),
          *(BalanceCase(_draw.randint(1, 40), _draw.randint(2, 8),
                        *(_draw.choice((0.5, 1.0, 1.7, 3.0)) for _ in range(3)))
            for _ in range(6)))


def check_balance(function: object) -> float:
    """3 points: numbers of blocks that add up; the slowest stage with an output layer, and with both."""
    given = _given(function, OUTPUT + BOTH)
    odd = first_wrong(_odd(model, answer) for model, answer in given.items())
    output, both = ("judged once all blocks are dealt" if any(_odd(model, given[model]) for model in models) else
                    first_wrong(_slow(model, given) for model in models) for models in (OUTPUT, BOTH))
    return score([Verdict(1, "blocks of each stage, all of them", odd),
                  Verdict(1, "the slowest stage, with an output layer", output),
                  Verdict(1, "the slowest stage, with an embedding, too", both)],
                 "No stage is slower than it must be.")


@unseen
def check_balance_unseen(function: object) -> float:
    """1 point: other models."""
    given = _given(function, OTHERS)
    wrong = first_wrong(_odd(model, given[model]) or _slow(model, given) for model in given)
    return score([Verdict(1, "other models", wrong)], "It holds for any model.")


def _given(function: object, models: tuple[BalanceCase, ...]) -> dict[BalanceCase, object]:
    given = told(in_other_process(_ask, function, [asdict(model) for model in models], forbidden.SCHEDULES))
    return dict(zip(models, given, strict=True))


def _ask(function: Callable, case: dict) -> object:
    try:
        answer = function(**case)
        if answer is None:
            return Raised("returned None: is there a return?")
        several = isinstance(answer, (list, tuple)) or type(answer).__name__ in ("ndarray", "Tensor")
        return [_plain(one) for one in answer] if several else Raised(
            f"returned {shown(answer)}; a list with the number of blocks of each stage is asked for")
    except BaseException as error:              # also what would end this process
        return Raised(words_for(error))


def _plain(value: object) -> object:
    value = plain(value)
    return value if type(value) in (type(None), int, float, bool, str) else Raised(shown(value))


def _odd(model: BalanceCase, answer: object) -> str | None:
    """Why the answer is no way to deal the blocks."""
    if isinstance(answer, Raised):
        return f"{model} {answer.words}"
    if len(answer) != model.num_stages:
        return f"{model}: a number for each of {model.num_stages} stages is asked for, not {len(answer)}"
    wrong = next((count for count in answer if type(count) is not int or not 0 <= count <= LARGEST), None)
    if wrong is not None:
        value = wrong.words if isinstance(wrong, Raised) else shown(wrong)
        return f"{model}: {value} is no number of blocks: whole numbers from 0 to {model.num_blocks} are asked for"
    if sum(answer) != model.num_blocks:
        return f"{model}: {answer} are {sum(answer)} blocks, and there are {model.num_blocks}"
    return None


def _slow(model: BalanceCase, given: dict[BalanceCase, object]) -> str | None:
    answer = given[model]
    times, least = model.times(answer), _least(model)
    if _equal(max(times), least):
        return None
    slowest, fastest = times.index(max(times)), times.index(min(times))
    one = f"stage {slowest} may have no block" if answer[slowest] == 1 else None
    why = one or _mistaken(given) or _mistaken({model: answer}) or f"stage {fastest} has room for one of its blocks"
    return (f"{model}: with {answer} stages take {', '.join(f'{time:g}' for time in times)}; stage {slowest} is the "
            f"slowest, with {max(times):g}, expected {least:g}: {why}")


@cache
def _least(model: BalanceCase) -> float:
    """The time of the slowest stage at best: every number of blocks is tried for the first, then for the rest."""
    @cache
    def best(stage: int, left: int) -> float:
        fixed = model.embedding_s * (stage == 0) + model.output_s * (stage == model.num_stages - 1)
        if stage == model.num_stages - 1:
            return fixed + model.block_s * left
        return min(max(fixed + model.block_s * count, best(stage + 1, left - count)) for count in range(left + 1))

    return best(0, model.num_blocks)


def _equal(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=1e-9)


def _in_blocks(model: BalanceCase, rounded: Callable[[float], int]) -> BalanceCase:
    """Times of embedding and output layer as whole numbers of blocks."""
    embedding, output = (float(rounded(round(time / model.block_s, 9))) for time in (model.embedding_s, model.output_s))
    return replace(model, block_s=1.0, embedding_s=embedding, output_s=output)


ROUNDED = "embedding and output layer take no whole number of blocks, and need not be rounded to one"
MISTAKES: tuple[tuple[str, Callable[[BalanceCase], BalanceCase]], ...] = (
    ("that would be best without the embedding", lambda model: replace(model, embedding_s=0.0)),
    ("that would be best without the output layer", lambda model: replace(model, output_s=0.0)),
    ("that would be best if the output layer were on the first stage and the embedding on the last",
     lambda model: replace(model, embedding_s=model.output_s, output_s=model.embedding_s)),
    ("that would be best if both were on the first stage",
     lambda model: replace(model, embedding_s=model.embedding_s + model.output_s, output_s=0.0)),
    ("that would be best if both were on the last stage",
     lambda model: replace(model, embedding_s=0.0, output_s=model.embedding_s + model.output_s)),
    ("that would be best if embedding and output layer took as long as a block each",
     lambda model: replace(model, embedding_s=model.block_s, output_s=model.block_s)),
    ("that would be best if the output layer took as long as a block",
     lambda model: replace(model, output_s=model.block_s)),
    (ROUNDED, lambda model: _in_blocks(model, math.floor)),
    (ROUNDED, lambda model: _in_blocks(model, math.ceil)),
    ("that would be best if times were in blocks: how long does one take?", lambda model: replace(model, block_s=1.0)))


def _mistaken(given: dict[BalanceCase, object]) -> str | None:
    """What was taken for the times, if that explains every answer."""
    if any(_odd(model, answer) for model, answer in given.items()):
        return None
    if all(max(answer) - min(answer) <= 1 for answer in given.values()):
        return "equal numbers of blocks; stages should take equal time"
    if len(given) > 1 and all(max(answer) == model.num_blocks for model, answer in given.items()):
        return "the sum is the same however blocks are dealt; it is the slowest stage that counts"
    return next((words for words, taken in MISTAKES if all(
        _equal(max(taken(model).times(answer)), _least(taken(model))) for model, answer in given.items())), None)
