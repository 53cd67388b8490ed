"""Are the ranks still the same model?  A hash of every tensor, 8 bytes each, compared across ranks.

Data parallel ranks do the same arithmetic on the same gradients, so they stay equal to the
last bit.  Equal losses prove nothing; equal fingerprints do.

    if difference := first_difference(ddp.module, optimizer):
        print(difference)       # parameter 2.weight: rank 3 differs from ranks 0, 1, 2
"""
from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy
import torch
import torch.distributed as dist
from torch import Tensor, nn

from helpers.run.measure.gather_objects import gather_objects

DIGEST_BYTES = 8                # two different tensors look alike once in 2**64


@dataclass(frozen=True)
class Difference:
    """The first thing that is not the same on all ranks, and who has the same one."""

    what: str
    groups: tuple[tuple[int, ...], ...]         # of ranks that agree, the smallest group first
    kinds: tuple[str, ...] = ()                 # of each group, if they differ: shape and dtype, or "none"

    def __str__(self) -> str:
        *odd, most = map(_ranks, self.groups)
        if len(odd) > 1 and len(self.groups[-1]) == 1:
            return f"{self.what}: no two ranks agree"
        verb = "differs" if len(odd) == 1 and len(self.groups[0]) == 1 else "differ"
        also = " and from each other" if len(odd) > 1 else ""
        have = f" ({', '.join(self.kinds[:-1])} instead of {self.kinds[-1]})" if self.kinds else ""
        return f"{self.what}: {' and '.join(odd)} {verb} from {most}{also}{have}"


def fingerprint(module: nn.Module, optimizer: torch.optim.Optimizer | None = None) -> dict[str, str]:
    """A hash (8 bytes) of each parameter, buffer and optimizer state of this rank, by name; and of settings.

    Not a collective: compare the results of ranks, or call `first_difference`, which does.
    """
    named = {parameter: name for name, parameter in module.named_parameters()}
    prints = {f"parameter {name}": _print(p) for p, name in named.items()}
    prints |= {f"buffer {name}": _print(buffer) for name, buffer in module.named_buffers()}
    for number, group in enumerate(optimizer.param_groups if optimizer else ()):
        prints |= {f"{key} of the optimizer's group {number}": _print(value) for key, value in group.items()
                   if key != "params"}
        prints |= {f"optimizer's {key} of {named.get(p, 'a parameter that the model has no more')}": _print(value)
                   for p in group["params"] for key, value in optimizer.state.get(p, {}).items()}
    return prints


def first_difference(module: nn.Module, optimizer: torch.optim.Optimizer | None = None,
                     process_group: dist.ProcessGroup | None = None) -> Difference | None:
    """Compare ranks; each of them must call it, and gets the same answer.  None: they are equal to the bit.

    process_group   which ranks; the answer has their ranks within the group, counted from 0; None: all ranks
    """
    everyone = gather_objects(fingerprint(module, optimizer), process_group)
    names = dict.fromkeys(name for prints in everyone for name in prints)       # in order, each once
    return next((_difference(name, [prints.get(name, "none;") for prints in everyone]) for name in names
                 if len({prints.get(name) for prints in everyone}) > 1), None)


def same_randomness(process_group: dist.ProcessGroup | None = None) -> tuple[int, ...]:
    """The most ranks whose torch generators are in one state, and so draw the same dropout masks; () if none are.

    process_group   which ranks to compare; the answer has their ranks within the group; None: all ranks
    """
    largest = _alike(gather_objects(_print(torch.get_rng_state()), process_group))[-1]
    return largest if len(largest) > 1 else ()


def _difference(name: str, prints: list[str]) -> Difference:
    groups = _alike(prints)
    kinds = tuple(prints[group[0]].rpartition(";")[0] for group in groups)
    return Difference(name, groups, kinds if len(set(kinds)) > 1 else ())


def _alike(prints: list[str]) -> tuple[tuple[int, ...], ...]:
    """Ranks grouped by what they have; the smallest group first, and of equals, the one that is without rank 0."""
    groups = {one: tuple(rank for rank, other in enumerate(prints) if other == one) for one in prints}
    return tuple(sorted(groups.values(), key=lambda ranks: (len(ranks), -ranks[0])))


def _print(value: object) -> str:
    """What it is, and a hash of its bytes: -0.0 is not 0.0, and a nan is itself."""
    if isinstance(value, (list, tuple)):
        return f"{len(value)} values;" + _hash("".join(map(_print, value)).encode())
    if not isinstance(value, Tensor) or isinstance(value, nn.parameter.UninitializedTensorMixin) or value.is_meta:
        return f";{value!r}"
    dense = value.detach().cpu().resolve_conj().resolve_neg()
    dense = (dense.to_dense() if dense.layout != torch.strided else dense).contiguous().reshape(-1)
    kind = f"{list(value.shape)} {str(value.dtype).removeprefix('torch.')}"
    return f"{kind};{_hash(dense.view(torch.uint8).numpy())}"


def _hash(data: bytes | numpy.ndarray) -> str:
    return hashlib.blake2b(data, digest_size=DIGEST_BYTES).hexdigest()


def _ranks(group: tuple[int, ...]) -> str:
    return f"rank{'s' if len(group) > 1 else ''} {', '.join(map(str, group))}"
