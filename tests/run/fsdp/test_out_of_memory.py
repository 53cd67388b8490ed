"""One model, one size of card: DDP never fits, one unit does not either, a unit for each block does."""
import re

import pytest

from helpers.predict.fsdp import Sharding, peak_bytes
from helpers.run.launch import RankFailed, launch
from tests.run.fsdp.fsdp_programs import MiB, on_a_small_card

CARD, PARAMS = 140 * MiB, 16 * 1024**2
ALWAYS = 8 * MiB                # what a rank needs besides: threads, sockets, code that runs for the first time


def death(world_size, how):
    """Bytes asked for, and the line of the program; who died first is a matter of milliseconds."""
    with pytest.raises(RankFailed) as failed:
        launch(on_a_small_card, world_size, how)
    message = str(failed.value)
    assert re.match(rf"ranks? [\d, and]+ of {world_size} raised RuntimeError: .*can't allocate memory", message)
    line = re.search(r'File "fsdp_programs.py", line \d+, in on_a_small_card\n    (.*)', message).group(1)
    return int(re.search(r"tried to allocate (\d+) bytes", message).group(1)), line


@pytest.mark.parametrize("world_size", [2, pytest.param(4, marks=pytest.mark.soak)])
def test_ddp_dies_in_backward_on_any_number_of_ranks(world_size):
    """64 MiB of parameters and 64 of buckets are there already; some gradient of 4 MiB is one too many."""
    assert death(world_size, "DDP") == (4 * MiB, "total.backward()")


@pytest.mark.parametrize("world_size", [2, pytest.param(4, marks=pytest.mark.soak)])
def test_a_model_that_is_one_unit_dies_when_it_is_gathered(world_size):
    """For 64 MiB at one time, with the shards and 64 MiB for the gathered model already there."""
    assert death(world_size, 1) == (64 * MiB, "total = model(torch.ones(4, 1024)).sum()")


@pytest.mark.parametrize("num_steps", [2, pytest.param(3, marks=pytest.mark.soak)])
def test_a_unit_for_each_block_trains_on_four_of_these_cards(num_steps):
    assert launch(on_a_small_card, 4, 16, num_steps=num_steps).results == ["trained"] * 4


def test_two_cards_must_be_larger():
    with pytest.raises(RankFailed, match=r"can't allocate memory|std::bad_alloc"):
        launch(on_a_small_card, 2, 16)
    assert launch(on_a_small_card, 2, 16, card_bytes=160 * MiB).results == ["trained"] * 2


@pytest.mark.parametrize(("world_size", "num_units", "card_bytes", "fits"), [
    (4, 16, CARD, True), (2, 16, CARD, False), (2, 16, 160 * MiB, True), (4, 1, CARD, False), (2, 1, CARD, False)])
def test_the_formula_knows_it_before(world_size, num_units, card_bytes, fits):
    needed = peak_bytes(Sharding(PARAMS, num_units, world_size, tensors_a_unit=16 // num_units))
    assert (needed + ALWAYS < card_bytes) == (needed < card_bytes) == fits
