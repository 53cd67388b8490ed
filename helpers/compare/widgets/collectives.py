"""Collectives: real ones, one step by step, and those of any network."""
from __future__ import annotations

import ipywidgets as widgets

from helpers.compare.crossover import SIZES, curves
from helpers.compare.plots import png, ring_frame, times
from helpers.compare.ring_frames import MOST_RANKS, ring_frames
from helpers.compare.table import predicted_vs_measured
from helpers.compare.widgets.controls import choice, follow, number_field, row
from helpers.compare.words.collectives import ring_in_words, times_in_words
from helpers.facts.network import Link, Network
from helpers.predict.collectives import bytes_sent
from helpers.run.launch import launch


def all_reduce_explorer(world_size: int = 4, num_elements: int = 1_000_000) -> widgets.VBox:
    """World size and tensor; each change runs real ranks and shows what the kernel counted."""
    ranks, slider = number_field("ranks", world_size, 1, 8)
    sizes = {"4 kB": 1_000, "400 kB": 100_000, "4 MB": 1_000_000, "16 MB": 4_000_000}
    size = choice("tensor", list(sizes.items()), num_elements)
    shown = widgets.HTML()

    def redraw(_=None) -> None:
        expected = bytes_sent("all_reduce", 4 * size.value, ranks.value)
        rows = {f"sent by rank {r}": (expected, wire.sent)
                for r, wire in enumerate(launch(_all_reduce, ranks.value, size.value).wire)}
        shown.value = predicted_vs_measured(rows, unit="MB")._repr_html_()

    follow(redraw, ranks, size)
    return widgets.VBox([row(ranks, slider), size, shown])


def _all_reduce(rank: int, world_size: int, num_elements: int) -> None:
    import torch
    import torch.distributed as dist

    dist.all_reduce(torch.ones(num_elements))


def ring_explorer(world_size: int = 4) -> widgets.VBox:
    """Step through a ring all-reduce; the arrow keys move the slider."""
    ranks = choice("ranks", list(range(2, MOST_RANKS + 1)), world_size)
    step, slider = number_field("steps done", 0, 0, 2 * (world_size - 1))
    picture, words = widgets.Image(format="png", width=640), widgets.HTML()

    def redraw(_=None) -> None:
        frame = ring_frames(ranks.value)[step.value]
        drawn = png(ring_frame(frame))
        words.value, picture.value = ring_in_words(frame), drawn

    def resize(_) -> None:
        step.unobserve(redraw, names="value")
        step.value = 0
        step.max = slider.max = 2 * (ranks.value - 1)
        step.observe(redraw, names="value")
        redraw()

    step.observe(redraw, names="value")
    ranks.observe(resize, names="value")
    redraw()
    return widgets.VBox([ranks, row(step, slider), row(picture, words)])


NODES = {"all alike": 0, "nodes of 4, ten times slower between": 4}


def crossover_explorer(alpha_us: int = 5, gigabytes_per_s: int = 25, world_size: int = 16) -> widgets.VBox:
    """Latency, bandwidth and ranks; all-reduces are played at each change."""
    alpha, alpha_slider = number_field("latency, us", alpha_us, 1, 100)
    bandwidth, bandwidth_slider = number_field("GB/s", gigabytes_per_s, 1, 400)
    ranks = choice("ranks", [2, 3, 4, 8, 12, 16, 24, 32], world_size)
    nodes = choice("links", list(NODES.items()), 0)
    picture, words = widgets.Image(format="png", width=800), widgets.HTML()

    def redraw(_=None) -> None:
        link = Link(alpha.value * 1e-6, 1e-9 / bandwidth.value)
        slow = Link(link.alpha_s, 10 * link.beta_s)
        net = Network(link, ranks_per_node=nodes.value, between=slow) if nodes.value else Network(link)
        found = curves(ranks.value, net)
        drawn = png(times(found, SIZES))
        words.value, picture.value = times_in_words(found), drawn

    follow(redraw, alpha, bandwidth, ranks, nodes)
    return widgets.VBox([row(alpha, alpha_slider), row(bandwidth, bandwidth_slider), row(ranks, nodes), words,
                         picture])
