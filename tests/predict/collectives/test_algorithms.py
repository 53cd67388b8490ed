"""Every closed form against the algorithm itself, played on the virtual clock: equal, not close."""
import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.facts.errors import BadValue
from helpers.facts.network import Link, Network, network
from helpers.predict.collectives import bytes_sent, cost, crossover_bytes
from helpers.predict.collectives.algorithms import ALGORITHMS
from helpers.run.collectives import play
from tests.run.collectives.gloo_collectives import BY_NAME

NETWORK = network(1_000_003, 101, 7)            # whole numbers, so that sums of times are exact


def played(name, num_elements, world_size, net=None):
    def program(mesh):
        BY_NAME[name](mesh, numpy.ones(num_elements, "f"))

    return play(program, world_size, **({"network": net} if net else {}))


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(sorted(ALGORITHMS)), st.integers(1, 300), st.integers(1, 64))
def test_predicted_is_played(name, num_elements, world_size):
    """Ragged sizes and any number of ranks: messages, bytes of the busiest rank, and time."""
    predicted, run = cost(name, num_elements, world_size), played(name, num_elements, world_size, NETWORK)
    assert predicted.sent == max(wire.sent for wire in run.wire)
    assert predicted.messages == played(name, num_elements, world_size).time_s
    if predicted.moved is not None:
        assert predicted.seconds(NETWORK) == run.time_s


def test_every_algorithm_has_its_cost_and_every_cost_its_algorithm():
    assert set(ALGORITHMS) == set(BY_NAME) - {"pipelined_ring_all_reduce"}


@pytest.mark.parametrize("collective", ["all_reduce", "reduce_scatter", "all_gather"])
@pytest.mark.parametrize("world_size", [2, 3, 4, 8, 1000])
def test_the_ring_sends_no_more_than_it_must(collective, world_size):
    elements = 24_000
    assert cost(f"ring_{collective}", elements, world_size).sent == bytes_sent(collective, 4 * elements, world_size)


def test_c6_the_cards_table():
    """Ring and tree as the card has them: bytes of T = 1 and steps on 8 ranks.

    The card's "tree, T log2 N" is recursive doubling; a double binary tree sends at most 2 T.
    """
    ring, doubling, tree = (cost(f"{name}_all_reduce", 8000, 8, 1 / 8000)
                            for name in ("ring", "recursive_doubling", "double_tree"))
    assert (ring.sent, ring.messages) == (2 * 7 / 8, 14)
    assert (doubling.sent, doubling.messages) == (3, 3)             # the card says 2 log2 N steps: those of the tree
    assert (tree.sent, tree.messages) == (2, 6)
    for name in ("all_gather", "reduce_scatter"):
        part = cost(f"ring_{name}", 8000, 8, 1 / 8000)
        assert (part.sent, part.messages) == (7 / 8, 7)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from([2, 4, 8, 16]), st.integers(1, 1000), st.integers(1, 1000), st.integers(0, 100))
def test_at_the_crossover_both_take_as_long(world_size, alpha, beta, gamma):
    net = network(alpha, beta, gamma)
    size = crossover_bytes("recursive_doubling_all_reduce", "ring_all_reduce", world_size, net)
    if world_size == 2:
        assert size == pytest.approx(alpha / (gamma / 2) if gamma else float("inf"))
    else:
        times = [cost(name, 960, world_size, size / 960).seconds(net)
                 for name in ("recursive_doubling_all_reduce", "ring_all_reduce")]
        assert times[0] == pytest.approx(times[1])


@pytest.mark.parametrize("world_size", [4, 8, 64])
def test_below_the_crossover_doubling_wins_and_above_it_the_ring_when_played(world_size):
    net, elements = network(5e-6, 1e-9), 64 * world_size
    size = crossover_bytes("recursive_doubling_all_reduce", "ring_all_reduce", world_size, net)
    for factor, faster in ((0.8, "recursive_doubling_all_reduce"), (1.25, "ring_all_reduce")):
        times = {name: play(lambda mesh, name=name: BY_NAME[name](mesh, numpy.ones(elements, "f")), world_size,
                            network=net, bytes_per_element=factor * size / elements).time_s
                 for name in ("recursive_doubling_all_reduce", "ring_all_reduce")}
        assert min(times, key=times.get) == faster


def test_a_crossover_that_is_always_or_never():
    assert crossover_bytes("ring_all_reduce", "halving_doubling_all_reduce", 8, network(1, 1)) == 0
    assert crossover_bytes("halving_doubling_all_reduce", "ring_all_reduce", 8, network(1, 1)) == float("inf")
    assert crossover_bytes("ring_all_reduce", "ring_all_reduce", 8, network(1, 1)) == 0


@pytest.mark.parametrize(("call", "says"), [
    (lambda: cost("bush_all_reduce", 8, 2), "no algorithm 'bush_all_reduce'; there are naive_broadcast"),
    (lambda: cost("ring_all_reduce", 8, 0), "world_size is a whole number from 1, not 0"),
    (lambda: cost("ring_all_reduce", 8, 2.0), "world_size is a whole number from 1, not 2.0"),
    (lambda: cost("ring_all_reduce", -1, 2), "num_elements is a whole number from 0, not -1"),
    (lambda: cost("ring_all_reduce", 8.0, 2), "num_elements is a whole number from 0, not 8.0"),
    (lambda: cost("double_tree_all_reduce", 8, 2).seconds(NETWORK), "depends on its segments"),
    (lambda: cost("ring_all_reduce", 8, 2).seconds(Network(Link(1, 1), 0, 2, Link(2, 2))), "all alike"),
    (lambda: cost("ring_all_reduce", 8, 2, -1), "element_bytes is a number of bytes above 0, not -1"),
    (lambda: crossover_bytes("ring_all_reduce", "recursive_doubling_all_reduce", 8, NETWORK), "in the other order"),
    (lambda: crossover_bytes("double_tree_all_reduce", "ring_all_reduce", 8, NETWORK), "depends on its segments"),
])
def test_bad_questions_are_answered_with_what_to_ask(call, says):
    with pytest.raises(BadValue, match=says):
        call()


def test_the_question_of_lesson_02_is_computed():
    """64 ranks, 14 GB of float32, 25 GB/s and 5 us: 71 seconds and 1.1."""
    links = network(5e-6, 1 / 25e9)
    naive, ring = (cost(f"{name}_all_reduce", 3_500_000_000, 64).seconds(links) for name in ("naive", "ring"))
    assert (round(naive), round(ring, 1)) == (71, 1.1)
    assert naive == pytest.approx(126 * 14 / 25, rel=1e-4)
