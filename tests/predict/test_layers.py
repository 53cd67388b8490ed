"""What a layer sends, held against collectives that are played, and rings of links, held against routed pieces."""
from collections import Counter
from fractions import Fraction

import numpy
import pytest

from helpers.facts.network import network
from helpers.predict.layers import (
    MLP_COLLECTIVES,
    all_gather_s,
    mlp_bytes,
    ring_all_to_all_s,
    smallest_ring_block,
    stage_boundary_elements,
    tensor_parallel_elements,
    ulysses_elements,
)
from helpers.run.collectives import pairwise_all_to_all, play, ring_all_gather, ring_all_reduce, ring_reduce_scatter

RANKS = [1, 2, 3, 4, 8]


def played_elements(program, world_size, num_elements):
    """Elements that the busiest rank sends, one byte each; `world_size` divides `num_elements`."""
    run = play(lambda mesh: program(mesh, numpy.zeros(num_elements, numpy.int8)), world_size)
    return max(wire.sent for wire in run.wire)


def gather_and_scatter(mesh, tensor):
    ring_all_gather(mesh, tensor)
    ring_reduce_scatter(mesh, tensor)


@pytest.mark.parametrize("world_size", RANKS)
def test_a_tensor_parallel_layer_all_reduces_twice_forward_and_twice_backward(world_size):
    one = played_elements(ring_all_reduce, world_size, 2 * 3 * 24)
    assert tensor_parallel_elements(2, 3, 24, world_size) == pytest.approx(4 * one)
    assert tensor_parallel_elements(2, 3, 24, world_size, passes=1) == pytest.approx(2 * one)
    assert tensor_parallel_elements(2, 3, 24, world_size, passes=3) == pytest.approx(6 * one)


@pytest.mark.parametrize("world_size", RANKS)
def test_sequence_parallelism_sends_what_tensor_parallelism_sends(world_size):
    both = played_elements(gather_and_scatter, world_size, 2 * 3 * 24)
    assert tensor_parallel_elements(2, 3, 24, world_size, passes=1) == pytest.approx(2 * both)


def test_a_gpt_3_layer_on_eight_ranks_sends_176_million_elements_for_2048_tokens():
    assert tensor_parallel_elements(1, 2048, 12288, 8) == 7 * 2048 * 12288 == 176_160_768
    assert stage_boundary_elements(1, 2048, 12288) == 25_165_824


@pytest.mark.parametrize("tensor_ranks", RANKS)
def test_tensor_parallel_ranks_share_what_crosses_a_stage_boundary(tensor_ranks):
    activations = numpy.zeros((2, 3, 24))
    part = numpy.split(activations.ravel(), tensor_ranks)[0]
    assert stage_boundary_elements(2, 3, 24, tensor_ranks) == part.size


@pytest.mark.parametrize("world_size", RANKS)
def test_dp_all_reduces_both_matrices_after_backward(world_size):
    gradients = played_elements(ring_all_reduce, world_size, 2 * 8 * 24)
    assert mlp_bytes("DP", 5, 8, 24, world_size) == pytest.approx((0, 2 * gradients))


@pytest.mark.parametrize("world_size", RANKS)
def test_fsdp_gathers_both_matrices_twice_and_scatters_their_gradients(world_size):
    gathered = played_elements(ring_all_gather, world_size, 2 * 8 * 24)
    scattered = played_elements(ring_reduce_scatter, world_size, 2 * 8 * 24)
    assert mlp_bytes("FSDP", 5, 8, 24, world_size) == pytest.approx((2 * gathered, 2 * gathered + 2 * scattered))


@pytest.mark.parametrize("world_size", RANKS)
def test_tp_gathers_and_scatters_activations_in_each_direction(world_size):
    both = played_elements(gather_and_scatter, world_size, 24 * 8)
    assert mlp_bytes("TP", 24, 8, 7, world_size) == pytest.approx((2 * both, 2 * both))


def test_four_bytes_an_element_double_what_an_mlp_sends():
    for strategy in MLP_COLLECTIVES:
        half, full = (mlp_bytes(strategy, 24, 8, 16, 4, element_bytes) for element_bytes in (2, 4))
        assert full == pytest.approx((2 * half[0], 2 * half[1]))


@pytest.mark.parametrize("world_size", RANKS)
def test_ulysses_sends_three_tensors_to_its_heads_and_one_back(world_size):
    seq, hidden = 48, 24
    one = played_elements(pairwise_all_to_all, world_size, seq * hidden // world_size)
    assert ulysses_elements(seq, hidden, world_size) == pytest.approx(4 * one)


@pytest.mark.parametrize(("flop_per_s", "link_bytes_per_s", "element_bytes"), [(312e12, 300e9, 2), (1e15, 5e10, 4)])
def test_at_the_smallest_block_attention_takes_as_long_as_keys_and_values(flop_per_s, link_bytes_per_s, element_bytes):
    tokens, hidden = smallest_ring_block(flop_per_s, link_bytes_per_s, element_bytes), 128
    scores_and_values = 2 * (2 * tokens * tokens * hidden)          # two matrix products
    keys_and_values = 2 * tokens * hidden * element_bytes
    assert scores_and_values / flop_per_s == pytest.approx(keys_and_values / link_bytes_per_s)


@pytest.mark.parametrize("world_size", RANKS)
def test_a_played_ring_gathers_in_the_time_of_one_link(world_size):
    run = play(lambda mesh: ring_all_gather(mesh, numpy.zeros(240, numpy.int8)), world_size, network=network(0, 1 / 5))
    assert all_gather_s(240, world_size, 5) == pytest.approx(run.time_s)
    assert all_gather_s(240, world_size, 5, num_links=4) == pytest.approx(run.time_s / 4)


def busiest_link(world_size, both_ways):
    """Pieces over the busiest link when each rank sends one to every other; half each way to the rank opposite."""
    carried = Counter()
    for source in range(world_size):
        for away in range(1, world_size):
            short, long = away, world_size - away
            if not both_ways:
                ways = [(1, short, Fraction(1))]
            elif short == long:
                ways = [(1, short, Fraction(1, 2)), (-1, long, Fraction(1, 2))]
            else:
                ways = [(1, short, Fraction(1))] if short < long else [(-1, long, Fraction(1))]
            for step, hops, share in ways:
                for hop in range(hops):
                    carried[(source + step * hop) % world_size, step] += share
    return max(carried.values(), default=Fraction(0))


@pytest.mark.parametrize("both_ways", [False, True])
@pytest.mark.parametrize("world_size", [1, 2, 3, 4, 5, 8, 9])
def test_pieces_routed_hop_by_hop_load_the_links_as_the_formula_says(world_size, both_ways):
    piece_bytes = 7
    whole = piece_bytes * world_size**2
    expected = float(busiest_link(world_size, both_ways)) * piece_bytes / 5
    assert ring_all_to_all_s(whole, world_size, 5, both_ways) == pytest.approx(expected)


@pytest.mark.parametrize(("call", "says"), [
    (lambda: tensor_parallel_elements(-1, 2, 3, 4), "batch is a number from 0, not -1"),
    (lambda: tensor_parallel_elements(1, float("nan"), 3, 4), "seq is a number from 0, not nan"),
    (lambda: tensor_parallel_elements(1, 2, 3, 0), "world_size is a whole number from 1, not 0"),
    (lambda: tensor_parallel_elements(1, 2, 3, 4, passes=4), r"passes is 1 \(forward\), 2 \(and backward\) or 3"),
    (lambda: stage_boundary_elements(1, 2, float("inf")), "hidden is a number from 0, not inf"),
    (lambda: stage_boundary_elements(1, 2, 3, 0), "tensor_ranks is a whole number from 1, not 0"),
    (lambda: mlp_bytes("PP", 1, 2, 3, 4), "no strategy 'PP'; there are DP, FSDP, TP$"),
    (lambda: mlp_bytes("DP", 1, 2, -3, 4), "mlp_size is a number from 0, not -3"),
    (lambda: mlp_bytes("TP", 1, 2, 3, 4.0), "world_size is a whole number from 1, not 4.0"),
    (lambda: ulysses_elements(1, 2, 0), "world_size is a whole number from 1, not 0"),
    (lambda: smallest_ring_block(1e12, 0), "link_bytes_per_s is a number above 0, not 0"),
    (lambda: smallest_ring_block(-1, 1), "flop_per_s is a number above 0, not -1"),
    (lambda: all_gather_s(-1, 2, 3), "full_bytes is a size in bytes, 0 or more, not -1"),
    (lambda: all_gather_s(1, 2, 0), "link_bytes_per_s is a number above 0, not 0"),
    (lambda: all_gather_s(1, 2, 3, num_links=0), "num_links is a whole number from 1, not 0"),
    (lambda: ring_all_to_all_s(-1, 2, 3), "global_bytes is a number from 0, not -1"),
    (lambda: ring_all_to_all_s(1, True, 3), "world_size is a whole number from 1, not True"),
])
def test_a_value_that_cannot_be_meant_is_refused_with_what_to_give(call, says):
    with pytest.raises(ValueError, match=says):
        call()
