"""Sum the gradients of parameters that several stages or ranks have copies of, so that copies stay copies.

Two cases: a stage that two ranks hold (DualPipe: microbatches come from both ends), and tied weights: an embedding on
the first stage that is the output layer on the last one.

A family is what is one parameter in the model: the places (rank, stage, name) of its copies.
"""
from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor, nn

from helpers.facts.schedules import Schedule

Tied = Sequence[tuple[int, str]]            # the copies of one parameter: (stage, name), ...
Place = tuple[int, int, str]


def families(schedule: Schedule, stages: dict[int, nn.Module], tied: Sequence[Tied], rank: int) -> list[list[Place]]:
    """The families that this rank has a part in, in an order that all ranks share."""
    wholes = [*tied, *([(stage, name)] for stage, module in stages.items() for name, _ in module.named_parameters()
                       if not any((stage, name) in family for family in tied))]
    found = [[(holder, stage, name) for stage, name in whole for holder in schedule.holders[stage]] for whole in wholes]
    return sorted(places for places in found if len(places) > 1 and any(place[0] == rank for place in places))


def sum_copies(schedule: Schedule, rank: int, stages: dict[int, nn.Module], tied: Sequence[Tied],
               first_tag: int) -> None:
    """Give every copy the sum of all copies' gradients, added up in the order of ranks: all get the same bits."""
    for places in families(schedule, stages, tied, rank):
        mine = [stages[stage].get_parameter(name) for holder, stage, name in places if holder == rank]
        own = sum(p.grad if p.grad is not None else torch.zeros_like(p) for p in mine).contiguous()
        ranks = sorted({holder for holder, _, _ in places})
        total = torch.stack(_exchanged(own, rank, ranks, first_tag)).sum(0)
        for parameter in mine:
            parameter.grad = total.clone()


def _exchanged(own: Tensor, rank: int, ranks: list[int], tag: int) -> list[Tensor]:
    """What each rank has, in the order of `ranks`."""
    works = [dist.isend(own, other, tag=tag) for other in ranks if other != rank]
    parts = [own if other == rank else torch.empty_like(own) for other in ranks]
    for other, part in zip(ranks, parts, strict=True):
        if other != rank:
            dist.recv(part, other, tag=tag)
    for work in works:
        work.wait()
    return parts
