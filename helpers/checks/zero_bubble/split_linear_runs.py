"""Play a learner's split backward of a linear layer, in another process: values, FLOPs, bytes that wait for W."""
from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.nn.functional import linear
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from helpers.checks.judge import forbidden
from helpers.checks.judge.other_process import Raised, in_other_process, words_for
from helpers.checks.judge.verdict import shown

NAMES = ("forward", "backward_input", "backward_weight")


@dataclass(frozen=True)
class SplitCase:
    """A layer and its microbatches; numbers are small and whole, so that every right answer is exact."""

    shape: tuple[int, ...]              # of x
    num_out: int
    has_bias: bool = True
    input_order: tuple[int, ...] = (0,)             # microbatches, all of whose forwards come first
    weight_order: tuple[int, ...] = (0,)
    dtype: torch.dtype = torch.float64
    unit: int = 1                       # of x: 2**25 + 1 shows whether it was kept in fewer bits
    strided: bool = False               # x is a transposed view, and a gradient one number, expanded, as of y.sum()

    def tensors(self) -> tuple[Tensor, Tensor | None, list[tuple[Tensor, Tensor]]]:
        """weight [out, in], bias [out] or None, and x [..., in] and gradient [..., out] of each microbatch."""
        draws = torch.Generator().manual_seed(10)

        def whole(*shape: int) -> Tensor:
            return torch.randint(1, 6, shape, generator=draws).to(self.dtype)

        lead, count = self.shape[:-1], len(self.input_order)
        weight, bias = whole(self.num_out, self.shape[-1]), whole(self.num_out) if self.has_bias else None
        if self.strided:
            return weight, bias, [(whole(*self.shape[::-1]).permute(*range(len(self.shape))[::-1]),
                                   whole(1).expand(*lead, self.num_out)) for _ in range(count)]
        return weight, bias, [(self.unit * whole(*self.shape), whole(*lead, self.num_out)) for _ in range(count)]

    @property
    def product_flops(self) -> int:
        """FLOPs of one product of a microbatch with the weight."""
        return 2 * torch.Size(self.shape).numel() * self.num_out

    def right(self) -> list[dict[str, Tensor | None]]:
        """What autograd makes of each microbatch."""
        weight, bias, each = self.tensors()
        results = []
        for x, gradient in each:
            leaves = {name: t.clone().requires_grad_() for name, t in (("x", x), ("weight", weight), ("bias", bias))
                      if t is not None}
            y = linear(leaves["x"], leaves["weight"], leaves.get("bias"))
            found = dict(zip(leaves, torch.autograd.grad(y, list(leaves.values()), gradient), strict=True))
            results.append({"y": y.detach(), "bias": None, **found})
        return results

    def __str__(self) -> str:
        return f"x {list(self.shape)}, weight {[self.num_out, self.shape[-1]]}, {'a' if self.has_bias else 'no'} bias"


@dataclass
class SplitResult:
    """By microbatch: tensors or words about what is none; what was changed; what I raised, and what W raised."""

    got: list[dict[str, Any]] = field(default_factory=list)
    changed: str | None = None
    input_raised: str | None = None     # by forward or backward_input
    weight_raised: str | None = None
    flops: dict[str, int] = field(default_factory=dict)
    waiting_bytes: int = 0              # that live between I and W, besides weight and bias


class _Stop(Exception):
    """Words about a call that gave nothing to go on with."""


def split_results(functions: tuple[object, object, object], layers: tuple[SplitCase, ...], costs: SplitCase,
                  ) -> list[SplitResult | Raised]:
    """What became of each layer; of `costs`, FLOPs and bytes."""
    cases = [{"layer": layer, "costs": layer is costs} for layer in (*layers, costs)]
    return in_other_process(_play, functions, cases, forbidden.SPLIT_BACKWARD)


def _play(together: tuple[Callable, ...], case: dict) -> SplitResult:
    play, functions = SplitResult(), dict(zip(NAMES, together, strict=True))
    (_cost if case["costs"] else _values)(play, functions, case["layer"])
    return play


def _values(play: SplitResult, functions: dict[str, Callable], layer: SplitCase) -> None:
    weight, bias, each = layer.tensors()
    play.got = [{} for _ in each]
    kept, owed, first = {}, {}, "input_raised"
    try:
        for k, (x, _) in enumerate(each):
            play.got[k]["y"], kept[k] = _two(functions, "forward", "y and kept", x, weight, bias)
        for k in layer.input_order:
            play.got[k]["x"], owed[k] = _two(functions, "backward_input", "the gradient for x and owed", kept.pop(k),
                                             each[k][1])
        first = "weight_raised"
        for k in layer.weight_order:
            play.got[k]["weight"], play.got[k]["bias"] = _two(
                functions, "backward_weight", "the gradients for weight and bias", owed.pop(k))
    except _Stop as stop:
        setattr(play, first, str(stop))
    play.changed = _changed(layer, weight, bias, each)
    play.got = [{name: _plain(value) for name, value in one.items()} for one in play.got]


def _two(functions: dict[str, Callable], name: str, what: str, *args: object) -> tuple[Any, Any]:
    """The pair that a function returns."""
    try:
        pair = functions[name](*args)
    except BaseException as error:              # also what would end this process
        raise _Stop(Raised(words_for(error)).told_of(name)) from None
    if not isinstance(pair, (tuple, list)) or len(pair) != 2:
        raise _Stop(f"{name} returned {_said(pair)}; a pair is asked for: {what}")
    return pair[0], pair[1]


def _said(value: object) -> str:
    if isinstance(value, (tuple, list, dict)):
        return f"a {type(value).__name__} of {len(value)}"
    layout = "" if getattr(value, "layout", None) in (None, torch.strided) else f"{value.layout} "
    return f"a {layout}tensor of shape {list(value.shape)}" if isinstance(value, Tensor) else shown(value)


def _plain(value: object) -> Tensor | str | None:
    """An ordinary tensor without a graph or a view's base, or words."""
    ordinary = type(value) is Tensor and value.layout == torch.strided and value.device.type == "cpu"
    return value.detach().clone() if ordinary else None if value is None else _said(value)


def _changed(layer: SplitCase, weight: Tensor, bias: Tensor | None, each: list[tuple[Tensor, Tensor]]) -> str | None:
    before, bias_before, each_before = layer.tensors()
    pairs = [("weight", weight, before), *([("bias", bias, bias_before)] if layer.has_bias else [])]
    for (x, gradient), (x_before, gradient_before) in zip(each, each_before, strict=True):
        pairs += [("x", x, x_before), ("gradient", gradient, gradient_before)]
    return next((name for name, now, then in pairs if not torch.equal(now, then)), None)


def _cost(play: SplitResult, functions: dict[str, Callable], layer: SplitCase) -> None:
    try:
        play.waiting_bytes = _waiting_bytes(functions, layer)
        weight, bias, ((x, gradient),) = layer.tensors()
        kept = _counted(play, functions, "forward", x, weight, bias)
        _counted(play, functions, "backward_weight", _counted(play, functions, "backward_input", kept, gradient))
    except _Stop as stop:
        play.weight_raised = str(stop)


def _counted(play: SplitResult, functions: dict[str, Callable], name: str, *args: object) -> object:
    with FlopCounterMode(display=False) as counter:
        _, rest = _two(functions, name, "two things", *args)
    play.flops[name] = counter.get_total_flops()
    return rest


def _waiting_bytes(functions: dict[str, Callable], layer: SplitCase) -> int:
    """Bytes that live between I and W, without weight and bias."""
    weight, bias, ((x, gradient),) = layer.tensors()
    with _Seen() as seen:
        kept = _two(functions, "forward", "two things", x, weight, bias)[1]
        owed = _two(functions, "backward_input", "two things", kept, gradient)[1]
    del x, gradient, kept
    gc.collect()
    alive = {storage: nbytes for storage, nbytes in seen.sizes.items() if not storage.expired()}
    for given in (weight, *([bias] if bias is not None else [])):
        alive.pop(StorageWeakRef(given.untyped_storage()), None)
    _two(functions, "backward_weight", "two things", owed)
    return sum(alive.values())


class _Seen(TorchDispatchMode):
    """Sizes of all storages that an operation reads or makes, those that only a graph keeps, too."""

    def __init__(self):
        super().__init__()
        self.sizes: dict[StorageWeakRef, int] = {}

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for thing in tree_leaves((args, kwargs, result)):
            if isinstance(thing, Tensor):
                self.sizes[StorageWeakRef(thing.untyped_storage())] = thing.untyped_storage().nbytes()
        return result
