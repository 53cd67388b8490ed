"""Start equal: all ranks of a process group get the model of its rank 0."""
from __future__ import annotations

import itertools

import torch.distributed as dist
from torch import nn

from helpers.facts.errors import BadValue
from helpers.run.measure.gather_objects import gather_objects


def broadcast_state(module: nn.Module, process_group: dist.ProcessGroup | None = None) -> None:
    """Give all ranks the parameters and buffers of rank 0; the models must have the same shapes.

    process_group   those ranks, and the first of them; None: all ranks
    """
    _same_shapes(module, process_group)
    for tensor in (*module.parameters(), *module.buffers()):
        dist.broadcast(tensor.detach(), group=process_group, group_src=0)


def _same_shapes(module: nn.Module, process_group: dist.ProcessGroup | None) -> None:
    """A broadcast between different shapes would end the process, or fill a tensor with another one's numbers."""
    mine = [(name, f"{list(p.shape)} of {p.dtype}{'' if p.requires_grad else ', frozen'}")
            for name, p in module.named_parameters()]
    mine += [(name, f"{list(buffer.shape)} of {buffer.dtype}, a buffer") for name, buffer in module.named_buffers()]
    models = gather_objects(mine, process_group)
    for rank, theirs in enumerate(models):
        if theirs != models[0]:
            raise BadValue(f"rank {rank} has another model than rank 0: " + _first_unlike(models[0], theirs))


def _first_unlike(first: list[tuple[str, str]], other: list[tuple[str, str]]) -> str:
    one, two = next(pair for pair in itertools.zip_longest(first, other) if pair[0] != pair[1])
    return f"{_said(two)} where rank 0 has {_said(one)}"


def _said(tensor: tuple[str, str] | None) -> str:
    return "no more tensors" if tensor is None else f"{tensor[0]!r} {tensor[1]}"
