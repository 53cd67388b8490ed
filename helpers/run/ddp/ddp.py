"""Data parallel: every rank has the whole model and its own part of the batch.

    gradient of the batch = mean of the ranks' gradients = (g_0 + ... + g_(N-1)) / N

First as plainly as it can be said (`NaiveDDP`), then as PyTorch does it (`DDP`):
gradients are summed a bucket at a time, from inside backward, so that messages
travel while the gradients of earlier layers are still computed.

    backward   | layer 3 | layer 2 | layer 1 |
    messages             | bucket 0 |  | bucket 1 |

Source: Li et al., "PyTorch Distributed", VLDB 2020; torch/csrc/distributed/c10d/reducer.cpp.
"""
from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.autograd import Variable

from helpers.facts.buckets import BUCKET_BYTES, FIRST_BUCKET_BYTES, buckets
from helpers.facts.errors import BadValue
from helpers.run.ddp.broadcast import broadcast_state
from helpers.run.ddp.unused_parameters import parameters_behind
from helpers.run.process_group import checked_group


class NaiveDDP(nn.Module):
    """Call `sync_grads` after backward: one all_reduce for each parameter.

    process_group   the ranks whose gradients are averaged, and the first of which gives all its model; None: all ranks
    """

    def __init__(self, module: nn.Module, process_group: dist.ProcessGroup | None = None):
        super().__init__()
        self.module, self.process_group = module, checked_group(process_group)
        broadcast_state(module, process_group)

    def forward(self, *args, **kwargs):
        """The module's own forward."""
        return self.module(*args, **kwargs)

    def sync_grads(self) -> None:
        """Replace every gradient by the mean over ranks; every rank must call it."""
        for parameter in self.module.parameters():
            if parameter.grad is not None:
                dist.all_reduce(parameter.grad, op=dist.ReduceOp.SUM, group=self.process_group)
                parameter.grad.div_(dist.get_world_size(self.process_group))


class _Bucket:
    """The gradients that one all_reduce sums: `flat`, and a view of it in the shape of each parameter."""

    def __init__(self, parameters: list[nn.Parameter]):
        self.flat = torch.zeros(sum(p.numel() for p in parameters), dtype=parameters[0].dtype)
        parts = self.flat.split([p.numel() for p in parameters])
        self.views = {p: part.view_as(p) for p, part in zip(parameters, parts, strict=True)}
        self.waiting_for = set(parameters)
        self.work: dist.Work | None = None


class DDP(nn.Module):
    """`DistributedDataParallel` in small: the same results, messages and faults.

    module                   gets the parameters and buffers of rank 0
    bucket_bytes             limit of a bucket; the first one has `first_bucket_bytes`, if that is less
    gradient_as_bucket_view  gradients live in the buckets, which saves one copy of them
    find_unused_parameters   look, in each forward, for parameters that no part of the output depends on; then the loss
                             must use all of the output (torch's own takes what it does not use for unused, too)
    broadcast_buffers        before a forward, give all ranks the buffers of rank 0
    process_group            the ranks whose gradients are averaged, with their own rank 0; None: all ranks

    Raises RuntimeError in the forward after a backward that left a parameter without gradient.
    """

    def __init__(self, module: nn.Module, *, bucket_bytes: float = BUCKET_BYTES,
                 first_bucket_bytes: float = FIRST_BUCKET_BYTES, gradient_as_bucket_view: bool = False,
                 find_unused_parameters: bool = False, broadcast_buffers: bool = True,
                 process_group: dist.ProcessGroup | None = None):
        super().__init__()
        self.module, self.process_group = module, checked_group(process_group)
        self.world_size = dist.get_world_size(process_group)
        self.gradient_as_bucket_view, self.broadcast_buffers = gradient_as_bucket_view, broadcast_buffers
        self.find_unused_parameters = find_unused_parameters
        self._names = {p: name for name, p in module.named_parameters() if p.requires_grad}
        if not self._names:
            raise BadValue("no parameter of this model requires a gradient, so there is nothing to average")
        broadcast_state(module, process_group)
        self._buckets = [_Bucket(chosen) for chosen in _in_buckets(list(self._names), bucket_bytes, first_bucket_bytes)]
        self._bucket_of = {p: bucket for bucket in self._buckets for p in bucket.views}
        self._sync, self._sync_buffers = True, True
        self._armed = False                     # the coming backward is to sync
        self._unused: set[nn.Parameter] = set()         # those that the coming backward will not reach
        self._used: set[nn.Parameter] = set()           # those that got a gradient since the last sync
        for parameter in self._names:
            parameter.register_post_accumulate_grad_hook(self._ready)

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Forwards inside keep their gradients on this rank; the next one outside sends the accumulated ones."""
        before, self._sync = self._sync, False
        try:
            yield
        finally:
            self._sync = before

    def forward(self, *args, **kwargs):
        """The module's own forward; the backward that follows averages gradients, unless inside `no_sync`."""
        syncs = self._sync and torch.is_grad_enabled()
        if syncs and self._unfinished():
            raise RuntimeError(self._unfinished_words())
        if self._sync_buffers and self.broadcast_buffers:
            for buffer in self.module.buffers():
                dist.broadcast(buffer, group=self.process_group, group_src=0)
        output = self.module(*args, **kwargs)
        self._armed, self._sync_buffers = self._armed or syncs, syncs
        if syncs and self.find_unused_parameters:
            self._unused = set(self._names) - parameters_behind(output)
        return output

    def _ready(self, parameter: nn.Parameter) -> None:
        """Autograd calls this when `parameter.grad` is complete."""
        self._used.add(parameter)
        if not self._armed:
            return
        if parameter in self._unused:
            raise RuntimeError(f"{self._names[parameter]!r} gets a gradient, but not through what forward returned: "
                               "use it inside forward, or leave out find_unused_parameters.")
        for unused in self._unused:
            self._fill(unused)
        self._fill(parameter)
        for bucket in self._buckets:            # in one order on all ranks, whichever is full first
            if bucket.waiting_for:
                return
            bucket.work = bucket.work or dist.all_reduce(bucket.flat, group=self.process_group, async_op=True)
        Variable._execution_engine.queue_callback(self._finish)         # when this backward is over

    def _fill(self, parameter: nn.Parameter) -> None:
        """Put a gradient, divided by the number of ranks, into its bucket."""
        bucket = self._bucket_of[parameter]
        if parameter not in bucket.waiting_for:
            return
        bucket.waiting_for.remove(parameter)
        view = bucket.views[parameter]
        if parameter.grad is None:
            view.zero_()
            return
        torch.mul(parameter.grad, 1 / self.world_size, out=view)
        if self.gradient_as_bucket_view:
            parameter.grad = view

    def _finish(self) -> None:
        used = self._used_anywhere() if self.find_unused_parameters else set(self._names)
        for bucket in self._buckets:
            bucket.work.wait()
            for parameter, view in bucket.views.items():
                if parameter in used:
                    self._take(parameter, view)
            bucket.waiting_for, bucket.work = set(bucket.views), None
        self._armed, self._unused, self._used = False, set(), set()

    def _take(self, parameter: nn.Parameter, view: Tensor) -> None:
        if self.gradient_as_bucket_view:
            parameter.grad = view
        elif parameter.grad is None:
            parameter.grad = view.clone()
        else:
            parameter.grad.copy_(view)

    def _used_anywhere(self) -> set[nn.Parameter]:
        """Others keep the gradient that they have, or None."""
        used = torch.tensor([parameter in self._used for parameter in self._names], dtype=torch.int32)
        dist.all_reduce(used, group=self.process_group)
        return {parameter for parameter, ranks in zip(self._names, used.tolist(), strict=True) if ranks}

    def _unfinished(self) -> bool:
        return self._armed and any(len(bucket.waiting_for) < len(bucket.views) for bucket in self._buckets)

    def _unfinished_words(self) -> str:
        missing = ", ".join(repr(name) for p, name in self._names.items() if p in self._bucket_of[p].waiting_for)
        cure = "Leave out what the loss does not use of forward's output." if self.find_unused_parameters else \
            "Use all parameters in the loss, or pass find_unused_parameters=True."
        return f"the backward before this forward gave no gradient to {missing}, so not all buckets were sent. {cure}"


def _in_buckets(parameters: list[nn.Parameter], bucket_bytes: float, first_bucket_bytes: float,
                ) -> Iterator[list[nn.Parameter]]:
    """A bucket is one flat tensor, so it has one dtype."""
    for dtype in dict.fromkeys(p.dtype for p in reversed(parameters)):
        alike = [p for p in parameters if p.dtype == dtype]
        for chosen in buckets([p.numel() * p.element_size() for p in alike], bucket_bytes, first_bucket_bytes):
            yield [alike[index] for index in chosen]
