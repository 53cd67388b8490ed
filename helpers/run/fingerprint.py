"""Are the ranks still the same model?  A hash of every tensor, 8 bytes each, compared across ranks.

Data parallel ranks do the same arithmetic on the same gradients, so they stay equal to the
last bit.  Equal losses prove nothing; equal fingerprints do.

    if difference := first_difference(ddp.module, optimizer):
        print(difference)       # parameter 2.weight [4, 8]: rank 3 differs from ranks 0, 1, 2
"""
from __future__ import annotations

import hashlib
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor, nn

DIGEST_BYTES = 8                # two different tensors look alike once in 2**64


@dataclass(frozen=True)
class Difference:
    """The first thing that is not the same on all ranks, and who has the same one."""

    what: str
    groups: tuple[tuple[int, ...], ...]         # of ranks that agree, the smallest group first

    def __str__(self) -> str:
        *odd, most = [_ranks(group) for group in self.groups]
        if len(odd) > 1 and len(self.groups[-1]) == 1:
            return f"{self.what}: no two ranks agree"
        verb = "differs" if len(odd) == 1 and odd[0].startswith("rank ") else "differ"
        return f"{self.what}: {'; '.join(odd)} {verb} from {most}"


def fingerprint(module: nn.Module, optimizer: torch.optim.Optimizer | None = None) -> dict[str, str]:
    """A hash of each parameter, buffer and optimizer state of this rank, and the optimizer's settings; by name."""
    named = {parameter: name for name, parameter in module.named_parameters()}
    prints = {f"parameter {name} {list(p.shape)}": _digest(p) for p, name in named.items()}
    prints |= {f"buffer {name} {list(buffer.shape)}": _digest(buffer) for name, buffer in module.named_buffers()}
    for number, group in enumerate(optimizer.param_groups if optimizer else ()):
        prints |= {f"{key} of the optimizer's group {number}": _of(value) for key, value in group.items()
                   if key != "params"}
        prints |= {f"optimizer's {key} of {named.get(p, 'a parameter that the model has no more')}": _of(value)
                   for p in group["params"] for key, value in optimizer.state.get(p, {}).items()}
    return prints


def first_difference(module: nn.Module, optimizer: torch.optim.Optimizer | None = None) -> Difference | None:
    """Compare all ranks; every rank must call it, and each gets the same answer.  None: they are equal to the bit."""
    everyone: list[dict[str, str]] = [{}] * dist.get_world_size()
    dist.all_gather_object(everyone, fingerprint(module, optimizer))
    names = dict.fromkeys(name for prints in everyone for name in prints)       # in order, each once
    return next((Difference(name, groups) for name in names
                 if len(groups := _alike([prints.get(name, "missing") for prints in everyone])) > 1), None)


def same_randomness() -> tuple[int, ...]:
    """Ranks whose torch generator is in the same state, so that they draw the same dropout masks; () if none are."""
    everyone: list[str] = [""] * dist.get_world_size()
    dist.all_gather_object(everyone, _digest(torch.get_rng_state()))
    largest = _alike(everyone)[-1]
    return largest if len(largest) > 1 else ()


def _alike(prints: list[str]) -> tuple[tuple[int, ...], ...]:
    """Ranks grouped by what they have; the smallest group first, and of equals, the one that is without rank 0."""
    groups = {one: tuple(rank for rank, other in enumerate(prints) if other == one) for one in prints}
    return tuple(sorted(groups.values(), key=lambda ranks: (len(ranks), -ranks[0])))


def _of(value: object) -> str:
    return _digest(value) if isinstance(value, Tensor) else repr(value)


def _digest(tensor: Tensor) -> str:
    """Of dtype and bytes, so -0.0 is not 0.0, and a nan is itself."""
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    return hashlib.blake2b(flat.view(torch.uint8).numpy(), digest_size=DIGEST_BYTES,
                           person=str(tensor.dtype).removeprefix("torch.").encode()).hexdigest()


def _ranks(group: tuple[int, ...]) -> str:
    return f"rank{'s' if len(group) > 1 else ''} {', '.join(map(str, group))}"
