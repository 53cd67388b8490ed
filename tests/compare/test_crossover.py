"""Curves of all-reduces over sizes: what is drawn is what is played and predicted."""
import math

import matplotlib
import pytest

from helpers.compare.crossover import ALL_REDUCES, SIZES, curves
from helpers.compare.plots import png, times
from helpers.compare.widgets import crossover_explorer
from helpers.compare.words.collectives import link_in_words, times_in_words
from helpers.facts.network import Link, Network, network

matplotlib.use("agg")
LINKS = network(5e-6, 1 / 25e9)
NODES = Network(Link(5e-6, 1 / 25e9), ranks_per_node=4, between=Link(5e-6, 1 / 2.5e9))


def doubling_meets_ring(n, alpha_s, bytes_per_s):
    """Solved by hand for n a power of two."""
    steps = math.log2(n)
    return alpha_s * (2 * (n - 1) - steps) / ((steps - 2 * (n - 1) / n) / bytes_per_s)


@pytest.mark.parametrize("n", [2, 3, 8, 12, 32])
def test_played_is_predicted_at_every_size(n):
    found = curves(n, LINKS)
    assert set(found.predicted) == set(ALL_REDUCES) - {"double tree"}
    for name, line in found.predicted.items():
        assert found.played[name] == pytest.approx(line, rel=1e-9)


@pytest.mark.parametrize("n", [4, 8, 16])
def test_the_crossing_is_where_it_was_solved_to_be(n):
    assert curves(n, LINKS).crossover_bytes == pytest.approx(doubling_meets_ring(n, 5e-6, 25e9))


def test_small_tensors_want_few_messages_and_large_ones_few_bytes():
    found = curves(16, LINKS)
    assert found.fastest(SIZES[0]) == ["recursive doubling"]
    assert found.fastest(SIZES[-1]) == ["ring", "halving-doubling"]         # within a hundredth


@pytest.mark.parametrize("n", [12, 24])
def test_on_other_numbers_of_ranks_the_double_tree_is_best_in_between(n):
    """What lesson 02 says."""
    found = curves(n, LINKS)
    assert found.fastest(SIZES[0]) == ["recursive doubling"]
    assert ["double tree"] in [found.fastest(size) for size in SIZES]
    assert found.fastest(SIZES[-1]) == ["ring"]


def test_the_words_name_the_fastest_and_the_crossing():
    assert times_in_words(curves(16, LINKS)) == (
        "On 16 ranks the fastest, of the sizes played, is recursive doubling at 100 B to 100 KB; halving-doubling at "
        "1 MB to 100 MB; ring or halving-doubling at 1 GB. "
        "Recursive doubling and the ring are equally fast at 1,529 KB.")


def test_nodes_have_no_formula_unless_all_ranks_are_in_one():
    far, near = curves(8, NODES), curves(4, NODES)
    assert (far.predicted, far.crossover_bytes) == ({}, None)
    assert "Links differ, so there are no formulas" in times_in_words(far)
    assert near == curves(4, LINKS)


def test_the_picture_has_marks_lines_and_the_crossing():
    axes = times(curves(16, LINKS), SIZES)
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert labels == [*ALL_REDUCES, "doubling = ring: 1,529 KB"]
    assert axes.get_xscale() == axes.get_yscale() == "log"
    png(axes)


def parts(box):
    (alpha, _), (bandwidth, _), (ranks, links) = (row.children for row in box.children[:3])
    return {"alpha": alpha, "bandwidth": bandwidth, "ranks": ranks, "links": links, "words": box.children[3],
            "picture": box.children[4]}


@pytest.mark.parametrize(("control", "value", "crossing"), [
    ("alpha", 50, doubling_meets_ring(16, 50e-6, 25e9)), ("bandwidth", 100, doubling_meets_ring(16, 5e-6, 100e9)),
    ("ranks", 8, doubling_meets_ring(8, 5e-6, 25e9))])
def test_each_control_moves_the_crossing(control, value, crossing):
    shown = parts(crossover_explorer())
    before = bytes(shown["picture"].value)
    shown[control].value = value
    assert f"equally fast at {crossing / 1e3:,.0f} KB" in shown["words"].value
    assert bytes(shown["picture"].value) != before


def test_with_slow_links_between_nodes_there_is_no_crossing():
    shown = parts(crossover_explorer())
    shown["links"].value = 4
    assert "no formulas" in shown["words"].value
    shown["links"].index = 0
    assert "equally fast at 1,529 KB" in shown["words"].value


def test_a_link_in_words():
    assert link_in_words(Link(44e-6, 1 / 4.4e9)) == "alpha = 44 us, bandwidth 1 / beta = 4.4 GB/s"
    assert link_in_words(Link(44e-6, 0)) == "alpha = 44 us, bandwidth 1 / beta = beyond measure"
