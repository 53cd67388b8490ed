"""Which samples each rank draws, looked at before training; parts of a batch, and means over all of it.

    batches         A batch that ranks share: which samples are whose, and the mean over all of them when the parts are
                    unequal
                    global_mean, part_of_batch
    random_state    Draw from a loader, and leave all randomness as it was
                    preserved_random_state
    sampler         Which samples will each rank draw?  Ask before training, since no loss curve tells
                    check_sampling, what_is_drawn
"""
from helpers.run.data_sharding.batches import global_mean, part_of_batch
from helpers.run.data_sharding.random_state import preserved_random_state
from helpers.run.data_sharding.sampler import check_sampling, what_is_drawn
from helpers.run.launch import preload

__all__ = ["check_sampling", "global_mean", "part_of_batch", "preserved_random_state", "what_is_drawn"]

preload(__name__)
