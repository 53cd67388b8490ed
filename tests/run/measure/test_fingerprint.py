"""Ranks that are no longer the same model are found, before the tenth step, with the tensor and the rank named."""
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from helpers.run.launch import launch
from helpers.run.measure.fingerprint import Difference, fingerprint
from tests.run.measure import fingerprint_programs as programs

#           mistake                                seen after step, and said
SEEN = [
    (programs.WithoutBroadcast,                  0, "parameter 0.weight: no two ranks agree"),
    (programs.LoadsOnRank0AfterWrapping,         0, "parameter 0.weight: rank 0 differs from ranks 1, 2, 3"),
    (programs.StepsOnRank0Only,                  0, "parameter 0.weight: rank 0 differs from ranks 1, 2, 3"),
    (programs.SkipsAStepOnRank2,                 4, "parameter 0.weight: rank 2 differs from ranks 0, 1, 3"),
    (programs.UnfreezesAfterWrapping,            3, "parameter 0.weight: no two ranks agree"),
    (programs.LowersItsRateByItsOwnMetric,       1, "lr of the optimizer's group 0: rank 3 differs from ranks 0, 1, 2"),
    (programs.LowersItsRateUnwatched,            2, "parameter 0.weight: rank 3 differs from ranks 0, 1, 2"),
    (programs.KeepsItsOwnRunningStatistics,      0, "buffer 1.running_mean: no two ranks agree"),
    (programs.ForgetsMomentumOnRank1,            5, "optimizer's momentum_buffer of 2.bias: rank 1 differs from "
                                                    "ranks 0, 2, 3"),
    (programs.ResumesWithoutItsOptimizerOnRank1, 5, "optimizer's momentum_buffer of 0.weight: rank 1 differs from "
                                                    "ranks 0, 2, 3 (none instead of [32, 16] float32)"),
]
EQUAL = ["equal", "equal with an optimizer", "equal in another memory order"]
SAID = {                        # of ranks with odd tensors
    "nan": "parameter w: rank 2 differs from ranks 0, 1, 3",
    "minus zero": "parameter w: rank 1 differs from ranks 0, 2, 3",
    "a bit of bfloat16": "parameter w: rank 3 differs from ranks 0, 1, 2",
    "a bit of a large one": "parameter w: rank 3 differs from ranks 0, 1, 2",
    "int64 buffer": "buffer b: rank 1 differs from ranks 0, 2, 3",
    "bool buffer": "buffer b: rank 1 differs from ranks 0, 2, 3",
    "0-dim buffer": "buffer b: rank 1 differs from ranks 0, 2, 3",
    "empty buffer of another shape": "buffer b: rank 1 differs from ranks 0, 2, 3 "
        "([0, 4] float32 instead of [0, 3] float32)",
    "empty buffer of another dtype": "buffer b: rank 1 differs from ranks 0, 2, 3 ([0] bool instead of [0] int8)",
    "buffer that is not saved": "buffer b_lost: rank 1 differs from ranks 0, 2, 3",
    "buffer that a rank lacks": "buffer b: rank 1 differs from ranks 0, 2, 3 (none instead of [1] float32)",
    "sparse buffer": "buffer b: rank 2 differs from ranks 0, 1, 3",
    "transposed": "parameter w: rank 2 differs from ranks 0, 1, 3",
    "as many of each number": "parameter w: rank 2 differs from ranks 0, 1, 3",
    "tied on one rank": "parameter last: rank 0 differs from ranks 1, 2, 3 (none instead of [2] float32)",
    "shape": "parameter w: rank 2 differs from ranks 0, 1, 3 ([3, 3] float32 instead of [4, 3] float32)",
    "shape of rank 0": "parameter w: rank 0 differs from ranks 1, 2, 3 ([3, 3] float32 instead of [4, 3] float32)",
    "same bytes in another shape": "parameter w: rank 2 differs from ranks 0, 1, 3 "
        "([3, 4] float32 instead of [4, 3] float32)",
    "dtype": "parameter w: rank 2 differs from ranks 0, 1, 3 ([4] bfloat16 instead of [4] float16)",
    "name": "parameter w: rank 1 differs from ranks 0, 2, 3 (none instead of [2] float32)",
    "two and two": "parameter w: ranks 1, 3 differ from ranks 0, 2",
    "three groups": "parameter w: rank 3 and rank 2 differ from ranks 0, 1 and from each other",
    "all unlike": "parameter w: no two ranks agree",
    "momentum of a group": "momentum of the optimizer's group 1: rank 1 differs from ranks 0, 2, 3",
    "rate in a tensor": "lr of the optimizer's group 0: rank 3 differs from ranks 0, 1, 2",
    "second moment": "optimizer's exp_avg_sq of v: rank 2 differs from ranks 0, 1, 3",
    "step count": "optimizer's step of w: rank 1 differs from ranks 0, 2, 3",
    "history in a list": "optimizer's old_dirs of w: rank 1 differs from ranks 0, 2, 3",
}


@pytest.fixture(scope="module")
def trainings():
    return launch(programs.trainings, 4, timeout_s=60).results


@pytest.fixture(scope="module")
def differences():
    return launch(programs.differences, 4, timeout_s=60).results


def test_ten_steps_of_data_parallel_keep_the_ranks_equal(trainings):
    """The control: the same steps without a mistake."""
    assert [seen["Training"] for seen in trainings] == [None] * 4


@pytest.mark.parametrize(("mistake", "step", "says"), SEEN, ids=[mistake.__name__ for mistake, _, _ in SEEN])
def test_a_mistake_is_seen_after_the_step_that_makes_it(mistake, step, says, trainings):
    assert [seen[mistake.__name__] for seen in trainings] == [(step, says)] * 4


@pytest.mark.parametrize("name", EQUAL)
def test_what_is_equal_to_the_bit_has_no_difference(name, differences):
    assert [seen[name] for seen in differences] == [None] * 4


@pytest.mark.parametrize(("name", "says"), SAID.items(), ids=SAID)
def test_an_odd_difference_is_seen_and_said_alike_on_all_ranks(name, says, differences):
    assert all(isinstance(seen[name], tuple) for seen in differences), differences[0][name]
    assert [seen[name][0] for seen in differences] == [says] * 4


def test_every_case_is_expected():
    assert {*EQUAL, *SAID} == set(programs.CASES)


def test_groups_of_ranks_come_with_the_smallest_first(differences):
    assert differences[0]["two and two"][1] == ((1, 3), (0, 2))
    assert differences[0]["three groups"][1] == ((3,), (2,), (0, 1))


@pytest.mark.parametrize(("groups", "says"), [
    (((1,), (0,)), "x: rank 1 differs from rank 0"),
    (((1,), (0, 2)), "x: rank 1 differs from ranks 0, 2"),
    (((2, 3), (0, 1)), "x: ranks 2, 3 differ from ranks 0, 1"),
    (((2,), (1,), (0,)), "x: no two ranks agree"),
])
def test_a_difference_reads_as_a_sentence(groups, says):
    assert str(Difference("x", groups)) == says


@given(st.sampled_from([torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.uint8]),
       st.lists(st.integers(1, 4), max_size=3), st.integers(0, 10**6))
def test_any_bit_of_a_buffer_changes_its_hash_and_no_other(dtype, shape, bit):
    module = nn.Linear(2, 1)
    module.register_buffer("seen", torch.arange(torch.Size(shape).numel()).reshape(shape).to(dtype))
    module.register_buffer("other", torch.ones(shape, dtype=dtype))
    before = fingerprint(module)
    data = module.seen.reshape(-1).view(torch.uint8)
    data[bit // 8 % data.numel()] ^= 1 << bit % 8
    after = fingerprint(module)
    assert [name for name in before if before[name] != after[name]] == ["buffer seen"]


@pytest.fixture(scope="module")
def randomness():
    """On 3 ranks; the seeds are: one, one for each rank, another on rank 1, another on rank 0."""
    return list(zip(*launch(programs.randomness, 3).results, strict=True))


@pytest.mark.parametrize(("way", "alike"), [(0, (0, 1, 2)), (1, ()), (2, (0, 2)), (3, (1, 2))])
def test_ranks_of_equal_randomness_are_those_with_equal_dropout_masks(way, alike, randomness):
    said, masks, untouched = zip(*randomness[way], strict=True)
    assert said == (alike,) * 3
    assert {(a, b) for a in range(3) for b in range(3) if a != b and masks[a] == masks[b]} == {
        (a, b) for a in alike for b in alike if a != b}
    assert untouched == (True,) * 3


@pytest.mark.parametrize("world_size", [2, 4])
def test_comparing_a_million_parameters_costs_a_few_hundred_bytes_a_tensor(world_size):
    """64 parameters of 64 KiB; with Adam also two moments and a count of each, and names are sent along."""
    for num_params, alone, together in launch(programs.cost, world_size).results:
        assert num_params == 2**20
        assert alone < 64 * 100 * (world_size - 1)
        assert together < 64 * 4 * 100 * (world_size - 1)
