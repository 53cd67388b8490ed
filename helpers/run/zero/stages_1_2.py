"""ZeRO: data parallel whose ranks each keep a part of the state.

    stage   sharded over N ranks    a step of P parameters sends, times (N-1)/N
    1       optimizer               reduce_scatter of gradients: P; all_gather of parameters: P
    2       and gradients           the same, but gradients a bucket at a time, from inside backward
    3       and parameters          stage_3.py

Each stage adds one idea.  Parameters are flat, and messages go by our ring: gloo's reduce_scatter sends twice as much.

    zero = Zero2(model, torch.optim.Adam, lr=1e-3)
    zero(x).sum().backward()
    zero.clip_grad_norm_(1.0)
    zero.step(); zero.zero_grad()

The optimizer sees pieces of flat tensors, so it must treat every element alike, as Adam and SGD do; a parameter that
gets no gradient counts as one with gradient 0.  torch's own `clip_grad_norm_` would see a part, or nothing.
Source: Rajbhandari et al., "ZeRO", arXiv:1910.02054, sections 5 and 7.
"""
from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.autograd import Variable
from torch.profiler import record_function
from torch.utils._pytree import tree_map_only

from helpers.facts.buckets import BUCKET_BYTES
from helpers.facts.errors import BadValue
from helpers.run.collectives import GlooMesh, ring_reduce_scatter
from helpers.run.ddp import broadcast_state
from helpers.run.measure.residency import STEP, holds
from helpers.run.measure.state import of_optimizer
from helpers.run.zero.flat import FlatParameter, GradientBucket, in_buckets
from helpers.run.zero.sharded_optimizer import ShardedOptimizer


class Zero1(nn.Module):
    """The optimizer is sharded: each rank updates its shard of the parameters and hands it to the others.

    module            gets the parameters and buffers of rank 0
    optimizer_class   made with `defaults` for this rank's shards
    groups            torch's parameter groups: [{"params": [...], "weight_decay": 0.1}, ...]
    dtype             compute in it, and let the optimizer update an fp32 master copy of the shard
    bucket_bytes      a bucket of parameters is closed once it has so many bytes
    flats             the flat parameters, in the order in which backward completes them; else they are made here
    process_group     the ranks over which it is sharded, and the first of which gives all its model; None: all ranks
    """

    def __init__(self, module: nn.Module, optimizer_class: type = torch.optim.Adam, *, groups: list[dict] | None = None,
                 dtype: torch.dtype | None = None, bucket_bytes: float = BUCKET_BYTES,
                 flats: list[FlatParameter] | None = None, process_group: dist.ProcessGroup | None = None, **defaults):
        super().__init__()
        self.module, self.mesh, self.dtype = module, GlooMesh(process_group), dtype
        if flats is None:
            broadcast_state(module, process_group)
            flats = in_buckets(list(module.parameters()), self.mesh, dtype, bucket_bytes)
        self.flats, self.trained = flats, [flat for flat in flats if flat.trainable]
        if not self.trained:
            raise BadValue("no parameter of this model requires a gradient, so there is nothing to train")
        self.optimizer = ShardedOptimizer(self.flats, optimizer_class, groups, defaults)
        self.zero_grad()
        module.register_load_state_dict_post_hook(self._reread)
        for parameter in (p for flat in self.trained for p in flat.parameters):
            parameter.register_post_accumulate_grad_hook(self._ready)

    def forward(self, *args, **kwargs):
        """The module's own forward."""
        if self.dtype is not None:
            args, kwargs = tree_map_only(Tensor, self._cast, (args, kwargs))
        return self.module(*args, **kwargs)

    def _reread(self, *_) -> None:
        for flat in self.flats:
            flat.reread()

    def _cast(self, tensor: Tensor) -> Tensor:
        return tensor.to(self.dtype) if tensor.is_floating_point() else tensor

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Gradients live in one flat tensor [n] for each flat parameter, so none is ever None."""
        for flat in self.trained:
            if flat.gradient is None:
                flat.gradient = torch.zeros_like(flat.full)
            flat.gradient.zero_()
            flat.let_gradients_live_in(flat.gradient)
        self._reduced = False

    def _ready(self, parameter: nn.Parameter) -> None:
        """Autograd calls this when `parameter.grad` is complete."""
        if self._reduced:
            raise RuntimeError("this backward adds to gradients that were summed over the ranks already: call "
                               "zero_grad() after step(), and clip after the last microbatch")

    def reduce(self) -> None:
        """Take the mean of the gradients over ranks, each rank for its shard; the others' shards are used up."""
        if self._reduced:
            return
        for flat in self.trained:
            for parameter, view in zip(flat.parameters, flat.views(flat.gradient), strict=True):
                if parameter.grad is None:
                    view.zero_()
                elif parameter.grad.data_ptr() != view.data_ptr():      # somebody had set .grad to None
                    view.copy_(parameter.grad)
            flat.let_gradients_live_in(flat.gradient)
            ring_reduce_scatter(self.mesh, flat.gradient.div_(self.mesh.world_size))
        self._reduced = True

    def shard_of_gradient(self, flat: FlatParameter) -> Tensor:
        """[n/N], once it is reduced."""
        return flat.chunk(flat.gradient)

    def clip_grad_norm_(self, max_norm: float) -> Tensor:
        """Scale all gradients so that their norm, over the shards of all ranks, is at most `max_norm`; return it."""
        self.reduce()
        shards = [self.shard_of_gradient(flat) for flat in self.trained]
        square = sum(torch.linalg.vector_norm(shard, dtype=torch.float64) ** 2 for shard in shards)
        dist.all_reduce(square, group=self.mesh.process_group)
        norm = square.sqrt().float()
        for shard in shards:
            shard.mul_((max_norm / (norm + 1e-6)).clamp(max=1.0))
        return norm

    def step(self) -> None:
        """Update this rank's shards, and hand them round."""
        if any(p.requires_grad != flat.trainable for flat in self.flats for p in flat.parameters):
            raise RuntimeError("requires_grad of a parameter has changed since the model was wrapped: wrap it anew")
        with record_function(STEP):
            self.reduce()
            self.optimizer.step(self.shard_of_gradient)
            for flat in self.trained:
                flat.renew()
        for term, tensors in self.held().items():
            for tensor in tensors:
                holds(term, tensor)

    def held(self) -> dict[str, list[Tensor]]:
        """The tensors of this rank's state, by term."""
        terms = {"parameter": [flat.kept for flat in self.flats],
                 "gradient": [flat.gradient for flat in self.trained if flat.gradient is not None],
                 "master": [flat.master for flat in self.trained if flat.mixed],
                 **of_optimizer(self.optimizer.torch_optimizer)}
        return {term: tensors for term, tensors in terms.items() if tensors}


class Zero2(Zero1):
    """Gradients are sharded too: a bucket of them exists until it is reduced, then this rank's shard only."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._buckets = [GradientBucket(flat) for flat in self.trained]
        self._bucket_of = {p: bucket for bucket in self._buckets for p in bucket.flat.parameters}
        self._in_backward = False

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the shards of gradients."""
        for flat in self.trained:
            flat.gradient = None

    def _ready(self, parameter: nn.Parameter) -> None:
        self._begin_backward()
        self._bucket_of[parameter].take(parameter, self.mesh.world_size)
        for bucket in self._buckets:            # in one order on all ranks, whichever is full first
            if bucket.waiting_for:
                return
            self._send(bucket)

    def forward(self, *args, **kwargs):
        """The module's own forward; the backward that follows reduces a bucket at a time."""
        if self._in_backward and torch._C._current_graph_task_id() < 0:     # the backward before ended in an error
            self._in_backward = False
            for bucket in self._buckets:
                bucket.begin()
        return super().forward(*args, **kwargs)

    def _begin_backward(self) -> None:
        if not self._in_backward:
            self._in_backward = True
            Variable._execution_engine.queue_callback(self._finish)         # when this backward is over

    def _send(self, bucket: GradientBucket) -> None:
        if bucket.sent:
            return
        shard, flat = ring_reduce_scatter(self.mesh, bucket.gradient), bucket.flat
        flat.gradient = shard.clone() if flat.gradient is None else flat.gradient.add_(shard)
        holds("gradient", flat.gradient)
        bucket.close()

    def _finish(self) -> None:
        for bucket in self._buckets:            # those with a parameter that backward did not reach
            self._send(bucket)
            bucket.begin()
        self._in_backward = False

    def reduce(self) -> None:
        """Backward has done it."""

    def shard_of_gradient(self, flat: FlatParameter) -> Tensor:
        """This rank's part [n/N] of the mean gradient of a flat parameter."""
        return torch.zeros_like(flat.shard) if flat.gradient is None else flat.gradient
