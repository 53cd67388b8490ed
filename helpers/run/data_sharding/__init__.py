"""Which samples each rank draws: looked at before training, and what a batch's parts weigh."""
from helpers.run.data_sharding.random_state import undisturbed
from helpers.run.data_sharding.sampler import check_sampling, what_is_drawn

__all__ = ["check_sampling", "undisturbed", "what_is_drawn"]
