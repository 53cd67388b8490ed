"""Checks of exercise set 07: bytes saved for backward, what to recompute, a leak.

    gpt_numbers    a GPT whose blocks recompute in full or selectively, foretold and measured
                   check_gpt
    leaks          training whose memory grows with every step, and its cure
                   Watched, check_leak
    recompute      the least recomputation that fits, against all splits and against bytes of real blocks
                   PlanCase, check_plan, check_plan_unseen
    saved_bytes    the bytes that a block keeps
                   BlockCase, check_saved_bytes, check_saved_bytes_unseen
"""
from helpers.checks.activations import gpt_numbers, leaks, recompute, saved_bytes
from helpers.run.launch import preload

__all__ = ["gpt_numbers", "leaks", "recompute", "saved_bytes"]

preload(__name__)
