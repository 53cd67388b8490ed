"""PyTorch's own FSDP2: cut a model into units, and watch what a step keeps and sends."""
from helpers.run.fsdp.units import Moment, fullest, shard, typical_peak, watch_steps, watched

__all__ = ["Moment", "fullest", "shard", "typical_peak", "watch_steps", "watched"]
