"""Figures.  Each function draws data it is given on axes it is given, and returns the axes.

    activations    What forward keeps: the parts of a block, and how they grow with the sequence
                   growth, part_bars
    collectives    A ring of ranks, step by step
                   ring_frame, ring_strip
    figure         What all pictures share: colours, and how a figure becomes a file
                   png
    fsdp           What a rank holds while a step of FSDP goes on
                   step_curves
    memory         What is where in memory
                   memory_bars, residency_plot
    pipeline       Pipelines: who does what when, what each rank holds meanwhile, and how bubbles shrink
                   bubble_curves, held_strip, pipeline_gantt, pipeline_picture
    times          What happens when, and how long it takes
                   times, gantt
    training       Samples and losses of a training run
                   losses, who_draws
"""
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
