"""ZeRO: what is alive when, on real ranks."""
from __future__ import annotations

import ipywidgets as widgets

from helpers.compare.plots import png, residency_plot
from helpers.compare.widgets.controls import choice, follow, number_field, row
from helpers.compare.words.zero import residency_in_words
from helpers.run.launch import launch
from helpers.run.zero import watched_step

ZERO_STAGE_NAMES = {"ZeRO-1": 1, "ZeRO-2": 2, "ZeRO-3": 3}
NUM_LAYERS, WIDTH = 8, 128


def residency_explorer(zero_stage: int = 2, world_size: int = 4, layers_together: int = 1,
                       num_samples: int = 16) -> widgets.VBox:
    """Stage, ranks, layers of a bucket or unit, samples; real ranks make a step, and its allocations are drawn."""
    stages = choice("stage", list(ZERO_STAGE_NAMES.items()), zero_stage)
    ranks, ranks_slider = number_field("ranks", world_size, 1, 6)
    together = choice("a unit is", [(f"{n} layer{'s' * (n > 1)}", n) for n in (1, 2, 4, 8)], layers_together)
    samples, samples_slider = number_field("samples", num_samples, 1, 256)
    picture, words = widgets.Image(format="png", width=640), widgets.HTML()

    def redraw(_=None) -> None:
        alive, sent = launch(watched_step, ranks.value, stages.value, together.value, NUM_LAYERS, WIDTH,
                             samples.value).results[0]
        drawn = png(residency_plot({f"{stages.label} on {ranks.value}": alive}, unit="KiB"))
        words.value = residency_in_words(alive, sent, stages.value, ranks.value, NUM_LAYERS * WIDTH**2)
        picture.value = drawn

    follow(redraw, stages, ranks, together, samples)
    return widgets.VBox([row(stages, together), row(ranks, ranks_slider), row(samples, samples_slider), words, picture])
