"""What a learner's code holds at most, on a rank.

gloo's threads let go of a message a moment after its call is over, and later on a busy machine: whoever finds too much
looks again before he says so.  PyTorch's profiler never hears of what they release.
"""
from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable

from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

LOOKS, PAUSE_S = 10, 0.05


def settled(measure: Callable[[], int], most: float) -> int:
    """What is measured as soon as it is no more than `most`, or in the end."""
    for _ in range(LOOKS):
        if (now := measure()) <= most:
            break
        time.sleep(PAUSE_S)
        gc.collect()
    return now


class LivePeak(TorchDispatchMode):
    """Counts, after each operation inside the block, the bytes of all tensors seen so far that still live.

    known     tensors that do not count
    most      bytes that may live
    peak      of bytes, after the block
    """

    def __init__(self, known: Iterable[Tensor], most: float):
        super().__init__()
        self.known, self.most, self.peak = [*map(_storage, known)], most, 0
        self.sizes: dict[StorageWeakRef, int] = {}

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for thing in tree_leaves((args, kwargs, result)):
            if isinstance(thing, Tensor) and (storage := _storage(thing)) not in self.known:
                self.sizes[storage] = thing.untyped_storage().nbytes()
        now = self._now() if self.peak > self.most else settled(self._now, self.most)
        self.peak = max(self.peak, now)
        return result

    def _now(self) -> int:
        self.sizes = {storage: nbytes for storage, nbytes in self.sizes.items() if not storage.expired()}
        return sum(self.sizes.values())


def _storage(tensor: Tensor) -> StorageWeakRef:
    return StorageWeakRef(tensor.untyped_storage())
