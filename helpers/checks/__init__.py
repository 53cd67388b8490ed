"""Checks of the exercises: they take a learner's answer and say precisely what is wrong with it.

    activations      bytes saved for backward, what to recompute, a leak
                     gpt_numbers, leaks, recompute, saved_bytes
    collectives      collectives built from send and receive, and which to choose
                     building, choosing
    data_sharding    a sampler, the proof of a partition, means over unequal ranks
                     evaluations, means, partition, sampler
    ddp              buckets, accumulation, learning rates, a step in numbers, and where ranks diverge
                     accumulation, buckets, divergence, rates, step_numbers
    fsdp             a layer at a time, units, clipping, and a step in numbers
                     clipping, layer_at_a_time, step_numbers, wrapping
    judge            what all checks share: points, other processes, real ranks, forbidden packages
    memory           bytes of model state, by hand, by function, and measured
                     functions, measured, values
    pipeline         the order of 1F1B, the fullest moment, balanced stages, a mended order
                     balancing, mended_order, peaks, rank_order
    zero             a sharded Adam, gradient shards, and a step in numbers
                     gradient_shards, sharded_adam, step_numbers
    zero_bubble      a split backward, filled bubbles, and bubbles in numbers
                     bubble_numbers, filling, split_linear
"""
