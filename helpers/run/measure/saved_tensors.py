"""Measure what forward keeps for backward, and what both compute.

    with saved(model) as kept:               with counted_flops() as done:
        loss = model.loss(numbers)               model.loss(numbers).backward()
    kept.num_bytes, kept.by_module           done.num_flops, done.by_operation

Autograd hands every tensor that it keeps to a hook (`saved_tensors_hooks`).  A tensor may be a view of another, so
storages are counted, each once; parameters and buffers are there anyway and are left out.  Inside a checkpoint
nothing is kept but its inputs.  FLOPs are those of matrix products, 2 M N K each, as PyTorch's `FlopCounterMode`
counts them while they run: also those that backward runs again.

Source: PyTorch, docs: torch.autograd.graph.saved_tensors_hooks; torch/utils/flop_counter.py.
"""
from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.flop_counter import FlopCounterMode, sdpa_backward_flop_count, sdpa_flop_count

CPU_FLASH = {                           # FlopCounterMode knows the names of CUDA's kernels only
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu:
        lambda q, k, v, *_, **__: sdpa_flop_count(q, k, v),
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward:
        lambda gradient, q, k, v, *_, **__: sdpa_backward_flop_count(gradient, q, k, v),
}


@dataclass(frozen=True)
class SavedTensor:
    """One storage: the module that ran when it was first kept ("" outside the model), and the tensor that it was."""

    module: str
    shape: tuple[int, ...]
    dtype: torch.dtype
    num_bytes: int                      # of the whole storage, which the tensor may see only a part of


@dataclass
class Saved:
    """What was kept, in the order of forward."""

    tensors: list[SavedTensor] = field(default_factory=list)

    @property
    def num_bytes(self) -> int:
        """Bytes of all saved storages."""
        return sum(kept.num_bytes for kept in self.tensors)

    @property
    def by_module(self) -> dict[str, int]:
        """Bytes by the module that ran when they were saved."""
        total = Counter()
        for kept in self.tensors:
            total[kept.module] += kept.num_bytes
        return dict(total)


@dataclass
class Flops:
    """What was computed, by PyTorch's name of the operation."""

    by_operation: dict[str, int] = field(default_factory=dict)

    @property
    def num_flops(self) -> int:
        """FLOPs of all operations."""
        return sum(self.by_operation.values())


@contextmanager
def saved(model: nn.Module) -> Iterator[Saved]:
    """Count what autograd keeps between entry and exit; read the result after the block.

    A module is named by its path in the model, the model itself by its class.
    """
    result, first_of, running = Saved(), {}, [""]
    always_there = {_storage(tensor).data_ptr() for tensor in (*model.parameters(), *model.buffers())}

    def keep(tensor: Tensor) -> Tensor:
        address = _storage(tensor).data_ptr()
        if address not in always_there and address not in first_of:
            first_of[address] = tensor  # held until exit, so that no other tensor can get its address
            nbytes = _storage(tensor).nbytes()
            result.tensors.append(SavedTensor(running[-1], tuple(tensor.shape), tensor.dtype, nbytes))
        return tensor

    with _names_of_running_modules(model, running), saved_tensors_hooks(keep, lambda tensor: tensor):
        yield result


@contextmanager
def counted_flops() -> Iterator[Flops]:
    """Count FLOPs of matrix products between entry and exit, forward and backward; read the result after the block."""
    done = Flops()
    with FlopCounterMode(display=False, custom_mapping=CPU_FLASH) as counter:
        yield done
    done.by_operation = {str(op).removeprefix("aten."): num_flops
                         for op, num_flops in counter.get_flop_counts()["Global"].items()}


@contextmanager
def _names_of_running_modules(model: nn.Module, running: list[str]) -> Iterator[None]:
    def enter(name: str):
        return lambda module, inputs: running.append(name)

    def leave(module, inputs, output) -> None:
        running.pop()

    with ExitStack() as hooks:
        for path, module in model.named_modules():
            hooks.enter_context(module.register_forward_pre_hook(enter(path or type(model).__name__)))
            # also after an exception: a checkpoint may end its second forward with one
            hooks.enter_context(module.register_forward_hook(leave, always_call=True))
        yield


def _storage(tensor: Tensor) -> torch.UntypedStorage:
    return getattr(tensor, "_local_tensor", tensor).untyped_storage()          # a DTensor's own has no bytes
