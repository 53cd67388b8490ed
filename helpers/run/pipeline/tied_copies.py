"""Sum the gradients of parameters that several stages or ranks have copies of, so that copies stay copies.

Two cases: a stage that two ranks hold (DualPipe: microbatches come from both ends), and tied weights: an embedding on
the first stage that is the output layer on the last one.

A family is what is one parameter in the model: the places (rank, stage, name) of its copies.  Equal gradients keep
copies equal only if they start equal and all their optimizers are alike.
"""
from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor, nn

from helpers.facts.errors import BadValue
from helpers.facts.schedules import Schedule

Tied = Sequence[tuple[int, str]]            # the copies of one parameter: (stage, name), ...
Place = tuple[int, int, str]


@dataclass(frozen=True)
class Family:
    """A family that this rank has a part in."""

    places: tuple[Place, ...]
    mine: dict[Place, nn.Parameter]

    @property
    def trained(self) -> list[nn.Parameter]:
        """This rank's copies, each once: two places may be one tensor."""
        return list({id(p): p for p in self.mine.values() if p.requires_grad}.values())


def find_families(schedule: Schedule, rank: int, stages: dict[int, nn.Module], tied: Sequence[Tied]) -> list[Family]:
    """This rank's families, in an order that all ranks share."""
    in_tied = [(int(stage), name) for copies in tied for stage, name in copies]
    for stage, name in in_tied:
        if not 0 <= stage < schedule.num_stages or in_tied.count((stage, name)) > 1:
            raise BadValue(f"tied has stage {stage}'s {name}: name each copy once, of stages 0 to "
                           f"{schedule.num_stages - 1}")
    alone = [[(stage, name)] for stage, module in stages.items() for name, _ in module.named_parameters()
             if (stage, name) not in in_tied]
    found = [tuple((holder, stage, name) for stage, name in copies for holder in schedule.holders[stage])
             for copies in (*tied, *alone)]
    return [Family(places, {place: _parameter(stages, place) for place in places if place[0] == rank})
            for places in sorted(found) if len(places) > 1 and any(place[0] == rank for place in places)]


def _parameter(stages: dict[int, nn.Module], place: Place) -> nn.Parameter:
    _, stage, name = place
    found = dict(stages[stage].named_parameters(remove_duplicate=False))
    if name not in found:
        raise BadValue(f"stage {stage} has no parameter {name!r} to be tied: it has {', '.join(found) or 'none'}")
    return found[name]


def copy_checksums(families: list[Family]) -> dict[Place, str]:
    """What this rank's copies are, and a checksum of their numbers."""
    return {place: f"{list(p.shape)} {p.dtype}{'' if p.requires_grad else ' frozen'};{_checksum(p)}"
            for family in families for place, p in family.mine.items()}


def _checksum(tensor: Tensor) -> int:
    return zlib.crc32(tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy())


def check_equal(families: list[Family], prints_of_ranks: Sequence[dict[Place, str]]) -> None:
    """Raises `BadValue` that names the first two copies that are not the same."""
    known = {place: text for rank_prints in prints_of_ranks for place, text in rank_prints.items()}
    for family in families:
        first, *others = family.places
        for other in others:
            if known[other] != known[first]:
                kinds = sorted({known[place].partition(";")[0] for place in (first, other)})
                raise BadValue(f"{_named(first)} and {_named(other)} are copies of one parameter and differ"
                               f"{' (' + ' and '.join(kinds) + ')' if len(kinds) > 1 else ''}: start them from the "
                               "same numbers, as by one seed, and step them with the same optimizer")


def _named(place: Place) -> str:
    return f"{place[2]} of stage {place[1]} on rank {place[0]}"


def set_aside(families: list[Family]) -> dict[nn.Parameter, Tensor | None]:
    """Take away the gradients that copies have from before: they are sums already."""
    earlier = {p: p.grad for family in families for p in family.trained}
    for parameter in earlier:
        parameter.grad = None
    return earlier


@torch.no_grad()
def sum_copies(families: list[Family], rank: int, earlier: dict[nn.Parameter, Tensor | None], first_tag: int,
               process_group: dist.ProcessGroup | None = None) -> None:
    """Give every copy the sum of all copies' gradients, added up in the order of ranks: all get the same bits.

    Ranks are those within `process_group`; None: all ranks.
    """
    for family in families:
        if not (mine := family.trained):
            continue
        own = sum(p.grad if p.grad is not None else torch.zeros_like(p) for p in mine).contiguous()
        ranks = sorted({holder for holder, _, _ in family.places})
        total = torch.stack(list(_exchanged(own, rank, ranks, first_tag, process_group))).sum(0)
        for parameter in mine:
            before = earlier[parameter]
            parameter.grad = total.clone() if before is None else before + total


def _exchanged(own: Tensor, rank: int, ranks: list[int], tag: int, process_group: dist.ProcessGroup | None,
               ) -> Iterator[Tensor]:
    """What each rank has, in the order of `ranks`."""
    works = [dist.isend(own, group=process_group, group_dst=other, tag=tag) for other in ranks if other != rank]
    for other in ranks:
        part = own if other == rank else torch.empty_like(own)
        if other != rank:
            dist.recv(part, group=process_group, group_src=other, tag=tag)
        yield part
    for work in works:
        work.wait()
