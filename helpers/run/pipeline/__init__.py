"""Play a pipeline schedule on real ranks: stages, messages between them, tied parameters, split backward.

    executor          Play a schedule on real gloo ranks, several stages on each if the schedule has it so
                      run_schedule
    messages          The messages of a schedule: a stage's output goes to the rank that needs it, its gradient comes
                      back
    player            What one rank does while a schedule is played: forward and backward of its stages, step by step
                      PlayedPart
    split_backward    Backward in two halves: I, the gradient for the input, now; W, the gradients for the weights, when
                      there is time
                      OwedWeights, deferred_weights
    tied_copies       Sum the gradients of parameters that several stages or ranks have copies of, so that copies stay
                      copies
"""
from helpers.run.launch import preload
from helpers.run.pipeline.executor import run_schedule
from helpers.run.pipeline.player import PlayedPart
from helpers.run.pipeline.split_backward import OwedWeights, deferred_weights

__all__ = ["OwedWeights", "PlayedPart", "deferred_weights", "run_schedule"]

preload(__name__)
