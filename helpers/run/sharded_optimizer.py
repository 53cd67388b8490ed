"""An optimizer that knows only this rank's shard of the parameters.

It is torch's own, made for pieces: the shard of each flat parameter, cut where
the parameter group changes.  So it must be one that treats every element alike, as
Adam and SGD do.

    parameters   | weight, decay 0.1       | bias, decay 0 |
    shards       | rank 0     | rank 1     | rank 2        |
    pieces       | 0          | 1   | 1'   | 2             |     where a shard crosses a border, two
"""
from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from helpers.facts.errors import BadValue
from helpers.run.flat import FlatParameter


class ShardedOptimizer:
    """`torch_optimizer` is for schedulers.  `groups` are torch's: [{"params": [...], "weight_decay": 0.1}, ...]."""

    def __init__(self, flats: list[FlatParameter], optimizer_class: type, groups: list[dict] | None, defaults: dict):
        groups = groups or [{"params": [p for flat in flats for p in flat.parameters]}]
        group_of = {p: number for number, group in enumerate(groups) for p in _listed(group)}
        self.pieces = [(number, flat, part, flat.master[part]) for flat in flats
                       for number, part in flat.pieces(group_of)]
        self.torch_optimizer = optimizer_class(
            [{**group, "params": [piece for of, _, _, piece in self.pieces if of == number] or [torch.zeros(0)]}
             for number, group in enumerate(groups)], **defaults)

    def step(self, gradient: Callable[[FlatParameter], Tensor]) -> None:
        """Update the shards; `gradient` gives that of a flat parameter's shard, [n/N]."""
        for _, flat, part, piece in self.pieces:
            piece.grad = gradient(flat)[part].to(piece.dtype)
        self.torch_optimizer.step()
        for *_, piece in self.pieces:
            piece.grad = None                   # in mixed precision a copy in fp32


def _listed(group: dict) -> list[nn.Parameter]:
    if isinstance(group.get("params"), (list, tuple)):
        return list(group["params"])
    raise BadValue(f'a group is a dict with a list of parameters, {{"params": [...]}}, not {group!r}')
