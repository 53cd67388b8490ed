"""ZeRO: optimizer state, gradients and parameters sharded over data-parallel ranks, one stage after the other.

    flat                 Parameters laid end to end in one flat tensor, of which every rank owns a chunk
    sharded_optimizer    An optimizer that knows only this rank's shard of the parameters
    stage_3              ZeRO stage 3: parameters are lent, a unit at a time
                         ZERO_STAGES, Zero3
    stages_1_2           ZeRO: data parallel whose ranks each keep a part of the state
                         Zero1, Zero2
    step_residency       One step of a stage of ZeRO, watched: what is alive when, and what is sent
                         watched_step
"""
from helpers.run.launch import preload
from helpers.run.zero.stage_3 import ZERO_STAGES, Zero3
from helpers.run.zero.stages_1_2 import Zero1, Zero2
from helpers.run.zero.step_residency import watched_step

__all__ = ["ZERO_STAGES", "Zero1", "Zero2", "Zero3", "watched_step"]

# PyTorch's ZeroRedundancyOptimizer, beside ours, is in a package that compiles when it is imported: two tenths of a
# second for each rank
preload(__name__, "torch.distributed.optim")
