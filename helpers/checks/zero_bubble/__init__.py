"""Checks of exercise set 10: a split backward, filled bubbles, and bubbles in numbers.

    bubble_numbers       printed bubbles that are not what is asked for, each held against counted idle slots
                         check_bubbles
    filling              an order that fills bubbles with W, under a memory cap
                         check_fill, check_fill_unseen
    split_linear         the backward of a linear layer in two halves, I and W
                         check_split, check_split_unseen
    split_linear_runs    Play a learner's split backward of a linear layer, in another process: values, FLOPs, bytes
                         that wait for W
"""
from helpers.checks.zero_bubble import bubble_numbers, filling, split_linear
from helpers.run.launch import preload

__all__ = ["bubble_numbers", "filling", "split_linear"]

preload(__name__)
