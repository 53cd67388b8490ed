"""Collectives built from send and receive, over queues, gloo, or a virtual clock.

    clock             A clock that is computed: whose turn it is, and when each message arrives
    deadlock          Who waits for whom, in words, when no rank of a play can go on; and which messages do not fit
                      Deadlock
    doubling          All-reduce by partners at distances 1, 2, 4, ...: log2 N messages one after another
                      halving_doubling_all_reduce, recursive_doubling_all_reduce
    mesh              What a collective needs of a network: send, receive, and both at once
                      GlooMesh, Mesh, run_on_gloo
    message_cost      Time messages between real ranks, to find this machine's alpha and beta
                      message_seconds
    pipelined_ring    The ring, as fast as it gets: chunks go in pieces, and nobody waits at a step's end
                      pipelined_ring_all_reduce
    queue_mesh        A mesh of queues: real processes, no torch.distributed, numpy on the wire
                      QueueMesh, run_on_queues
    ring              Collectives from nothing but send and receive: the naive ones, and the ring
                      Chunks, naive_all_gather, naive_all_reduce, naive_all_to_all, naive_broadcast, naive_reduce,
                      naive_reduce_scatter, pairwise_all_to_all, ring_all_gather, ring_all_reduce, ring_reduce_scatter
    trees             Broadcast, reduce and all-reduce along trees: few messages one after another
                      double_tree, double_tree_all_reduce, tree_broadcast, tree_reduce
    virtual_mesh      Play a rank program on a virtual clock: any network, a thousand ranks, one process
                      Played, VirtualMesh, play
"""
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
