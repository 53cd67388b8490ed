"""Bytes of model state on one rank, term by term.

                        sharded from stage
    parameter           3         what forward and backward compute with
    gradient            2         what backward writes
    main_gradient       1         a second gradient in fp32, where a recipe sums in it
    master              1         fp32 copy of the parameter that the optimizer updates
    momentum            1         Adam's and SGD's first moment
    variance            1         Adam's second moment

A term of b bytes per parameter costs P * b bytes on every rank, or P * b / N
from its stage on, with P parameters and N data-parallel ranks.  Stage 0 is DDP.
Activations are not model state, nor are the buffers of `buffer_bytes`.

Source: Rajbhandari et al., "ZeRO", arXiv:1910.02054, section 5 and figure 1;
`main_gradient`: Megatron-LM, docs/source/distrib_optimizer.md.
"""
from __future__ import annotations

import math
from dataclasses import dataclass, fields

from helpers.facts.errors import BadValue

DTYPE_BYTES = {"fp32": 4, "bf16": 2, "fp16": 2, "fp8": 1}
SHARDED_FROM = {"parameter": 3, "gradient": 2, "main_gradient": 1, "master": 1, "momentum": 1, "variance": 1}


@dataclass(frozen=True)
class Recipe:
    """The dtype of every term of model state, of `DTYPE_BYTES`; "" for a term that is not kept.

    Raises `BadValue` for a dtype that is unknown.
    """

    name: str
    parameter: str
    gradient: str
    main_gradient: str = ""
    master: str = ""
    momentum: str = ""
    variance: str = ""

    def __post_init__(self):
        for term, dtype in self.terms():
            if dtype not in DTYPE_BYTES:
                raise BadValue(f"{term} is one of {', '.join(DTYPE_BYTES)}, not {dtype!r}")

    def terms(self) -> list[tuple[str, str]]:
        """The dtype of each term of the state, those that the recipe has."""
        return [(f.name, getattr(self, f.name)) for f in fields(self) if f.name in SHARDED_FROM and
                (getattr(self, f.name) or f.name in ("parameter", "gradient"))]

    @property
    def bytes_per_param(self) -> int:
        """Bytes of state per parameter when nothing is sharded."""
        return sum(DTYPE_BYTES[dtype] for _, dtype in self.terms())


_ADAM = {"momentum": "fp32", "variance": "fp32"}
RECIPES = {r.name: r for r in (
    Recipe("mixed", "bf16", "bf16", master="fp32", **_ADAM),                            # 16P
    Recipe("mixed, fp32 gradients", "bf16", "fp32", master="fp32", **_ADAM),            # 18P
    Recipe("mixed, two gradients", "bf16", "bf16", "fp32", "fp32", **_ADAM),            # 20P
    Recipe("mixed, no master", "bf16", "bf16", **_ADAM),                                # 12P
    Recipe("pure bf16", "bf16", "bf16", momentum="bf16", variance="bf16"),              #  8P
    Recipe("fp32", "fp32", "fp32", **_ADAM),                                            # 16P
    Recipe("fp32, SGD with momentum", "fp32", "fp32", momentum="fp32"),                 # 12P
    Recipe("fp32, plain SGD", "fp32", "fp32"),                                          #  8P
)}
MIXED = RECIPES["mixed"]


def recipe(name: str) -> Recipe:
    """The recipe of this name; `BadValue` lists the names that there are."""
    if name not in RECIPES:
        raise BadValue(f"no recipe {name!r}; there are {', '.join(map(repr, RECIPES))}")
    return RECIPES[name]


def state_by_term(params: float, ranks: int = 1, zero_stage: int = 0, recipe: Recipe = MIXED) -> dict[str, float]:
    """Bytes on one rank of each term that the recipe keeps: P b, or P b / N from the term's stage on.

    ranks        data-parallel ranks N
    zero_stage   0 (DDP), 1, 2 or 3
    Raises `BadValue` for values that cannot be.  Source: arXiv:1910.02054, section 5.
    """
    _check(params, ranks, zero_stage)
    if not isinstance(recipe, Recipe):
        raise BadValue(f"recipe is a Recipe such as RECIPES['mixed'], not {recipe!r}")
    return {term: params * DTYPE_BYTES[dtype] / (ranks if zero_stage >= SHARDED_FROM[term] else 1)
            for term, dtype in recipe.terms()}


def state_bytes(params: float, ranks: int = 1, zero_stage: int = 0, recipe: Recipe = MIXED) -> float:
    """Bytes of model state on one rank: the sum of `state_by_term`.

    In mixed precision 16 P under DDP, 4 P + 12 P/N, 2 P + 14 P/N and 16 P/N under ZeRO stages 1, 2 and 3.
    """
    return sum(state_by_term(params, ranks, zero_stage, recipe).values())


def buffer_bytes(params: float, zero_stage: int, largest_layer_params: float, recipe: Recipe = MIXED,
                 bucket_view: bool = False) -> float:
    """Bytes that a step needs beside the state, on one rank.

    DDP and ZeRO-1 reduce gradients in buckets: a second copy of all of them, unless the
    gradients are views of the buckets (`gradient_as_bucket_view=True`).  ZeRO-2
    holds the full gradient of one layer until it is reduced; ZeRO-3 also gathers
    that layer's parameters.
    """
    _check(params, 1, zero_stage)
    if not 0 <= largest_layer_params <= params:
        raise BadValue(f"largest_layer_params is between 0 and params, not {largest_layer_params!r}")
    gradient, parameter = DTYPE_BYTES[recipe.gradient], DTYPE_BYTES[recipe.parameter]
    if zero_stage <= 1:
        return 0 if bucket_view else params * gradient
    return largest_layer_params * (gradient + (parameter if zero_stage == 3 else 0))


def smallest_ranks(params: float, budget_bytes: float, zero_stage: int = 3, recipe: Recipe = MIXED) -> int:
    """The smallest number of ranks on which model state is below `budget_bytes`, not equal to it.

    Raises `BadValue` if no number is enough, since what the stage replicates is as much as the budget.
    """
    _check(params, 1, zero_stage)
    _check_budget(budget_bytes)
    replicated = sum(b for t, b in state_by_term(params, 1, zero_stage, recipe).items() if zero_stage < SHARDED_FROM[t])
    sharded = state_bytes(params, 1, zero_stage, recipe) - replicated
    if replicated + sharded < budget_bytes:
        return 1
    if replicated >= budget_bytes:
        raise BadValue(f"no number of ranks is enough: stage {zero_stage} keeps {replicated / 1e9:,.1f} GB on every "
                         f"rank, and the budget is {budget_bytes / 1e9:,.1f} GB; a higher stage shards more")
    return math.floor(sharded / (budget_bytes - replicated)) + 1


def largest_params(budget_bytes: float, ranks: int = 1, zero_stage: int = 0, recipe: Recipe = MIXED) -> float:
    """Parameters whose model state fills `budget_bytes` exactly, not rounded: the budget over bytes per parameter."""
    _check_budget(budget_bytes)
    return budget_bytes / state_bytes(1, ranks, zero_stage, recipe)


def _check_budget(budget_bytes: float) -> None:
    if not budget_bytes > 0:
        raise BadValue(f"budget_bytes is a number of bytes above 0, such as 24 * GB, not {budget_bytes!r}")


def _check(params: float, ranks: int, zero_stage: int) -> None:
    if isinstance(params, bool) or not isinstance(params, (int, float)) or not 0 < params < math.inf:
        raise BadValue(f"params is the number of parameters, such as 13e9, not {params!r}")
    if type(ranks) is not int or ranks < 1:
        raise BadValue(f"ranks is a whole number from 1, not {ranks!r}")
    if type(zero_stage) is not int or zero_stage not in range(4):
        raise BadValue(f"zero_stage is 0 (DDP), 1, 2 or 3, not {zero_stage!r}")
