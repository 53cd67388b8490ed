"""Rank programs for what works inside a process group besides training: collectives, comparisons, refusals."""
from collections.abc import Iterator

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.nn.functional import mse_loss
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

from helpers.facts.errors import BadValue
from helpers.facts.schedules import gpipe
from helpers.run.collectives import GlooMesh, pipelined_ring_all_reduce, ring_all_reduce, tree_broadcast
from helpers.run.data_sharding import check_sampling, global_mean
from helpers.run.ddp import DDP, NaiveDDP, broadcast_state
from helpers.run.measure.fingerprint import first_difference, same_randomness
from helpers.run.measure.gather_objects import gather_objects
from helpers.run.measure.meters import wire
from helpers.run.models import perceptron
from helpers.run.pipeline import run_schedule
from helpers.run.zero import ZERO_STAGES

NUM_ELEMENTS = 100_003                          # of a ring whose bytes are counted, in fp32


def everything(rank: int, world_size: int) -> dict[str, object]:
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "pp"))
    pairs = mesh.get_group("dp")                # ranks 0 and 2, or 1 and 3
    row = mesh.get_group("pp")                  # ranks 0 and 1, or 2 and 3
    three = dist.new_group([1, 2, 3])           # on rank 0 a placeholder
    groups = [pairs, three] if rank else [pairs]
    strangers = {"a word": "dp", "a mesh": mesh} | ({} if rank else {"a placeholder": three})
    return {"ranks": [(GlooMesh(group).rank, GlooMesh(group).world_size) for group in groups],
            "wrong": [name for group in groups for name in unlike_torch(group)],
            "sent": sent_by_ring(rank, three), "compared": compared(rank, row, pairs), "drawn": drawn(row),
            "refused": {what: refusals(stranger) for what, stranger in strangers.items()}}


def unlike_torch(group: dist.ProcessGroup) -> Iterator[str]:
    """Our collectives that give something else on this group than torch's own."""
    mesh, last = GlooMesh(group), dist.get_world_size(group) - 1
    mine = torch.randn(37, generator=torch.Generator().manual_seed(dist.get_rank())).mul(1000).round()
    total, of_last = mine.clone(), mine.clone()
    dist.all_reduce(total, group=group)
    dist.broadcast(of_last, group=group, group_src=last)
    for name, right, ours in (("ring", total, ring_all_reduce),
                              ("pipelined ring", total, lambda m, t: pipelined_ring_all_reduce(m, t, piece_bytes=20)),
                              ("tree", of_last, lambda m, t: tree_broadcast(m, t, last))):
        given = mine.clone()
        ours(mesh, given)
        if not given.equal(right):
            yield name


def sent_by_ring(rank: int, three: dist.ProcessGroup) -> int:
    """Bytes that this rank sends while ranks 1 to 3 go round a ring."""
    dist.barrier()
    with wire() as sent:
        if rank:
            ring_all_reduce(GlooMesh(three), torch.ones(NUM_ELEMENTS))
        dist.barrier()
    return sent.sent


def compared(rank: int, row: dist.ProcessGroup, column: dist.ProcessGroup) -> dict[str, object]:
    """Each row has a model and a seed of its own; then ranks 1 and 3 change their model."""
    torch.manual_seed(rank // 2)
    model = perceptron(4, 3)
    found = {"all": first_difference(model).groups, "row": first_difference(model, process_group=row),
             "drawn alike in a row": same_randomness(row), "drawn alike in a column": same_randomness(column)}
    if rank % 2:
        model[0].bias.data += 1
    return found | {"row, one changed": str(first_difference(model, process_group=row))}


def drawn(row: dist.ProcessGroup) -> dict[str, object]:
    """Both rows draw all samples, each for itself."""
    sampler = DistributedSampler(range(12), num_replicas=2, rank=dist.get_rank(row))
    loader = DataLoader(range(12), batch_size=2, sampler=sampler)
    in_row = check_sampling(loader, before_epoch=sampler.set_epoch, process_group=row)
    in_all = check_sampling(loader, before_epoch=sampler.set_epoch)
    return {"row": (len(in_row.draws), in_row.num_repeats, in_row.faults),
            "all": (len(in_all.draws), in_all.num_repeats, [fault.kind for fault in in_all.faults])}


def refusals(group: object) -> dict[str, str]:
    """What each function says to something that is not a group of this rank."""
    x, said = torch.ones(2, 4), {}
    calls = {
        "NaiveDDP": lambda model: NaiveDDP(model, process_group=group),
        "DDP": lambda model: DDP(model, process_group=group),
        **{f"stage {number}": lambda model, stage=stage: stage(model, process_group=group)
           for number, stage in ZERO_STAGES.items()},
        "broadcast_state": lambda model: broadcast_state(model, group),
        "gather_objects": lambda model: gather_objects(1, group),
        "GlooMesh": lambda model: GlooMesh(group),
        "run_schedule": lambda model: run_schedule(gpipe(2, 2), {0: model}, x, x, mse_loss, boundary=(1, 4),
                                                   process_group=group),
        "global_mean": lambda model: global_mean(x.sum(), 2, group),
        "check_sampling": lambda model: check_sampling(DataLoader(range(4)), process_group=group),
        "first_difference": lambda model: first_difference(model, process_group=group),
        "same_randomness": lambda model: same_randomness(group),
    }
    for name, call in calls.items():
        try:
            call(nn.Sequential(nn.Linear(4, 4)))
            said[name] = "nothing"
        except BadValue as error:
            said[name] = str(error)
    return said
