"""Bandwidths as nccl-tests defines them, and a line through measured times."""
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.facts.errors import BadValue
from helpers.facts.network import Link, Network, network
from helpers.predict.collectives import algorithm_bandwidth, bus_bandwidth, cost, fit_link

SIZES = (4_000, 100_000, 1_000_000, 4_000_000)


@pytest.mark.parametrize("world_size", [2, 3, 8, 64])
@pytest.mark.parametrize("collective", ["all_reduce", "all_gather", "reduce_scatter"])
def test_a_ring_without_latency_shows_the_links_own_bandwidth(collective, world_size):
    """That is what the factor is for: the same figure whatever the number of ranks."""
    net, elements = network(0, 1e-9), 192_000
    seconds = cost(f"ring_{collective}", elements, world_size).seconds(net)
    assert bus_bandwidth(collective, 4 * elements, seconds, world_size) == pytest.approx(1e9)
    assert algorithm_bandwidth(4 * elements, seconds) > 0.5e9


@given(st.floats(1e-7, 1e-2), st.floats(1e-12, 1e-7))
def test_the_line_of_exact_times_is_found(alpha_s, beta_s):
    link = fit_link({size: alpha_s + size * beta_s for size in SIZES})
    for size in SIZES:
        assert link.alpha_s + size * link.beta_s == pytest.approx(alpha_s + size * beta_s, rel=1e-6)


def test_errors_count_by_their_share_so_that_small_messages_have_a_say():
    times = {size: 1e-4 + size * 1e-9 for size in SIZES}
    link = fit_link(times | {4_000_000: times[4_000_000] * 1.1})
    assert link.alpha_s == pytest.approx(1e-4, rel=0.1)


@pytest.mark.parametrize("times", [{1: 1.0, 2: 4.0}, {1: 4.0, 2: 1.0}, {1: 1.0, 2: 1.0}])
def test_neither_alpha_nor_beta_is_below_zero(times):
    link = fit_link(times)
    assert link.alpha_s >= 0
    assert link.beta_s >= 0


@pytest.mark.parametrize(("call", "says"), [
    (lambda: fit_link({4: 1.0}), "two sizes"),
    (lambda: fit_link({4: 1.0, 8: 0.0}), "above 0 s"),
    (lambda: bus_bandwidth("gather", 1, 1, 2), "no collective 'gather'; there are all_reduce"),
    (lambda: bus_bandwidth("reduce", 1, 1, 0), "world_size is a whole number from 1, not 0"),
    (lambda: algorithm_bandwidth(1, 0), "seconds is above 0, not 0"),
    (lambda: Link(-1, 0), "alpha_s is a number of seconds, 0 or more, not -1"),
    (lambda: Link("1", 0), "alpha_s is a number of seconds, 0 or more, not '1'"),
    (lambda: Link(0, float("nan")), "beta_s is a number of seconds, 0 or more, not nan"),
    (lambda: network(0, 0, float("inf")), "gamma_s is a number"),
    (lambda: Network(Link(0, 0), 0, 2), "belong together"),
    (lambda: Network(Link(0, 0), 0, 0, Link(0, 0)), "ranks_per_node is a whole number from 1, not 0"),
])
def test_bad_values_are_refused(call, says):
    with pytest.raises(BadValue, match=says):
        call()
