"""Collectives built from send and receive, over queues, gloo, or a virtual clock."""
from helpers.run.collectives.deadlock import Deadlock
from helpers.run.collectives.doubling import halving_doubling_all_reduce, recursive_doubling_all_reduce
from helpers.run.collectives.mesh import GlooMesh, Mesh, run_on_gloo
from helpers.run.collectives.message_cost import message_seconds
from helpers.run.collectives.pipelined_ring import pipelined_ring_all_reduce
from helpers.run.collectives.queue_mesh import QueueMesh, run_on_queues
from helpers.run.collectives.ring import (
    Chunks,
    naive_all_gather,
    naive_all_reduce,
    naive_all_to_all,
    naive_broadcast,
    naive_reduce,
    naive_reduce_scatter,
    pairwise_all_to_all,
    ring_all_gather,
    ring_all_reduce,
    ring_reduce_scatter,
)
from helpers.run.collectives.trees import double_tree, double_tree_all_reduce, tree_broadcast, tree_reduce
from helpers.run.collectives.virtual_mesh import Played, VirtualMesh, play
from helpers.run.launch import preload

__all__ = ["Chunks", "Deadlock", "GlooMesh", "Mesh", "Played", "QueueMesh", "VirtualMesh", "double_tree",
           "double_tree_all_reduce", "halving_doubling_all_reduce", "message_seconds", "naive_all_gather",
           "naive_all_reduce", "naive_all_to_all", "naive_broadcast", "naive_reduce", "naive_reduce_scatter",
           "pairwise_all_to_all", "pipelined_ring_all_reduce", "play", "recursive_doubling_all_reduce",
           "ring_all_gather", "ring_all_reduce", "ring_reduce_scatter", "run_on_gloo", "run_on_queues",
           "tree_broadcast", "tree_reduce"]

preload(__name__)
