"""Figures.  Each function draws data it is given on axes it is given, and returns the axes."""
from helpers.compare.plots.activations import growth, part_bars
from helpers.compare.plots.collectives import ring_frame, ring_strip
from helpers.compare.plots.figure import png
from helpers.compare.plots.fsdp import step_curves
from helpers.compare.plots.memory import memory_bars, residency_plot
from helpers.compare.plots.pipeline import bubble_curves, held_strip, pipeline_gantt, pipeline_picture
from helpers.compare.plots.times import gantt, times
from helpers.compare.plots.training import losses, who_draws

__all__ = ["bubble_curves", "gantt", "growth", "held_strip", "losses", "memory_bars", "part_bars", "pipeline_gantt",
           "pipeline_picture", "png", "residency_plot", "ring_frame", "ring_strip", "step_curves", "times", "who_draws"]
