"""A rank with a small memory runs out of it as a card would, and only that rank."""
import pytest
import torch

from helpers.run.launch import RankFailed, launch, preload
from helpers.run.launch.check_call import INSIDE
from helpers.run.measure.memory_limit import limit_memory

MiB = 2**20


def fill(rank, world_size, limit_bytes, fill_bytes):
    if rank == 0:
        limit_memory(limit_bytes)
    return torch.ones(fill_bytes, dtype=torch.uint8).numel()


def test_what_fits_fits():
    assert launch(fill, 2, 64 * MiB, 48 * MiB).results == [48 * MiB] * 2


def test_what_does_not_fit_raises_on_that_rank():
    with pytest.raises(RankFailed, match=r"rank 0 of 2 raised RuntimeError: .*can't allocate memory"):
        launch(fill, 2, 64 * MiB, 80 * MiB)


def test_the_limit_ends_with_the_run():
    with pytest.raises(RankFailed):
        launch(fill, 1, MiB, 80 * MiB)
    assert launch(fill, 1, 128 * MiB, 80 * MiB).results == [80 * MiB]


@pytest.mark.parametrize("nonsense", [0, -1, float("nan")])
def test_nonsense_is_refused(nonsense, monkeypatch):
    monkeypatch.setenv(INSIDE, "0")
    with pytest.raises(ValueError, match="num_bytes is above 0"):
        limit_memory(nonsense)


def test_the_notebook_itself_is_never_limited():
    with pytest.raises(ValueError, match="here it would limit the notebook for good"):
        limit_memory(MiB)


preload(__name__)
