"""Controls that redraw a picture and the sentence beside it."""
from helpers.compare.widgets.activations import activation_explorer
from helpers.compare.widgets.collectives import all_reduce_explorer, crossover_explorer, ring_explorer
from helpers.compare.widgets.ddp import overlap_explorer, sampling_explorer
from helpers.compare.widgets.fsdp import fsdp_explorer
from helpers.compare.widgets.memory import memory_explorer
from helpers.compare.widgets.pipeline import pipeline_explorer
from helpers.compare.widgets.schedule_builder import schedule_builder
from helpers.compare.widgets.zero import residency_explorer

__all__ = ["activation_explorer", "all_reduce_explorer", "crossover_explorer", "fsdp_explorer", "memory_explorer",
           "overlap_explorer", "pipeline_explorer", "residency_explorer", "ring_explorer", "sampling_explorer",
           "schedule_builder"]
