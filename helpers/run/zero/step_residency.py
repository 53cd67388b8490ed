"""One step of a stage of ZeRO, watched: what is alive when, and what is sent."""
from __future__ import annotations

import torch
from torch import nn

from helpers.facts.errors import BadValue
from helpers.run.measure.meters import wire
from helpers.run.measure.residency import Residency, residency
from helpers.run.models import mlp
from helpers.run.zero.stage_3 import ZERO_STAGES
from helpers.run.zero.stages_1_2 import Zero1


def watched_step(rank: int, world_size: int, zero_stage: int, layers_together: int = 1, num_layers: int = 8,
                 width: int = 128, num_samples: int = 16, reshard_after_forward: bool = True) -> tuple[Residency, int]:
    """The second step, in which Adam has its moments: what is alive, and the bytes that this rank sends.

    zero_stage          1, 2 or 3, on `num_layers` layers [width, width] and inputs [num_samples, width], in fp32
    layers_together     layers of a bucket, or in stage 3 of a unit
    """
    if layers_together < 1:
        raise BadValue(f"a bucket or unit has at least one layer, not {layers_together!r}")
    layers = list(mlp(width, num_layers))
    model = nn.Sequential(*(nn.Sequential(*layers[start:start + layers_together])
                            for start in range(0, num_layers, layers_together)))
    zero = _of_stage(zero_stage, model, 4 * width**2 * layers_together, reshard_after_forward)

    def step() -> None:
        zero(torch.ones(num_samples, width)).sum().backward()
        zero.step()

    step()
    zero.zero_grad()
    with residency(zero.held()) as alive, wire() as sent:
        step()
    return alive, sent.sent


def _of_stage(zero_stage: int, model: nn.Sequential, bucket_bytes: int, reshard_after_forward: bool) -> Zero1:
    if zero_stage not in ZERO_STAGES:
        raise BadValue(f"zero_stage is 1, 2 or 3, not {zero_stage!r}")
    how = {"units": list(model), "reshard_after_forward": reshard_after_forward} if zero_stage == 3 else \
        {"bucket_bytes": bucket_bytes}
    return ZERO_STAGES[zero_stage](model, **how)
