"""Parameters laid end to end in one flat tensor, of which every rank owns a chunk.

    weight [2, 3]   bias [2]                 full [8], on 3 ranks
    | a b c |       | g h |      ->          | a b c | d e f | g h |
    | d e f |                                  rank 0  rank 1  rank 2

    full        [n]             what forward and backward compute with; the parameters are views of it
    shard       [n/N]           this rank's chunk of it
    master      [n/N]           what the optimizer updates: the shard, or in mixed precision an fp32 copy of it
    gradient    [n] or [n/N]    the ranks' mean

If N does not divide n, the first chunks are an element longer; nothing is padded.  A *chunk* is any of the N parts,
a *shard* the chunk that a rank keeps, a *piece* what of a shard one parameter group has.  A *bucket* (stages 1 and 2)
or a *unit* (stage 3) is what travels together: a flat parameter for each dtype in it.

Source: Rajbhandari et al., "ZeRO", arXiv:1910.02054, section 5; the name: Zhao et al., "PyTorch FSDP",
arXiv:2304.11277, section 3.2.
"""
from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

import torch
from torch import Tensor, nn
from torch.autograd.graph import increment_version

from helpers.facts.buckets import buckets
from helpers.run.collectives import Chunks, Mesh, ring_all_gather
from helpers.run.measure.residency import holds


class FlatParameter:
    """Parameters of one dtype, all trainable or all frozen; they compute in `dtype`, if it is given."""

    def __init__(self, parameters: list[nn.Parameter], mesh: Mesh, dtype: torch.dtype | None = None):
        self.parameters, self.mesh, self.trainable = parameters, mesh, parameters[0].requires_grad
        self.sizes, self.shapes = [p.numel() for p in parameters], [p.shape for p in parameters]
        whole = torch.cat([p.detach().reshape(-1) for p in parameters])
        self.full = whole.to(dtype or whole.dtype)
        self.shard = self.chunk(self.full)
        self.offset = self.shard.storage_offset()               # of the shard in `full`
        precise = torch.promote_types(whole.dtype, torch.float32) if dtype else whole.dtype
        self.mixed = self.trainable and self.full.dtype != precise
        self.master = self.chunk(whole).to(precise, copy=True) if self.mixed else self.shard
        self.gradient: Tensor | None = None
        self._show()

    @property
    def kept(self) -> Tensor:
        """What of the parameters lives all the time."""
        return self.full

    def chunk(self, flat: Tensor) -> Tensor:
        """This rank's part of `flat` [n], a view."""
        return Chunks(flat, self.mesh.world_size)[self.mesh.rank]

    def views(self, flat: Tensor) -> list[Tensor]:
        """`flat` [n] as views in the shapes of the parameters."""
        return [part.view(shape) for part, shape in zip(flat.split(self.sizes), self.shapes, strict=True)]

    def pieces(self, group_of: dict[nn.Parameter, int]) -> Iterator[tuple[int, slice]]:
        """The shard, cut where the optimizer's group changes: (group, part of the shard); without a group, none."""
        end = 0
        for group, alike in groupby(zip(self.parameters, self.sizes, strict=True), lambda pair: group_of.get(pair[0])):
            start, end = end, end + sum(size for _, size in alike)
            first, last = max(start - self.offset, 0), min(end - self.offset, len(self.shard))
            if group is not None and first < last:
                yield group, slice(first, last)

    def renew(self) -> None:
        """After the optimizer: master into shard, and everybody's shard into `full`."""
        self._round()
        ring_all_gather(self.mesh, self.full)
        increment_version(self.parameters)

    def reread(self) -> None:
        """Somebody has written to `full`, such as load_state_dict: the optimizer goes on from there."""
        if self.mixed:
            self.master.copy_(self.shard)

    def _round(self) -> None:
        if self.mixed:
            self.shard.copy_(self.master)

    def let_gradients_live_in(self, flat: Tensor) -> None:
        """Make each parameter's `.grad` a view of `flat` [n]."""
        for parameter, view in zip(self.parameters, self.views(flat), strict=True):
            parameter.grad = view

    def _show(self) -> None:
        for parameter, view in zip(self.parameters, self.views(self.full), strict=True):
            parameter.data = view


class GatheredOnUse(FlatParameter):
    """Stage 3: `full` exists between `gather` and `free` only; the shard stays."""

    def __init__(self, parameters: list[nn.Parameter], mesh: Mesh, dtype: torch.dtype | None = None):
        super().__init__(parameters, mesh, dtype)
        self.shard, self.num_uses = self.shard.clone(), 0       # calls whose backward has begun and not ended
        self.master = self.master if self.mixed else self.shard
        self.free()

    @property
    def kept(self) -> Tensor:
        """What of the parameters lives all the time: this rank's shard."""
        return self.shard

    def gather(self) -> None:
        """Collect everybody's shard, unless it is done."""
        if self.gathered:
            return
        self.full.untyped_storage().resize_(self.full.numel() * self.full.element_size())
        holds("parameter", self.full)
        self.chunk(self.full).copy_(self.shard)
        ring_all_gather(self.mesh, self.full)
        self._show()
        self.gathered = True

    def free(self) -> None:
        """Give the memory of `full` back.  Autograd keeps views of it, which the next `gather` fills again."""
        for parameter in self.parameters:
            parameter.data = self.full.new_empty(0)
        self.full.untyped_storage().resize_(0)
        self.gathered = False

    def renew(self) -> None:
        """The next `gather` brings the others' shards."""
        self._round()
        self.free()
        increment_version(self.parameters)


class GradientBucket:
    """The gradient [n] of a flat parameter while backward fills it; zeros where nothing has come."""

    def __init__(self, flat: FlatParameter):
        self.flat = flat
        self.begin()

    def begin(self) -> None:
        """Wait for all parameters again, with no memory taken yet."""
        self.waiting_for, self.sent, self._gradient = set(self.flat.parameters), False, None

    @property
    def gradient(self) -> Tensor:
        """The flat gradient [n], made of zeros when it is first asked for."""
        if self._gradient is None:
            self._gradient = torch.zeros(self.flat.full.shape, dtype=self.flat.full.dtype)
            self._view_of = dict(zip(self.flat.parameters, self.flat.views(self._gradient), strict=True))
        return self._gradient

    def take(self, parameter: nn.Parameter, world_size: int) -> None:
        """Move `parameter.grad`, divided by the number of ranks, in here."""
        if parameter not in self.waiting_for:
            raise RuntimeError("a parameter got its gradient in two parts of one backward, as under a checkpoint with "
                               "use_reentrant=True: make it use_reentrant=False")
        for gradient in (parameter.grad, self.gradient):
            holds("gradient", gradient)
        torch.mul(parameter.grad, 1 / world_size, out=self._view_of[parameter])
        parameter.grad = None
        self.waiting_for.discard(parameter)

    def close(self) -> None:
        """It is sent, and its memory given back."""
        self.sent, self._gradient, self._view_of = True, None, {}


def flat_parameters(parameters: Iterable[nn.Parameter], mesh: Mesh, dtype: torch.dtype | None = None,
            kind: type[FlatParameter] = FlatParameter) -> list[FlatParameter]:
    """A flat parameter for each dtype, of the trainable and of the frozen ones."""
    alike: dict[tuple, list[nn.Parameter]] = {}
    for parameter in parameters:
        alike.setdefault((parameter.dtype, parameter.requires_grad), []).append(parameter)
    return [kind(each, mesh, dtype) for each in alike.values()]


def in_buckets(parameters: list[nn.Parameter], mesh: Mesh, dtype: torch.dtype | None, bucket_bytes: float,
               ) -> list[FlatParameter]:
    """From the last parameter to the first, as backward completes them; a bucket is closed once it has `bucket_bytes`.

    Those that are frozen, or of another dtype, are apart, so a flat parameter may have less.
    """
    sizes = [p.numel() * (dtype.itemsize if dtype else p.element_size()) for p in parameters]
    return [flat for chosen in buckets(sizes, bucket_bytes, bucket_bytes)
            for flat in flat_parameters([parameters[index] for index in sorted(chosen)], mesh, dtype)]
