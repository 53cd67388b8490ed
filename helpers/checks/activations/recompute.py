"""Checks of exercise set 07: the least recomputation that fits, against all splits and against bytes of real blocks."""
from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cache, cached_property

import torch
from torch import nn

from helpers.checks.judge import forbidden
from helpers.checks.judge.other_process import Raised, in_other_process, words_for
from helpers.checks.judge.verdict import Verdict, first_wrong, plain, score, shown, unseen
from helpers.predict.activations import RECOMPUTES, BlockShape, block_bytes
from helpers.predict.flops import Shape, recomputed_flops
from helpers.run.measure.saved_tensors import saved
from helpers.run.models import Block as RealBlock

STATISTICS = 1.01               # of the budget: what real norms keep besides, at these widths
Split = tuple[int, int, int]    # blocks that recompute nothing, selectively, in full


@dataclass(frozen=True)
class PlanCase:
    """What `plan` is called with; the budget is a share of what all blocks keep without recomputation."""

    layers: int = 8
    seq: int = 128
    batch: int = 2
    hidden: int = 64
    heads: int = 8
    share: float = 1.0

    def costs(self, dropout: bool = False, element_bytes: int = 2, selective: int = 1, full: int = 1,
              squares: int = 1, inputs: bool = True) -> list[tuple[float, float]]:
        """Bytes kept and FLOPs run again of a block, for each way to recompute.

        selective, full         how often attention's core counts as run again
        squares                 how many tensors of the probabilities' size attention keeps
        inputs                  whether a block that recomputes in full keeps its input
        """
        block = BlockShape(self.seq, self.batch, self.hidden, self.heads, element_bytes, dropout)
        kept = [block_bytes(block, recompute=how) for how in RECOMPUTES]
        core, forward = (recomputed_flops(Shape(1, self.hidden, self.seq), self.batch, how) for how in RECOMPUTES[1:])
        return [(kept[0] + (squares - 1) * (kept[0] - kept[1]), 0), (kept[1], selective * core),
                (kept[2] * inputs, forward + (full - 1) * core)]

    @cached_property
    def budget_bytes(self) -> int:
        """Bytes that all blocks together may keep: `share` of what they keep without recomputation."""
        return int(self.share * self.layers * self.costs()[0][0])

    @property
    def arguments(self) -> dict[str, int]:
        """What `plan` is called with, by name."""
        return {name: value for name, value in asdict(self).items() if name != "share"} | {
            "budget_bytes": self.budget_bytes}

    def __str__(self) -> str:
        return (f"{self.layers} blocks, {self.batch} x {self.seq} tokens, hidden {self.hidden}, heads {self.heads}, "
                f"budget {self.budget_bytes:,} bytes")


PLAIN, SELECTIVE = (PlanCase(), PlanCase(share=0.02)), (PlanCase(share=0.92), PlanCase(share=0.51))
MIXED = PlanCase(share=0.44), PlanCase(8, 256, 1, 32, 4, 0.55), PlanCase(12, 64, 2, 64, 4, 0.79)
OTHERS = (PlanCase(heads=1, share=0.44), PlanCase(8, 128, 2, 32, 2, 0.46), PlanCase(6, 32, 4, 128, 2, 0.58),
          PlanCase(12, 64, 2, 64, 4, 0.65), PlanCase(40, 2048, 1, 5120, 40, 0.3), PlanCase(1, 64, 1, 32, 4, 0.7),
          PlanCase(5, 64, 1, 32, 4, 0.03))


def check_plan(function: object) -> float:
    """3 points: where nothing is to be done or nothing helps, where selective is enough, where both are needed."""
    wrong = _wrongs(function, (*PLAIN, *SELECTIVE, *MIXED))
    return score([Verdict(1, what, first_wrong(wrong[model] for model in models)) for what, models in (
        ("everything fits, or nothing does", PLAIN), ("selective recomputation is enough", SELECTIVE),
        ("it takes a mixture", MIXED))], "It fits, and no FLOP is wasted.")


@unseen
def check_plan_unseen(function: object) -> float:
    """1 point: other models and budgets."""
    return score([Verdict(1, "other models and budgets", first_wrong(_wrongs(function, OTHERS).values()))],
                 "It fits anywhere.")


def _wrongs(function: object, models: tuple[PlanCase, ...]) -> dict[PlanCase, str | None]:
    def ask(function, arguments: dict) -> object:       # inside, so that it travels without this module's calculators
        try:
            answer = function(**arguments)
            return tuple(map(plain, answer)) if isinstance(answer, (tuple, list)) else plain(answer)
        except BaseException as error:                  # also what would end this process
            return Raised(words_for(error))

    asked = in_other_process(ask, function, [model.arguments for model in models], forbidden.FORMULAS)
    given = dict(zip(models, asked, strict=True))
    miscounted = _miscounted(given)
    return {model: _wrong(model, answer, miscounted) for model, answer in given.items()}


@cache
def _best(model: PlanCase, spare: str = "", **counted) -> tuple[float, Split] | None:
    """Fewest FLOPs, and a split that has them; every split is tried.  None if none fits and leaves `spare` free."""
    kept, again = zip(*model.costs(**counted), strict=True)
    splits = ((n, m, model.layers - n - m) for n in range(model.layers + 1) for m in range(model.layers + 1 - n))
    return min(((_sum(split, again), split) for split in splits if _fits(model, split, kept, spare)), default=None)


def _fits(model: PlanCase, split: Split, kept: tuple[float, ...], spare: str) -> bool:
    """Besides a "byte", a "block", or what comes "back" in backward."""
    back = max((kept[0] - one for one, number in zip(kept, split, strict=True) if number), default=0)
    free = {"": 0, "byte": 1, "block": kept[0], "back": back}[spare]
    return _sum(split, kept) + free <= model.budget_bytes


def _sum(split: Split, each: tuple[float, ...]) -> float:
    return sum(number * one for number, one in zip(split, each, strict=True))


def _wrong(model: PlanCase, answer: object, miscounted: str) -> str | None:
    best = _best(model)
    if isinstance(answer, Raised):
        return answer.told_of(f"{model}: the function")
    if answer is None:
        return best and f"{model}: None, but something does fit{miscounted or '. (Is there a return?)'}"
    if not _is_split(answer):
        return f"{model}: three numbers of blocks or None are asked for, not {shown(answer)}"
    if sum(answer) != model.layers:
        return f"{model}: {answer} are {sum(answer)} blocks, and there are {model.layers}"
    if best is None:
        return f"{model}: {answer}, but not even full recomputation of all blocks fits; None is asked for{miscounted}"
    return _wrong_split(model, answer, best, miscounted)


def _is_split(answer: object) -> bool:
    return isinstance(answer, tuple) and len(answer) == 3 and all(type(n) is int and n >= 0 for n in answer)


def _wrong_split(model: PlanCase, answer: Split, best: tuple[float, Split], miscounted: str) -> str | None:
    kept, again = (_sum(answer, each) for each in zip(*model.costs(), strict=True))
    if (over := kept - model.budget_bytes) > 0:
        return f"{model}: {answer} keeps {kept:,.0f} bytes, {over:,.0f} too many{miscounted}"
    if model.layers * model.seq * model.hidden < 1e6 and (real := _real_bytes(model, answer)) > \
            STATISTICS * model.budget_bytes:
        return f"{model}: {answer} kept {real:,} bytes when it was run"
    if again <= best[0] * (1 + 1e-9):
        return None
    return (f"{model}: {answer} fits, and runs {again:,.0f} FLOPs again; {best[0]:,.0f} would do"
            + (miscounted or _known_mistake(model, answer, best)))


ROOM = ". What comes back in backward does not count here: leave no room for it"
MISCOUNTED = (                  # words, and what `_best` takes for it
    (". Are masks of dropout counted? There is none", {"dropout": True}),
    (". Is fp32 counted? Elements have 2 bytes", {"element_bytes": 4}),
    (". Is one byte an element counted? They have 2", {"element_bytes": 1}),
    (". Are scores counted besides the probabilities? Softmax keeps what it gave, and nothing else", {"squares": 2}),
    (". A block that recomputes in full keeps its input", {"inputs": False}),
    (". Selective recomputation runs attention's core once more, not three times", {"selective": 3}),
    (". Full recomputation runs attention's core again, too", {"full": 0}),
    (ROOM, {"spare": "block"}), (ROOM, {"spare": "back"}),
    (". It fits as it is: at most the budget is asked for", {"spare": "byte"}))


def _miscounted(given: dict[PlanCase, object]) -> str:
    """What was counted wrong, if that explains every answer."""
    turned = {model: answer[::-1] if _is_split(answer) else answer for model, answer in given.items()}
    if turned != given and all(_is_best(*one) for one in turned.items()):
        return ". The order is (none, selective, full)"
    return next((words for words, counted in MISCOUNTED if all(_is_best(*one, **counted) for one in given.items())), "")


def _is_best(model: PlanCase, answer: object, spare: str = "", **counted) -> bool:
    """Whether it fits and has the fewest FLOPs, if one counts so."""
    best = _best(model, spare, **counted)
    if best is None or not _is_split(answer):
        return answer is best
    kept, again = zip(*model.costs(**counted), strict=True)
    return sum(answer) == model.layers and _fits(model, answer, kept, spare) and _sum(answer, again) == best[0]


def _known_mistake(model: PlanCase, answer: Split, best: tuple[float, Split]) -> str:
    if not best[0]:
        return f". It fits as it is, since a block keeps {model.costs()[0][0]:,.0f} bytes: do yours weigh more?"
    if sorted(answer)[:2] == [0, 0]:
        return ". Blocks need not be all alike"
    if answer[0] == 0:
        return ". Where some blocks recompute in full, must all others recompute?"
    return ". What does a way to recompute cost for each byte that it saves?" if answer[1] and answer[2] else \
        ". Are all three ways considered, or has a block other bytes?"


@cache
def _real_bytes(model: PlanCase, answer: Split) -> int:
    """What real blocks keep, each recomputed as the answer says."""
    ways = (how for how, number in zip(RECOMPUTES, answer, strict=True) for _ in range(number))
    blocks = nn.Sequential(*(RealBlock(model.hidden, model.heads, recompute=how) for how in ways)).to(torch.bfloat16)
    with saved(blocks) as kept:
        blocks(torch.ones(model.batch, model.seq, model.hidden, dtype=torch.bfloat16, requires_grad=True))
    return kept.num_bytes
