"""Checks of exercise set 04: a sampler, the proof of a partition, means over unequal ranks.

    evaluations    the accuracy of an evaluation whose samples ranks share, some of them twice
                   Evaluation, check_accuracy, check_accuracy_unseen
    means          means over ranks that have different numbers of samples
                   Counts, check_backward, check_backward_unseen, BatchGradients
    partition      the proof of a partition, and a script with a fault
                   check_proof, check_proof_unseen, check_script
    sampler        a sampler that cuts every epoch into parts, one for each rank
                   SamplerCase, check_sampler, check_sampler_unseen
"""
from helpers.checks.data_sharding import evaluations, means, partition, sampler
from helpers.run.launch import preload

__all__ = ["evaluations", "means", "partition", "sampler"]

preload(__name__)
