"""Data parallel: what its messages cost, and what its loaders draw."""
from __future__ import annotations

from collections.abc import Callable

import ipywidgets as widgets

from helpers.compare.plots import gantt, png, who_draws
from helpers.compare.widgets.controls import choice, follow, number_field, row
from helpers.compare.words.data_sharding import sampling_in_words
from helpers.compare.words.ddp import overlap_in_words
from helpers.facts.network import network
from helpers.facts.units import MiB
from helpers.predict.ddp import backward_and_all_reduces
from helpers.run.data_sharding import what_is_drawn
from helpers.run.launch import launch


def overlap_explorer(gigabytes_per_s: int = 100, backward_ms: int = 20, world_size: int = 64, bucket_mib: int = 25,
                     layer_bytes: int = 436 * 10**6, num_layers: int = 32) -> widgets.VBox:
    """Links, backward's time, ranks and bucket limit; a predicted step and what of its messages is exposed."""
    bandwidth, bandwidth_slider = number_field("GB/s", gigabytes_per_s, 1, 900)
    backward, backward_slider = number_field("ms a layer", backward_ms, 1, 100)
    bucket, bucket_slider = number_field("bucket MiB", bucket_mib, 1, 20_000)
    ranks = choice("ranks", [2, 8, 64, 512, 4096], world_size)
    picture, words = widgets.Image(format="png", width=900), widgets.HTML()

    def redraw(_=None) -> None:
        links = network(5e-6, 1e-9 / bandwidth.value)
        step = backward_and_all_reduces([layer_bytes] * num_layers, [backward.value / 1e3] * num_layers, ranks.value,
                                        links, bucket.value * MiB)
        drawn = png(gantt({"predicted": step}))
        words.value, picture.value = overlap_in_words(step), drawn

    follow(redraw, bandwidth, backward, bucket, ranks)
    return widgets.VBox([row(bandwidth, bandwidth_slider), row(backward, backward_slider),
                         row(bucket, bucket_slider), ranks, words, picture])


def sampling_explorer(make_loader: Callable, kinds: list[str], num_samples: int = 22, world_size: int = 4,
                      batch_size: int = 3) -> widgets.VBox:
    """Samples, ranks, batch and kind of loader; real ranks say what they would draw.

    make_loader(kind, data, batch_size, rank, world_size) gives a DataLoader and what to call before each epoch.
    """
    samples, samples_slider = number_field("samples", num_samples, 1, 60)
    ranks, ranks_slider = number_field("ranks", world_size, 1, 6)
    batch, batch_slider = number_field("batch", batch_size, 1, 12)
    kind = choice("loader", kinds, kinds[0])
    picture, words = widgets.Image(format="png", width=900), widgets.HTML()

    def redraw(_=None) -> None:
        report = launch(what_is_drawn, ranks.value, make_loader, kind.value, samples.value, batch.value).results[0]
        drawn = png(who_draws(report))
        words.value, picture.value = sampling_in_words(report), drawn

    follow(redraw, samples, ranks, batch, kind)
    return widgets.VBox([row(samples, samples_slider), row(ranks, ranks_slider), row(batch, batch_slider),
                         kind, words, picture])
