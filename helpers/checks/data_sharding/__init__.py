"""Checks of exercise set 04: a sampler, the proof of a partition, means over unequal ranks."""
from helpers.checks.data_sharding import accuracy, means, partition, sampler
from helpers.run.launch import preload

__all__ = ["accuracy", "means", "partition", "sampler"]

preload(__name__)
