"""Backward in two halves: I, the gradient for the input, now; W, the gradients for the weights, when there is time.

    with deferred_weights(stage) as owed:
        y = stage(x)
    y.backward(gradient)            # I: x.grad; parameters of linear layers have no gradient yet
    owed.compute()                  # W: adds to their .grad

A linear layer's backward is two matrix products of which only one, gradient @ weight, is waited for.  The other needs
the layer's input and the gradient of its output, and both are kept until W.  All other layers (norms, embeddings: few
FLOPs) get their gradients in I; so do linear layers that compute in a way of their own, have their weight from
elsewhere (weight_norm) or are used without being called (the out_proj of nn.MultiheadAttention).

Not supported: autocast; hooks of parameters, which see no gradient that W adds.

Sources: Qi et al. 2023, arXiv:2401.10241, section 2.1; Megatron-LM defers weight gradients likewise.
"""
from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional


class OwedWeights:
    """The W of one forward: for each linear layer what its weight gradient is made of, in the order of backward."""

    def __init__(self):
        self._parts: list[tuple[nn.Linear, Tensor, Tensor]] = []

    def owe(self, linear: nn.Linear, x: Tensor, gradient: Tensor) -> None:
        """Keep what the gradient of a layer's weight needs, for later."""
        self._parts.append((linear, x, gradient))

    def tensors(self) -> Iterator[Tensor]:
        """What is kept until W."""
        for _, *kept in self._parts:
            yield from kept

    @torch.no_grad()
    def compute(self) -> None:
        """Add the gradients to `.grad` of the layers' parameters, and keep nothing."""
        for linear, x, gradient in self._parts:
            _add(linear.weight, torch.einsum("...o,...i->oi", gradient, x))
            if linear.bias is not None and linear.bias.requires_grad:
                _add(linear.bias, torch.einsum("...o->o", gradient))
        self._parts.clear()


@contextmanager
def deferred_weights(stage: nn.Module, owed: OwedWeights | None = None) -> Iterator[OwedWeights]:
    """Forwards of the stage in this block leave the weight gradients of its linear layers to the result.

    Where backward runs parts of forward again (recomputing), it belongs into such a block, too, with the same `owed`.
    """
    owed, linears = owed or OwedWeights(), [module for module in stage.modules() if _can_wait(module)]
    for linear in linears:
        linear.forward = partial(_forward, linear, owed)
    try:
        yield owed
    finally:
        for linear in linears:
            del linear.forward


def _can_wait(module: nn.Module) -> bool:
    """A linear layer that computes as nn.Linear does, with a weight of its own that is trained."""
    return isinstance(module, nn.Linear) and getattr(module.forward, "__func__", None) is nn.Linear.forward \
        and module._parameters.get("weight") is not None and module.weight.requires_grad


def _forward(linear: nn.Linear, owed: OwedWeights, x: Tensor) -> Tensor:
    return _InputGradientOnly.apply(x, linear.weight, linear.bias, linear, owed)


class _InputGradientOnly(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor, bias: Tensor | None, linear: nn.Linear, owed: OwedWeights) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.linear, ctx.owed = linear, owed
        return functional.linear(x, weight, bias)

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        ctx.owed.owe(ctx.linear, x.detach(), gradient)
        return gradient @ weight if ctx.needs_input_grad[0] else None, None, None, None, None


def _add(parameter: nn.Parameter, gradient: Tensor) -> None:
    if parameter.grad is None:
        parameter.grad = gradient.contiguous()
    else:
        parameter.grad += gradient
