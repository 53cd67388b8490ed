"""Play a pipeline schedule on real ranks: stages, messages between them, tied parameters, split backward."""
from helpers.run.launch import preload
from helpers.run.pipeline.executor import run_schedule
from helpers.run.pipeline.player import PlayedPart
from helpers.run.pipeline.split_backward import OwedWeights, deferred_weights

__all__ = ["OwedWeights", "PlayedPart", "deferred_weights", "run_schedule"]

preload(__name__)
