"""Start equal: all ranks get the model of rank 0."""
from __future__ import annotations

import torch.distributed as dist
from torch import nn

from helpers.facts.errors import BadValue


def broadcast_state(module: nn.Module) -> None:
    """Give all ranks the parameters and buffers of rank 0; the models must have the same shapes."""
    _same_shapes(module)
    for tensor in (*module.parameters(), *module.buffers()):
        dist.broadcast(tensor.detach(), src=0)


def _same_shapes(module: nn.Module) -> None:
    """A broadcast between different shapes would end the process, or fill a tensor with another one's numbers."""
    named = [*module.named_parameters(), *module.named_buffers()]
    mine = [(name, tuple(tensor.shape), str(tensor.dtype), tensor.requires_grad) for name, tensor in named]
    models: list[list] = [None] * dist.get_world_size()
    dist.all_gather_object(models, mine)
    for rank, theirs in enumerate(models):
        if theirs != models[0]:
            raise BadValue(f"rank {rank} has another model than rank 0: " + _first_unlike(models[0], theirs))


def _first_unlike(first: list[tuple], other: list[tuple]) -> str:
    one, two = next((pair for pair in zip(first, other) if pair[0] != pair[1]), (None, None))    # noqa: B905
    if one is None:
        return f"{len(other)} tensors instead of {len(first)}"
    return f"{two[0]!r} {list(two[1])} of {two[2]} where rank 0 has {one[0]!r} {list(one[1])} of {one[2]}"
