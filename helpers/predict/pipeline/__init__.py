"""What a pipeline schedule takes and wastes: simulated, and by closed formulas."""
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
