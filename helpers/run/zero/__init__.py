"""ZeRO: optimizer state, gradients and parameters sharded over data-parallel ranks, one stage after the other."""
from helpers.run.launch import preload
from helpers.run.zero.stage_3 import ZERO_STAGES, Zero3
from helpers.run.zero.stages_1_2 import Zero1, Zero2
from helpers.run.zero.step_residency import watched_step

__all__ = ["ZERO_STAGES", "Zero1", "Zero2", "Zero3", "watched_step"]

# PyTorch's ZeroRedundancyOptimizer, beside ours, is in a package that compiles when it is imported: two tenths of a
# second for each rank
preload(__name__, "torch.distributed.optim")
