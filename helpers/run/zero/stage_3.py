"""ZeRO stage 3: parameters are lent, a unit at a time.

    forward     gather 1 | free 1, gather 2 | free 2, gather 3 | free 3
    backward    gather 3 | reduce and free 3, gather 2 | reduce and free 2, gather 1 | reduce and free 1

A unit is a module whose parameters are gathered together; what is in no unit is gathered
for the whole of forward, and again for the whole of backward.  A unit must be called (its forward is
where the gathering begins), and all ranks must call the same units in the same order.

Source: Rajbhandari et al., "ZeRO", arXiv:1910.02054, section 5.3; Zhao et al., "PyTorch FSDP", arXiv:2304.11277.
"""
from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.autograd.graph import register_multi_grad_hook

from helpers.facts.errors import BadValue
from helpers.run.collectives import GlooMesh
from helpers.run.ddp import broadcast_state, tensors_in
from helpers.run.zero.flat import GatheredOnUse, GradientBucket, flat_parameters
from helpers.run.zero.stages_1_2 import Zero1, Zero2


class Zero3(Zero2):
    """Parameters are sharded too: a rank has all of a unit's only while it computes with them.

    units                   modules inside `module`, in the order of forward
    reshard_after_forward   False: gathered parameters stay until backward is done with them, which saves an all_gather
    process_group           the ranks over which it is sharded, as in stages 1 and 2
    """

    def __init__(self, module: nn.Module, optimizer_class: type = torch.optim.Adam, *,
                 units: Iterable[nn.Module] = (), reshard_after_forward: bool = True, dtype: torch.dtype | None = None,
                 process_group: dist.ProcessGroup | None = None, **options):
        if "bucket_bytes" in options:
            raise BadValue("stage 3 sends a unit at a time: choose units instead of bucket_bytes")
        own = _parameters_of_units(module, list(units))
        broadcast_state(module, process_group)
        mesh = GlooMesh(process_group)
        lent = {unit: flat_parameters(parameters, mesh, dtype, GatheredOnUse) for unit, parameters in own.items()}
        super().__init__(module, optimizer_class, dtype=dtype, process_group=process_group,
                         flats=[flat for flats in reversed(lent.values()) for flat in flats], **options)
        self.reshard_after_forward = reshard_after_forward
        module.register_state_dict_pre_hook(self._check_gathered)
        module.register_load_state_dict_pre_hook(self._refuse_to_load)
        for unit, flats in lent.items():
            unit.register_forward_pre_hook(partial(self._before_forward, flats))
            unit.register_forward_hook(partial(self._after_forward, flats))

    def _before_forward(self, flats: list[GatheredOnUse], *_) -> None:
        for flat in flats:
            flat.gather()

    def _after_forward(self, flats: list[GatheredOnUse], module: nn.Module, args: tuple, output: object) -> None:
        watched = [tensor for tensor in tensors_in(output) if tensor.requires_grad]
        for tensor in watched:
            tensor.register_hook(partial(self._before_backward, flats))
        self._free_frozen_behind([tensor for tensor in tensors_in(args) if tensor.requires_grad], watched, flats)
        if self._in_backward:                   # a forward that backward computes again needs them right away
            return
        if self.reshard_after_forward or not watched:
            for flat in flats:
                flat.free()

    def _free_frozen_behind(self, inputs: list[Tensor], outputs: list[Tensor], flats: list[GatheredOnUse]) -> None:
        """No gradient of theirs will tell when backward is done with them: that of the inputs does."""
        frozen = [flat for flat in flats if not flat.trainable]
        if not (frozen and inputs and outputs):
            return

        def begin(_: object) -> None:
            for flat in frozen:
                flat.num_uses += 1

        def end(_: object) -> None:
            for flat in frozen:
                flat.num_uses -= 1
                if not flat.num_uses:
                    flat.free()

        register_multi_grad_hook(outputs, begin, mode="any")
        register_multi_grad_hook(inputs, end, mode="all")

    def _before_backward(self, flats: list[GatheredOnUse], gradient: Tensor) -> None:
        self._begin_backward()
        self._before_forward(flats)

    def _send(self, bucket: GradientBucket) -> None:
        super()._send(bucket)
        bucket.flat.free()

    def _finish(self) -> None:
        super()._finish()
        for flat in self.flats:                 # frozen ones have sent nothing
            flat.free()
            flat.num_uses = 0

    def _check_gathered(self, *_) -> None:
        if not all(flat.gathered for flat in self.flats):
            raise RuntimeError("each rank has shards of the parameters only: call state_dict() on all ranks, inside "
                               "`with zero.full_parameters()`")

    def _refuse_to_load(self, *_) -> None:
        raise RuntimeError("each rank keeps shards only, so what is loaded now would be lost: load it, then wrap")

    @contextmanager
    def full_parameters(self) -> Iterator[nn.Module]:
        """The module with all its parameters, to save or to look at; every rank must call it.  Changes are lost."""
        self._before_forward(self.flats)
        try:
            yield self.module
        finally:
            for flat in self.flats:
                flat.free()


ZERO_STAGES = {1: Zero1, 2: Zero2, 3: Zero3}


def _parameters_of_units(module: nn.Module, units: list[nn.Module]) -> dict[nn.Module, list[nn.Parameter]]:
    """The parameters that each unit gathers, the whole module's first: those that are in no unit."""
    inside = set(module.modules()) - {module}
    for number, unit in enumerate(units):
        if not isinstance(unit, nn.Module) or unit not in inside:
            raise BadValue(f"unit {number}, a {type(unit).__name__}, is no module inside the model: take units from "
                           "model.modules(); the model itself need not be named")
        if type(unit).forward is nn.Module.forward:
            raise BadValue(f"a {type(unit).__name__} is never called: name the modules in it as units, units=list(...)")
    unit_of = {name: inner for name, inner in module.named_modules(remove_duplicate=False) if inner in set(units)}
    owners: dict[nn.Parameter, nn.Module] = {}
    for name, inner in module.named_modules(remove_duplicate=False):
        unit = _unit_around(name, unit_of, module)
        for parameter_name, parameter in inner.named_parameters(recurse=False):
            if owners.setdefault(parameter, unit) is not unit:
                raise BadValue(f"{name}.{parameter_name} is tied to a parameter of another unit, which would be freed "
                               "while this one is used: put both into one unit, or into none")
    return {unit: [p for p in module.parameters() if owners[p] is unit] for unit in (module, *units)}


def _unit_around(name: str, unit_of: dict[str, nn.Module], module: nn.Module) -> nn.Module:
    """The innermost unit that `name` lies in."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        if (outer := ".".join(parts[:length])) in unit_of:
            return unit_of[outer]
    return module
