"""Play a schedule on real gloo ranks, several stages on each if the schedule has it so.

    played = run_schedule(one_f_one_b(4, 8), {rank: stage}, inputs, targets, mse_loss, boundary=(4, 32))

Gradients are added to `.grad` of the stages' parameters.  They are those of one process on the whole batch if `loss_fn`
takes a mean: the loss of each microbatch is divided by their number.  If it takes a sum, scale=False gives them.

What one rank does is in `player.py`, messages are in `post.py`, parameters with several copies in `copies.py`.

Not supported: stages that take or give anything but one tensor of the same shape (the first may take what it likes);
that change their input in place; autocast.  A microbatch counts as much as any other, however many samples the loss
leaves out.  Layers that look at a whole batch (BatchNorm) see microbatches; buffers of copies are not made equal.

Held against torch.distributed.pipelining and one process in tests/run/test_pipeline.py.
"""
from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
import torch.distributed as dist
from torch import Tensor, nn

from helpers.facts.errors import BadValue
from helpers.facts.schedules import Schedule, to_csv, validate
from helpers.facts.schedules.durations import Durations, duration_of
from helpers.run.measure.gather_objects import gather_objects
from helpers.run.pipeline.messages import StageMessages
from helpers.run.pipeline.player import PlayedPart, Player
from helpers.run.pipeline.tied_copies import Tied, check_equal, copy_checksums, find_families, set_aside, sum_copies
from helpers.run.process_group import checked_group

__all__ = ["PlayedPart", "run_schedule"]


def run_schedule(schedule: Schedule, stages: dict[int, nn.Module], inputs: Tensor, targets: Tensor,
                 loss_fn: Callable[[Tensor, Tensor], Tensor], *, boundary: tuple[int, ...],
                 dtype: torch.dtype | None = None, scale: bool = True, tied: Sequence[Tied] = (),
                 pad_s: Durations | None = None, process_group: dist.ProcessGroup | None = None) -> PlayedPart:
    """One forward and backward of the whole batch; every rank of the group must call it.

    stages      {stage: module}, those that this rank holds
    inputs      [B, ...] of which the ranks with the first stage take microbatches; they get no gradient
    targets     [B, ...] likewise for the last stage
    boundary    shape of what one microbatch hands from stage to stage
    dtype       of that; None: PyTorch's default
    scale       divide each microbatch's loss by their number
    tied        [[(stage, name of parameter), ...], ...]: copies that are one parameter; they must start equal
    pad_s       how long each kind of step takes at least: sleeps for the rest, as if a device computed meanwhile
    process_group   the ranks of this pipeline: the schedule's rank 0 is the first of them; None: all ranks

    Returns what this rank's part came to.  Raises `BadValue` if its arguments cannot be meant, or others' differ.
    """
    rank, m = dist.get_rank(checked_group(process_group)), schedule.num_microbatches
    _check(schedule, rank, dist.get_world_size(process_group), stages)
    _check_batch(m, rank, inputs, targets)
    dtype, boundary = dtype or torch.get_default_dtype(), tuple(boundary)
    steps = schedule.steps[rank]
    least_s = [duration_of(pad_s, schedule.num_stages)(step) for step in steps] if pad_s else [0.0] * len(steps)
    families = find_families(schedule, rank, stages, tied)
    mine = _call(schedule, inputs, boundary, dtype, scale, tied), copy_checksums(families)
    calls, copies = zip(*gather_objects(mine, process_group), strict=True)     # nobody starts before all are here
    _check_alike(calls)
    check_equal(families, copies)
    earlier = set_aside(families)
    post = StageMessages(schedule, rank, boundary, dtype, process_group)
    microbatches = inputs.detach().chunk(m), targets.detach().chunk(m)
    player = Player(schedule, stages, microbatches, loss_fn, 1 / m if scale else 1.0, post)
    for (step, following), seconds in zip(pairwise((*steps, None)), least_s, strict=True):
        player.play(step, following, seconds)
    post.finish()
    sum_copies(families, rank, earlier, post.num_tags, process_group)
    return player.played


def _check(schedule: Schedule, rank: int, world_size: int, stages: dict[int, nn.Module]) -> None:
    validate(schedule)
    if schedule.num_ranks != world_size:
        raise BadValue(f"{schedule.name} is for {schedule.num_ranks} ranks, and there are {world_size}")
    given = sorted(stages) if isinstance(stages, dict) else f"a {type(stages).__name__}"
    if given != list(schedule.stages_of[rank]):
        raise BadValue(f"rank {rank} of {schedule.name} holds stages {list(schedule.stages_of[rank])}: give a dict "
                       f"with a module for each; given are {given}")


def _check_batch(m: int, rank: int, inputs: Tensor, targets: Tensor) -> None:
    if not (isinstance(inputs, Tensor) and isinstance(targets, Tensor)):
        raise BadValue(f"give rank {rank} the inputs and targets of the whole batch, as all others; not a "
                       f"{type(inputs).__name__} and a {type(targets).__name__}")
    if len(inputs) != len(targets) or len(inputs) % m or not len(inputs):
        raise BadValue(f"{len(inputs)} inputs and {len(targets)} targets cannot be cut into {m} equal microbatches: "
                       f"take a multiple of {m} of both")
    if not torch.is_grad_enabled():
        raise BadValue("there is no backward without gradients: call run_schedule outside torch.no_grad()")


def _call(schedule: Schedule, inputs: Tensor, boundary: tuple[int, ...], dtype: torch.dtype, scale: bool,
          tied: Sequence[Tied]) -> dict[str, str]:
    """What all ranks must be given alike."""
    return {"schedule": f"{schedule.name} with {schedule.num_microbatches} microbatches, "
                        f"order {zlib.crc32(to_csv(schedule).encode()):x}",
            "number of inputs": str(len(inputs)), "boundary": str(boundary), "dtype": str(dtype), "scale": str(scale),
            "tied": str([[(stage, name) for stage, name in copies] for copies in tied])}


def _check_alike(calls: Sequence[dict[str, str]]) -> None:
    for what, value in calls[0].items():
        for rank, call in enumerate(calls):
            if call[what] != value:
                raise BadValue(f"give all ranks the same {what}: rank 0 has {value}, rank {rank} has {call[what]}")
