"""The three ways to start ranks run the same program; what is measured is that, and not nothing."""
from helpers.run.commands import start_cost


def test_each_way_runs_four_ranks():
    assert start_cost.launch_seconds(2) > 0
    assert start_cost.spawn_seconds(2) > 0
    assert start_cost.torchrun_seconds(2) > 0


def test_the_program_sums_over_all_ranks():
    assert start_cost.launch(start_cost.add_up, 3).results == [111.0] * 3
