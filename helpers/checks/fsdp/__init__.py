"""Checks of exercise set 06: a layer at a time, units, clipping, and a step in numbers.

    clipping           clipping by the global norm, of gradients that are partly sharded
                       ClipGradients, check_clip, check_clip_unseen
    layer_at_a_time    a step whose layers are gathered one at a time, against autograd in one process
                       LayerCase, check_layer_at_a_time, check_layer_at_a_time_unseen, LayerStep
    step_numbers       what FSDP sends with parameters freed or kept after forward, foretold and measured
                       sharding, sent, check_fsdp_step
    wrapping           a wrap for FSDP that trains, and gathers one block at a time
                       WrapCase, check_wrap, check_wrap_unseen, WrapResult
"""
from helpers.checks.fsdp import clipping, layer_at_a_time, step_numbers, wrapping
from helpers.run.launch import preload

__all__ = ["clipping", "layer_at_a_time", "step_numbers", "wrapping"]

preload(__name__)
