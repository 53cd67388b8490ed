"""Checks of exercise set 10: the backward of a linear layer in two halves, I and W.

The oracle is autograd in fp64.  The cost of a half is what torch counts: a matrix product of x [B, in] and weight
[out, in] has 2 B in out FLOPs, and I and W do one each.
"""
from __future__ import annotations

from itertools import accumulate

import torch
from torch import Tensor

from helpers.checks.judge.other_process import Raised
from helpers.checks.judge.verdict import NOT_WRITTEN, Verdict, first_wrong, score, unseen
from helpers.checks.zero_bubble.split_linear_runs import SplitCase, SplitResult, split_results

LAYERS = (SplitCase((2, 3), 4), SplitCase((3,), 2), SplitCase((1, 4), 3, has_bias=False), SplitCase((2, 3, 4), 5),
          SplitCase((3, 2), 2, True, (0, 1, 2), (2, 0, 1)))
OTHERS = (SplitCase((3, 3), 3), SplitCase((1, 1), 1), SplitCase((4,), 4, False), SplitCase((5, 2), 3, strided=True),
          SplitCase((2, 3, 4), 6, strided=True), SplitCase((3, 5), 2, True, (2, 0, 3, 1), (0, 3, 1, 2)),
          SplitCase((2, 7), 3, dtype=torch.float32), SplitCase((2, 3), 2, unit=2**25 + 1))
COSTS = SplitCase((4, 32, 48), 80, dtype=torch.float32)
OTHER_COSTS = SplitCase((96, 40), 24, dtype=torch.float32)
NAMED = {"y": "y", "x": "the gradient for x", "weight": "the gradient for weight", "bias": "the gradient for bias"}
FIRST, SECOND = ("y", "x"), ("weight", "bias")
MOST_SHOWN = 12                 # numbers of a tensor


def check_split(forward: object, backward_input: object, backward_weight: object) -> float:
    """4 points: what I gives, what W gives, a matrix product in each, and what waits between them."""
    plays = split_results((forward, backward_input, backward_weight), LAYERS, COSTS)
    raised, first, second, product, waiting = _wrongs(plays, LAYERS, COSTS)
    return score([Verdict(1, "y, and I: the gradient for x", raised or first),
                  Verdict(1, "W: the gradients for weight and bias, in any order", raised or second),
                  Verdict(1, "I and W do one matrix product each", raised or product),
                  Verdict(1, "no more than x and gradient wait for W", raised or waiting)],
                 "Two halves, and each costs half.")


@unseen
def check_split_unseen(forward: object, backward_input: object, backward_weight: object) -> float:
    """1 point: other shapes, dtypes, strides and orders."""
    plays = split_results((forward, backward_input, backward_weight), OTHERS, OTHER_COSTS)
    wrong = first_wrong(_wrongs(plays, OTHERS, OTHER_COSTS))
    return score([Verdict(1, "other shapes, dtypes, strides and orders", wrong)], "It holds for any layer.")


def _wrongs(plays: list[SplitResult | Raised], layers: tuple[SplitCase, ...], costs: SplitCase,
            ) -> tuple[str | None, ...]:
    """What stops all, what is wrong with I, with W, with their products, and with what waits."""
    stopped = next((play.words for play in plays if isinstance(play, Raised)), None)
    if stopped:
        return (stopped,) * 5
    *pairs, (_, cost) = zip((*layers, costs), plays, strict=True)
    first = first_wrong(_wrong(*pair, FIRST) for pair in pairs)
    if first == NOT_WRITTEN:
        return (first,) * 5
    second = first_wrong(_wrong(*pair, SECOND) for pair in pairs)
    later = (first or second) and "judged once the gradients are right"
    return (None, first, second, later or cost.weight_raised or _wrong_products(cost, costs),
            later or cost.weight_raised or _too_much(cost, costs))


def _wrong(layer: SplitCase, play: SplitResult, names: tuple[str, str]) -> str | None:
    """The first thing that is wrong with these of the results, whose microbatch comes first."""
    right = layer.right()
    if play.input_raised and names == SECOND:
        return "judged once forward and backward_input run"
    stopped = play.input_raised or (play.weight_raised if names == SECOND else None)
    for k, got in enumerate(play.got):
        for name in names:
            if name in got and (words := _unlike(got[name], right, name, k, layer)):
                of = f" of microbatch {k} of {len(right)}" if len(right) > 1 else ""
                return f"{layer}: {NAMED[name]}{of} {words}"
    if stopped:
        return Raised(stopped).told_of(f"{layer}:")
    if play.changed and names == FIRST:
        return f"{layer}: {play.changed} was changed; all three read what they are given"
    return None


def _unlike(got: Tensor | str | None, right: list[dict], name: str, k: int, layer: SplitCase) -> str | None:
    expected = right[k][name]
    if expected is None:
        return None if got is None else "is not None, and there is no bias: None is asked for"
    if not isinstance(got, Tensor):
        return f"is {got or 'None'}; an ordinary tensor is asked for"
    if got.shape != expected.shape:
        return f"has shape {list(got.shape)}, expected {list(expected.shape)}{_why_shape(got, expected, name)}"
    if got.dtype != expected.dtype:
        return f"is of dtype {got.dtype}, expected {expected.dtype}"
    if torch.equal(got, expected):
        return None
    known = _known(right, name, k, layer)
    why = next((f": {words}" for words, value in known if torch.allclose(got, value)), "")
    return f"is {_numbers(got)}, expected {_numbers(expected)}{why}"


def _why_shape(got: Tensor, expected: Tensor, name: str) -> str:
    if name == "weight" and got.shape == expected.mT.shape:
        return ": it is transposed"
    if name in SECOND and got.dim() != expected.dim():
        return ": sum over all dims of the gradient but the last" + (", and not over that" if not got.dim() else "")
    return ""


def _known(right: list[dict], name: str, k: int, layer: SplitCase) -> list[tuple[str, Tensor]]:
    """Words for a mistake, and what it gives."""
    expected, rows = right[k][name], torch.Size(layer.shape[:-1]).numel()
    weight, bias, each = layer.tensors()
    x, gradient = each[k]
    known = [("that is transposed", expected.mT)] if name == "weight" and _is_square(weight) else []
    if name == "y" and bias is not None:
        known += [("the bias is missing", expected - bias), ("the bias is there twice", expected + bias)]
    if name in FIRST and _is_square(weight):
        wrong = x @ weight + (0 if bias is None else bias) if name == "y" else gradient @ weight.T
        known += [("that is with weight transposed the wrong way", wrong)]
    if name in SECOND and rows > 1:
        known += [("that is a mean over rows, and a sum is asked for", expected / rows)]
    outside = "is anything kept outside of kept and owed?"
    known += [(f"that is microbatch {other}'s; {outside}", one[name]) for other, one in enumerate(right) if other != k]
    if name == "weight" and x.dim() == 2:
        known += [(f"that is gradient {k} with x of microbatch {other}; {outside}", gradient.T @ each[other][0])
                  for other in range(len(each)) if other != k]
    order = layer.weight_order if name in SECOND else layer.input_order
    done = accumulate((right[number][name] for number in order), lambda total, more: total + more)
    return known + [(f"that is the sum of the first {count} microbatches whose turn came; {outside}", total)
                    for count, total in enumerate(done, 1) if count > 1]


def _is_square(weight: Tensor) -> bool:
    return weight.shape[0] == weight.shape[1]


def _numbers(tensor: Tensor) -> str:
    return str(tensor.tolist()) if tensor.numel() <= MOST_SHOWN else f"{tensor.flatten()[:MOST_SHOWN].tolist()} ..."


def _wrong_products(cost: SplitResult, layer: SplitCase) -> str | None:
    product, (_, num_in) = layer.product_flops, (layer.num_out, layer.shape[-1])
    counts = {name: flops / product for name, flops in cost.flops.items()}
    for name, count in counts.items():
        if count == 1:
            continue
        if not count:
            why = ("is it done in backward_input already?" if name == "backward_weight" and counts["backward_input"] > 1
                   else "no product of torch was seen: use @ or einsum")
        elif abs(count - 1 - 1 / num_in) < 1e-9:
            why = "the bias' gradient is a sum, no product with ones"
        else:
            why = {"forward": "its own, and no more", "backward_input": "the gradient for weight is W's work",
                   "backward_weight": "is forward run again, or the gradient for x computed again?"}[name]
        return f"{layer}: {name} does {count:.3g} matrix products of {product:,} FLOPs, and one is asked for: {why}"
    return None


def _too_much(cost: SplitResult, layer: SplitCase) -> str | None:
    x, y, weight = (4 * torch.Size(shape).numel() for shape in (
        layer.shape, (*layer.shape[:-1], layer.num_out), (layer.num_out, layer.shape[-1])))
    more = cost.waiting_bytes - x - y
    if more <= 0:
        return None
    known = {y: "y, or another copy of gradient", x: "the gradient for x, or another copy of x",
             weight: "a copy of weight, or its gradient", x + y: "x and gradient, once more"}
    return (f"{layer}: {cost.waiting_bytes:,} bytes live from I to W, and x and gradient have {x + y:,}"
            + (f": that is as much more as {known[more]}" if more in known else ""))
