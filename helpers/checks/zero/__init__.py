"""Checks of exercise set 05: a sharded Adam, gradient shards, and a step in numbers.

    gradient_shards    gradients that are reduced and freed from inside backward
                       BucketCase, check_hook, check_hook_unseen, BackwardStates
    sharded_adam       Adam with a shard on each rank, against torch's Adam on the mean gradient
                       AdamCase, check_optimizer, check_optimizer_unseen
    step_numbers       a step of stage 2 foretold and measured, and six jobs to tell apart
                       check_zero_step, check_jobs
"""
from helpers.checks.zero import gradient_shards, sharded_adam, step_numbers
from helpers.run.launch import preload

__all__ = ["gradient_shards", "sharded_adam", "step_numbers"]

preload(__name__)
