"""The three ways to start ranks run the same program; what is measured is that, and not nothing."""
import pytest

from helpers.run.commands import start_cost


@pytest.mark.parametrize("world_size", [1, pytest.param(2, marks=pytest.mark.soak)])
def test_each_way_runs_its_ranks(world_size):
    """All but one import torch on every rank."""
    assert start_cost.launch_seconds(world_size) > 0
    assert start_cost.spawn_seconds(world_size) > 0
    assert start_cost.torchrun_seconds(world_size) > 0


def test_the_program_sums_over_all_ranks():
    assert start_cost.launch(start_cost.add_up, 3).results == [111.0] * 3
