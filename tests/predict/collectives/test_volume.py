"""Bytes of a collective, held against rings that are really played."""
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.predict.collectives import SHARE_SENT, bytes_sent, step_elements_sent


def ring_pass(chunks, first, reduce):
    """N-1 steps in which rank r sends chunk first + r - step to its neighbour; gives elements sent by each rank."""
    world_size, sent = len(chunks), [0] * len(chunks)
    for step in range(world_size - 1):
        moving = [(rank, (first + rank - step) % world_size) for rank in range(world_size)]
        packets = [(rank, c, list(chunks[rank][c])) for rank, c in moving]
        for rank, c, packet in packets:
            sent[rank] += len(packet)
            neighbour = chunks[(rank + 1) % world_size]
            neighbour[c] = [a + b for a, b in zip(neighbour[c], packet, strict=True)] if reduce else packet
    return sent


def digits(world_size, length):
    """Rank r holds 10**r everywhere, cut in `world_size` chunks: digit r of a sum says how often r was added."""
    return [[[10**rank] * (length // world_size) for _ in range(world_size)] for rank in range(world_size)]


@pytest.mark.parametrize("world_size", [2, 3, 4, 8])
def test_a_played_ring_sends_what_the_formulas_say(world_size):
    length = 24
    chunks = digits(world_size, length)
    scattered = ring_pass(chunks, 0, reduce=True)
    assert all(chunks[rank][(rank + 1) % world_size] == [int("1" * world_size)] * (length // world_size)
               for rank in range(world_size))
    gathered = ring_pass(chunks, 1, reduce=False)
    assert all(chunk == [int("1" * world_size)] * (length // world_size) for rank in chunks for chunk in rank)
    assert set(scattered) == {bytes_sent("reduce_scatter", length, world_size)}
    assert set(gathered) == {bytes_sent("all_gather", length, world_size)}
    assert scattered[0] + gathered[0] == bytes_sent("all_reduce", length, world_size)


@pytest.mark.parametrize("world_size", [2, 3, 4, 8])
def test_an_all_to_all_sends_each_piece_but_the_own_one(world_size):
    length = 24
    destinations = [element * world_size // length for element in range(length)]        # of what rank 0 holds
    assert bytes_sent("all_to_all", length, world_size) == sum(rank != 0 for rank in destinations)


@pytest.mark.parametrize("world_size", [2, 3, 64])
@pytest.mark.parametrize("collective", ["broadcast", "send"])
def test_a_broadcast_and_a_send_pass_the_whole_tensor_on(collective, world_size):
    assert bytes_sent(collective, 100, world_size) == 100


@pytest.mark.parametrize(("collective", "factor"), [
    ("all_reduce", 1.5), ("all_gather", 0.75), ("reduce_scatter", 0.75)])
def test_on_four_ranks_the_factors_are_those_of_nccl_tests(collective, factor):
    assert bytes_sent(collective, 1e6, 4) == factor * 1e6


@pytest.mark.parametrize("collective", SHARE_SENT)
def test_one_rank_alone_sends_nothing(collective):
    assert bytes_sent(collective, 100, 1) == 0


@given(st.sampled_from(["all_reduce", "reduce_scatter", "all_gather", "all_to_all"]), st.integers(2, 10_000))
def test_more_ranks_send_more_and_never_reach_the_limit(collective, world_size):
    limit = 2 if collective == "all_reduce" else 1
    assert bytes_sent(collective, 1, world_size) < bytes_sent(collective, 1, world_size + 1) < limit


def test_an_unknown_collective_is_refused_with_the_list():
    with pytest.raises(ValueError, match=r"no collective 'allreduce'; there are all_reduce, reduce_scatter, "
                                         r"all_gather, all_to_all, broadcast, send$"):
        bytes_sent("allreduce", 1, 2)


@pytest.mark.parametrize("world_size", [0, -1, 2.0, True, None, "4"])
def test_a_world_size_that_is_no_count_is_refused(world_size):
    with pytest.raises(ValueError, match="world_size is a whole number from 1, not"):
        bytes_sent("all_reduce", 1, world_size)


@pytest.mark.parametrize(("stage", "elements"), [(0, 150), (1, 150), (2, 150), (3, 225)], ids=lambda v: f"C3-{v}")
def test_stages_1_and_2_send_what_ddp_sends_and_stage_3_half_as_much_again(stage, elements):
    """ZeRO, section 7: 2P, 2P, 2P and 3P, times (N-1)/N; here P = 100 and N = 4."""
    assert step_elements_sent(100, stage, 4) == elements


def test_row_c3_stage_3_without_resharding_sends_what_ddp_sends():
    assert step_elements_sent(100, 3, 4, reshard_after_forward=False) == step_elements_sent(100, 0, 4) == 150


@pytest.mark.parametrize("stage", [0, 1, 2])
def test_resharding_says_nothing_about_stages_that_keep_the_parameters(stage):
    assert step_elements_sent(100, stage, 4, reshard_after_forward=False) == step_elements_sent(100, stage, 4)


@pytest.mark.parametrize("stage", [-1, 4, 1.0, True, "3", None])
def test_a_stage_that_does_not_exist_is_refused(stage):
    with pytest.raises(ValueError, match=r"stage is 0 \(DDP\), 1, 2 or 3, not "):
        step_elements_sent(100, stage, 4)


@pytest.mark.parametrize("size", [-1, float("nan"), float("inf")])
def test_refuses_what_is_no_size(size):
    with pytest.raises(ValueError, match="full_bytes is a size in bytes, 0 or more"):
        bytes_sent("all_reduce", size, 2)
