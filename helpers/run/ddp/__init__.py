"""Data parallel: every rank has the whole model and a part of the batch; gradients are averaged in buckets."""
from helpers.run.ddp.broadcast import broadcast_state
from helpers.run.ddp.ddp import DDP, NaiveDDP
from helpers.run.ddp.unused_parameters import parameters_behind, tensors_in
from helpers.run.launch import preload

__all__ = ["DDP", "NaiveDDP", "broadcast_state", "parameters_behind", "tensors_in"]

preload(__name__)
