"""Bytes that autograd keeps for backward and that still live, at any time.

    kept = Kept(parameters)
    with kept.watching():
        y = stage(x)
    kept.now()                      # falls when backward lets go, or code that holds what backward gave it

Storages are counted, each once; parameters are there anyway and are left out.

Source: PyTorch, docs: torch.autograd.graph.saved_tensors_hooks.
"""
from __future__ import annotations

from collections.abc import Iterable

from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.multiprocessing.reductions import StorageWeakRef


class LiveSavedBytes:
    """Knows every storage that was kept since it was made."""

    def __init__(self, always_there: Iterable[Tensor]):
        self._always_there = {StorageWeakRef(tensor.untyped_storage()) for tensor in always_there}
        self._sizes: dict[StorageWeakRef, int] = {}

    def watching(self) -> saved_tensors_hooks:
        """The context in which saved tensors are counted."""
        return saved_tensors_hooks(self.note, lambda tensor: tensor)

    def now(self) -> int:
        """Bytes of the saved storages that still live."""
        self._sizes = {storage: size for storage, size in self._sizes.items() if not storage.expired()}
        return sum(self._sizes.values())

    def note(self, tensor: Tensor) -> Tensor:
        """Count this tensor, too, for as long as it lives."""
        storage = StorageWeakRef(tensor.untyped_storage())
        if storage not in self._always_there:
            self._sizes[storage] = tensor.untyped_storage().nbytes()
        return tensor
