"""Controls that redraw a picture and the sentence beside it.

    activations         Activations: a model, a card, ranks, a microbatch; what a rank holds beside its state
                        activation_explorer
    collectives         Collectives: real ones, one step by step, and those of any network
                        all_reduce_explorer, crossover_explorer, ring_explorer
    controls            Controls with a name and what they redraw
    ddp                 Data parallel: what its messages cost, and what its loaders draw
                        overlap_explorer, sampling_explorer
    fsdp                FSDP: a model, its units, ranks and settings; what a step sends and holds
                        fsdp_explorer
    memory              A model, a card, a number of ranks: what fits
                        memory_explorer
    pipeline            Pipelines: a schedule, its sizes and times; what it looks like, its bubble by each definition
                        and its memory
                        pipeline_explorer
    schedule_builder    The schedule builder: place steps by mouse or keyboard, be told why one is illegal, and play the
                        result for real
                        schedule_builder
    zero                ZeRO: what is alive when, on real ranks
                        residency_explorer
"""
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
