"""Data parallel: every rank has the whole model and a part of the batch; gradients are averaged in buckets.

    broadcast            Start equal: all ranks of a process group get the model of its rank 0
                         broadcast_state
    ddp                  Data parallel: every rank has the whole model and its own part of the batch
                         DDP, NaiveDDP
    unused_parameters    Walk the graph that a forward has left for backward
                         parameters_behind, tensors_in
"""
from helpers.run.ddp.broadcast import broadcast_state
from helpers.run.ddp.ddp import DDP, NaiveDDP
from helpers.run.ddp.unused_parameters import parameters_behind, tensors_in
from helpers.run.launch import preload

__all__ = ["DDP", "NaiveDDP", "broadcast_state", "parameters_behind", "tensors_in"]

preload(__name__)
