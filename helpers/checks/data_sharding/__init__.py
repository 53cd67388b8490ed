"""Checks of exercise set 04: a sampler, the proof of a partition, means over unequal ranks."""
from helpers.checks.data_sharding import means, partition, sampler

__all__ = ["means", "partition", "sampler"]
