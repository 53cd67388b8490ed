"""What a pipeline schedule takes and wastes: simulated, and by closed formulas.

    bubble           Bubbles in closed form
                     bubble_1f1b, bubble_dualpipe, bubble_dualpipev, bubble_fraction, bubble_interleaved,
                     bubble_zero_bubble
    longest_chain    The chain of steps that makes a trace as long as it is: each starts the moment that the one before
                     lets it
                     critical_path
    simulator        Play a schedule on a clock: no tensors, no processes
                     simulate
    stages           What each stage of a GPT computes and holds, by how many blocks it has
                     stage_flops, stage_params
"""
from helpers.predict.pipeline.bubble import (
    bubble_1f1b,
    bubble_dualpipe,
    bubble_dualpipev,
    bubble_fraction,
    bubble_interleaved,
    bubble_zero_bubble,
)
from helpers.predict.pipeline.longest_chain import critical_path
from helpers.predict.pipeline.simulator import simulate
from helpers.predict.pipeline.stages import stage_flops, stage_params

__all__ = ["bubble_1f1b", "bubble_dualpipe", "bubble_dualpipev", "bubble_fraction", "bubble_interleaved",
           "bubble_zero_bubble", "critical_path", "simulate", "stage_flops", "stage_params"]
