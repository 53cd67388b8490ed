"""The tensors of one rank's training state, by the terms of helpers/predict/memory.py."""
from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

COUNTER = "counter"             # Adam's step counters, 4 bytes for each tensor that it updates
TERMS = {"exp_avg": "momentum", "momentum_buffer": "momentum", "exp_avg_sq": "variance", "step": COUNTER}


def state_tensors(module: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, list[Tensor]]:
    """This rank's tensors of training state, by term: parameter, gradient, momentum, variance, counter.

    For a plain loop, DDP or FSDP2, whose shards are taken: what is on this rank now.
    """
    parameters = list(module.parameters())
    return {term: tensors for term, tensors in {
        "parameter": [_local(p.detach()) for p in parameters],
        "gradient": [_local(p.grad) for p in parameters if p.grad is not None],
        **of_optimizer(optimizer)}.items() if tensors}


def of_optimizer(optimizer: torch.optim.Optimizer) -> dict[str, list[Tensor]]:
    """Its state tensors."""
    terms: dict[str, list[Tensor]] = {}
    for state in optimizer.state.values():
        for name, value in state.items():
            if isinstance(value, Tensor):
                terms.setdefault(TERMS.get(name, name), []).append(_local(value))
    return terms


def bytes_by_term(tensors: dict[str, Iterable[Tensor]]) -> dict[str, int]:
    """Bytes of memory behind tensors, by term; storage that is shared counts once in its term."""
    sizes = {}
    for term, each in tensors.items():
        storages = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in each}
        sizes[term] = sum(storages.values())
    return sizes


def _local(tensor: Tensor) -> Tensor:
    """This rank's part of a DTensor."""
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor
