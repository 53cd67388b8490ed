"""ZeRO: optimizer state, gradients and parameters sharded over data-parallel ranks, one stage after the other."""
from helpers.run.launch import preload
from helpers.run.zero.stage_3 import ZERO_STAGES, Zero3
from helpers.run.zero.stages_1_2 import Zero1, Zero2
from helpers.run.zero.step_residency import watched_step

__all__ = ["ZERO_STAGES", "Zero1", "Zero2", "Zero3", "watched_step"]

preload(__name__)
