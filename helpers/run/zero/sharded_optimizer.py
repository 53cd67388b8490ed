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

from torch import Tensor, nn

from helpers.facts.errors import BadValue
from helpers.run.zero.flat import FlatParameter


class ShardedOptimizer:
    """`torch_optimizer` is for schedulers.  `groups` are torch's: [{"params": [...], "weight_decay": 0.1}, ...]."""

    def __init__(self, flats: list[FlatParameter], optimizer_class: type, groups: list[dict] | None, defaults: dict):
        everything = [p for flat in flats for p in flat.parameters]
        groups = [{"params": everything}] if groups is None else groups
        group_of = _group_of(groups, set(everything))
        self.pieces = [(number, flat, part, flat.master[part]) for flat in flats if flat.trainable
                       for number, part in flat.pieces(group_of)]
        self.torch_optimizer = optimizer_class(
            [{**group, "params": [piece for of, _, _, piece in self.pieces if of == number]}
             for number, group in enumerate(groups)], **defaults)

    def step(self, gradient: Callable[[FlatParameter], Tensor]) -> None:
        """Update the shards; `gradient` gives that of a flat parameter's shard, [n/N]."""
        for _, flat, part, piece in self.pieces:
            piece.grad = gradient(flat)[part].to(piece.dtype)
        self.torch_optimizer.step()
        for *_, piece in self.pieces:
            piece.grad = None                   # in mixed precision a copy in fp32


def _group_of(groups: list[dict], known: set[nn.Parameter]) -> dict[nn.Parameter, int]:
    if not isinstance(groups, (list, tuple)):
        raise BadValue(f'groups are a list of dicts, [{{"params": [...]}}, ...], not {type(groups).__name__}')
    found: dict[nn.Parameter, int] = {}
    for number, group in enumerate(groups):
        if not isinstance(group, dict) or not isinstance(group.get("params"), (list, tuple)):
            raise BadValue(f'a group is a dict with a list of parameters, {{"params": [...]}}, not {group!r}')
        for parameter in group["params"]:
            if not isinstance(parameter, nn.Parameter) or parameter not in known:
                raise BadValue(f'group {number}, {{"params": [...]}}, lists something that is no parameter of this '
                               "model: take them from model.parameters()")
            if found.setdefault(parameter, number) != number:
                raise BadValue(f'groups {found[parameter]} and {number}, {{"params": [...]}}, have a parameter in '
                               "common")
    if not found:
        raise BadValue('the groups, [{"params": [...]}, ...], list no parameter, so there is nothing to train')
    return found
