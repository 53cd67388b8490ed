"""Formulas of what loaders draw, against drawing."""
import random

import pytest

from helpers.facts.errors import BadValue
from helpers.predict.data_sharding import Drawn, drawn

WAYS = ("sampler", "one seed", "a seed a rank")


@pytest.mark.parametrize(("how", "expected"), [("sampler", Drawn(32, 1004, 1.0)), ("one seed", Drawn(126, 4012, 0.25))])
def test_a12_counts_of_1003_samples_on_4_ranks(how, expected):
    assert drawn(how, 1003, 4, 8) == expected


@pytest.mark.parametrize(("num_samples", "world_size", "batch_size"), [(1003, 4, 8), (40, 4, 8), (10, 3, 5), (6, 2, 6)])
def test_the_share_with_a_seed_a_rank_is_the_mean_of_many_draws(num_samples, world_size, batch_size):
    generator = random.Random(0)
    shares = [len({i for _ in range(world_size) for i in generator.sample(range(num_samples), batch_size)})
              / (world_size * batch_size) for _ in range(20_000)]
    assert drawn("a seed a rank", num_samples, world_size, batch_size).unique_share == pytest.approx(
        sum(shares) / len(shares), rel=3e-3)


@pytest.mark.parametrize("how", WAYS)
def test_one_rank_draws_each_sample_once_in_any_way(how):
    found = drawn(how, 17, 1, 5)
    assert (found.num_steps, found.num_draws, found.unique_share) == (4, 17, pytest.approx(1))


@pytest.mark.parametrize(("arguments", "says"), [
    (("sampler", 0, 4, 8), "1 or more"), (("sampler", 10, 0, 8), "1 or more"), (("one seed", 10, 4, 0), "1 or more"),
    (("one seed", 10, 4, 11), "no larger than the data"), (("seeds", 10, 4, 2), 'how is "sampler"'),
])
def test_what_cannot_be_is_refused(arguments, says):
    with pytest.raises(BadValue, match=says):
        drawn(*arguments)
