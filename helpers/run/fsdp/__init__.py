"""PyTorch's own FSDP2: cut a model into units, and watch what a step keeps and sends.

    units    Cut a stack of blocks into FSDP2 units, and watch what a rank holds during a step
             Moment, peak_of, shard, typical_peak, watch_steps, watched_bytes
"""
from helpers.run.fsdp.units import Moment, peak_of, shard, typical_peak, watch_steps, watched_bytes
from helpers.run.launch import preload

__all__ = ["Moment", "peak_of", "shard", "typical_peak", "watch_steps", "watched_bytes"]

preload(__name__)
