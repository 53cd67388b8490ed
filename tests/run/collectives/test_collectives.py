"""Our algorithms equal torch's on gloo, and move the bytes that the formulas say."""
import itertools

import numpy
import pytest
import torch

from helpers.predict.collectives import cost
from helpers.predict.collectives.algorithms import ALGORITHMS
from helpers.run.collectives import ring, run_on_gloo
from tests.pairwise import pairwise
from tests.run.collectives import gloo_collectives

WORLD_SIZES = (1, 2, 3, 4, 5, 8)
SIZES = {"1": lambda n: 1, "N": lambda n: n, "3 N + 1": lambda n: 3 * n + 1, "64": lambda n: 64}     # elements
DTYPES = (torch.float32, torch.float64, torch.int64, torch.bfloat16)


PAIRS = pairwise(WORLD_SIZES, tuple(SIZES), DTYPES)


def wrong_ones(world_size, cases):
    """`cases` of names of sizes, and dtypes."""
    cases = [(SIZES[size](world_size), dtype) for size, dtype in cases]
    return run_on_gloo(gloo_collectives.wrong_ones, world_size, cases, timeout_s=120).results


@pytest.mark.ranks
@pytest.mark.parametrize("world_size", WORLD_SIZES)
def test_every_algorithm_gives_what_torch_gives(world_size):
    """Ragged sizes, also fewer elements than ranks."""
    cases = [case for n, *case in PAIRS if n == world_size]
    assert len(cases) >= len(SIZES)
    assert wrong_ones(world_size, cases) == [[]] * world_size


@pytest.mark.ranks
@pytest.mark.soak
@pytest.mark.parametrize("world_size", WORLD_SIZES)
def test_every_algorithm_gives_what_torch_gives_for_every_size_and_dtype(world_size):
    assert wrong_ones(world_size, itertools.product(SIZES, DTYPES)) == [[]] * world_size


@pytest.mark.ranks
@pytest.mark.parametrize("world_size", [2, 3, 4])
def test_the_kernel_counts_what_the_formulas_say(world_size):
    num_elements = 1_000_003                        # 4 MB, and ragged
    counted = run_on_gloo(gloo_collectives.bytes_sent, world_size, num_elements, timeout_s=120).results
    assert set(counted[0]) == {*ALGORITHMS, "pipelined_ring_all_reduce"}
    for name in counted[0]:
        busiest = max(sent[name] for sent in counted)
        expected = cost(name.removeprefix("pipelined_"), num_elements, world_size).sent
        assert busiest == pytest.approx(expected, rel=0.01), name


def test_chunks_are_those_of_torch():
    for size in range(20):
        for world_size in range(1, 9):
            expected = [chunk.tolist() for chunk in torch.arange(size).tensor_split(world_size)]
            for tensor in (torch.arange(size), numpy.arange(size)):
                assert [chunk.tolist() for chunk in ring.Chunks(tensor, world_size)] == expected
