"""Checks of exercise set 03: buckets, accumulation, learning rates, a step in numbers, and where ranks diverge.

    accumulation    accumulation under PyTorch's DDP, held against one process that has all samples
                    StepSeen, Microbatches, check_accumulation, check_accumulation_unseen
    buckets         gradients in buckets, on real ranks
                    BucketGradients, check_buckets, check_buckets_unseen
    divergence      the first step after which ranks are no longer one model
                    check_divergence
    rates           the learning rate that keeps the steps of a job when its ranks or batches change
                    right_rate, check_rate, check_rate_unseen
    step_numbers    bytes and all_reduces of a step of DDP, predicted and measured
                    check_ddp_step
"""
from helpers.checks.ddp import accumulation, buckets, divergence, rates, step_numbers
from helpers.run.launch import preload

__all__ = ["accumulation", "buckets", "divergence", "rates", "step_numbers"]

preload(__name__)
