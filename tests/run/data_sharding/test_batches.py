"""Data that is the same everywhere, parts of a batch, and the mean over all items of unequal ranks."""
import hashlib
import subprocess
import sys

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from helpers.run.data_sharding import global_mean, part_of_batch
from helpers.run.ddp import DDP
from helpers.run.launch import launch
from helpers.run.models import regression

HASH = ("import torch; torch.manual_seed(9); torch.rand(5); torch.set_num_threads(2); "
        "import hashlib; from helpers.run.models import regression; "
        "print([hashlib.sha256(t.numpy().tobytes()).hexdigest() for t in regression(100, 8, 3, seed=4).tensors])")
COUNTS = {                      # items, such as tokens, of each rank
    "2 and 30": [2, 30], "a rank without any": [7, 0, 5], "only one has any": [0, 0, 4], "equal": [3, 3],
}


def test_regression_is_the_same_in_another_process_and_whatever_was_drawn_before():
    there = subprocess.run([sys.executable, "-c", HASH], capture_output=True, text=True, check=True).stdout
    here = [hashlib.sha256(tensor.numpy().tobytes()).hexdigest() for tensor in regression(100, 8, 3, seed=4).tensors]
    assert there == f"{here}\n"


def test_regression_is_the_same_twice_and_moves_no_global_generator():
    before = torch.get_rng_state()
    first, second = regression(50), regression(50)
    assert all(map(torch.equal, first.tensors, second.tensors))
    assert torch.equal(torch.get_rng_state(), before)


def test_regression_of_another_seed_is_other_data():
    first, second = regression(50, seed=0), regression(50, seed=1)
    assert not any(map(torch.equal, first.tensors, second.tensors))


def test_regression_is_a_linear_map_and_noise_of_a_tenth():
    """Least squares in double precision finds the map again, and leaves the noise."""
    x, y = regression(4000, 8, 3).tensors
    assert (x.shape, y.shape) == ((4000, 8), (4000, 3))
    left = y.double() - x.double() @ torch.linalg.lstsq(x.double(), y.double()).solution
    assert left.std().item() == pytest.approx(0.1, rel=0.03)
    assert y.std().item() > 0.5


@given(st.integers(0, 200), st.integers(1, 40))
def test_parts_cut_any_batch_once_in_order_and_evenly(num_samples, world_size):
    batch = list(range(num_samples))
    parts = [batch[part_of_batch(num_samples, rank, world_size)] for rank in range(world_size)]
    assert [index for part in parts for index in part] == batch
    sizes = list(map(len, parts))
    assert max(sizes) - min(sizes) <= 1
    assert sizes == sorted(sizes, reverse=True)                 # the first ranks have one more


def test_parts_of_ten_samples_on_four_ranks():
    assert [part_of_batch(10, rank, 4) for rank in range(4)] == [slice(0, 3), slice(3, 6), slice(6, 8), slice(8, 10)]


def of_one_process(num_items):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 8), nn.Tanh(), nn.Linear(8, 4))
    x, y = regression(num_items).tensors
    nn.functional.mse_loss(model(x), y).backward()
    return [p.grad for p in model.parameters()]


def close(some, others) -> bool:
    return all(torch.allclose(a, b, rtol=1e-4, atol=1e-6) for a, b in zip(some, others, strict=True))


@pytest.mark.parametrize("counts", COUNTS.values(), ids=COUNTS)
def test_global_mean_gives_every_rank_the_gradient_of_one_process_on_all_items(counts):
    def program(rank, world_size):
        def gradients(wrap, loss_of):
            torch.manual_seed(0)
            ddp = wrap(nn.Sequential(nn.Linear(16, 8), nn.Tanh(), nn.Linear(8, 4)))
            x, y = regression(sum(counts)).tensors
            mine = slice(sum(counts[:rank]), sum(counts[:rank + 1]))
            each = nn.functional.mse_loss(ddp(x[mine]), y[mine], reduction="none").mean(dim=1)
            loss_of(each).backward()
            return [p.grad.clone() for p in ddp.parameters()]

        return {wrap.__name__: (gradients(wrap, lambda each: global_mean(each.sum(), len(each))),
                                gradients(wrap, lambda each: each.sum() / max(len(each), 1)))
                for wrap in (DDP, DistributedDataParallel)}

    expected = of_one_process(sum(counts))
    for result in launch(program, len(counts)).results:
        for right, mean_of_means in result.values():
            assert close(right, expected)
            assert close(mean_of_means, expected) == (len(set(counts)) == 1)


def test_two_tokens_weigh_as_much_as_thirty_in_a_mean_of_means():
    """A bias whose gradient is the mean of the tokens: 2 of value 16, 30 of 0 have mean 1; the mean of means is 8."""
    def program(rank, world_size):
        tokens = torch.full((2,), 16.0) if rank == 0 else torch.zeros(30)
        seen = []
        for loss_of in (lambda each: global_mean(each.sum(), len(each)), torch.mean):
            ddp = DistributedDataParallel(layer := nn.Linear(1, 1))
            loss_of(ddp(torch.zeros(len(tokens), 1)) * tokens[:, None]).backward()
            seen.append(layer.bias.grad.item())
        return seen

    assert launch(program, 2).results == [pytest.approx([1.0, 8.0])] * 2


def test_global_mean_of_a_loss_in_single_or_double_precision_keeps_it():
    """The loss itself, worked out by hand: world_size * sum / total = 2 * 3 / 5."""
    def program(rank, world_size):
        return [global_mean(torch.tensor(3.0, dtype=dtype), 2 + rank) for dtype in (torch.float32, torch.float64)]

    for single, double in launch(program, 2).results:
        assert (single.dtype, double.dtype) == (torch.float32, torch.float64)
        assert (single.item(), double.item()) == (pytest.approx(1.2, rel=1e-6), pytest.approx(1.2, rel=1e-12))


def test_global_mean_counts_exactly_where_new_tensors_are_bfloat16():
    """Scripts set that default to build a model in it; 1001 has more digits than bfloat16 holds."""
    def program(rank, world_size):
        torch.set_default_dtype(torch.bfloat16)
        return global_mean(torch.tensor(1001.0, dtype=torch.float32), 1001 if rank == 0 else 0).item()

    assert launch(program, 2).results == [pytest.approx(2.0, rel=1e-6)] * 2
