"""What stages of a GPT compute and hold."""
import pytest
import torch

from helpers.predict.flops import Shape, forward_flops, num_params
from helpers.predict.pipeline import stage_flops, stage_params
from helpers.run.measure.saved_tensors import counted_flops
from helpers.run.models import GPT

SHAPE = Shape(layers=4, hidden=64, seq=32, vocab=256, tied=False)


@pytest.mark.parametrize("blocks", [[4], [2, 2], [1, 1, 1, 1], [3, 0, 1]])
def test_stages_add_up_to_the_model(blocks):
    assert sum(stage_flops(SHAPE, blocks, batch=3)) == pytest.approx(sum(forward_flops(SHAPE, 3).values()))
    assert sum(stage_params(SHAPE, blocks)) == pytest.approx(num_params(SHAPE))


def test_flops_of_all_stages_are_those_that_run():
    model = GPT(layers=4, hidden=64, heads=4, vocab=256, max_seq=32)
    with counted_flops() as done, torch.no_grad():
        model(torch.zeros(2, 32, dtype=torch.long))
    assert sum(stage_flops(SHAPE, [2, 2], batch=2)) == done.num_flops


def test_the_first_stage_holds_a_table_that_costs_no_flops_and_the_last_one_that_does():
    first, second, third = stage_flops(SHAPE, [1, 1, 2])
    assert first == second
    assert third == 2 * second + 2 * 32 * 64 * 256
    first, second, third = stage_params(SHAPE, [1, 1, 2])
    assert first == second + 256 * 64 + 32 * 64
    assert third == 2 * second + 256 * 64


@pytest.mark.parametrize("blocks", [[], [3], [5], [5, -1], [2, 3]])
def test_blocks_that_do_not_add_up_are_refused(blocks):
    with pytest.raises(ValueError, match="add up to the 4 layers"):
        stage_flops(SHAPE, blocks)
    with pytest.raises(ValueError, match="add up to the 4 layers"):
        stage_params(SHAPE, blocks)
