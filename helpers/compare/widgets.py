"""Controls that redraw a picture and the sentence beside it."""
from __future__ import annotations

from collections.abc import Callable

import ipywidgets as widgets

from helpers.compare.crossover import SIZES, curves
from helpers.compare.explain import fit_in_words, overlap_in_words, ring_in_words, sampling_in_words, times_in_words
from helpers.compare.frames import MOST_RANKS as MOST_IN_A_RING
from helpers.compare.frames import ring_frames
from helpers.compare.plots import gantt, memory_bars, png, ring_frame, times, who_draws
from helpers.compare.table import predicted_vs_measured
from helpers.facts.network import Link, Network, network
from helpers.facts.specs import CARDS, MODELS, card, model
from helpers.facts.units import MiB, in_unit
from helpers.predict.comm import bytes_sent
from helpers.predict.memory import RECIPES, recipe, state_by_term
from helpers.predict.overlap import backward_and_all_reduces
from helpers.run.launch import launch
from helpers.run.sampling import what_is_drawn

MOST_RANKS = 128
STAGES = {"DDP (stage 0)": 0, "ZeRO-1": 1, "ZeRO-2": 2, "ZeRO-3, FSDP": 3}


def memory_explorer(model_name: str = "70B", recipe_name: str = "mixed", stage: int = 3, ranks: int = 16,
                    card_name: str = CARDS[-1].name) -> widgets.VBox:
    """Model, recipe, stage, ranks and card; bars for all four stages and the smallest number of ranks."""
    controls = {
        "model_name": _choice("model", [m.name for m in MODELS], model_name),
        "recipe_name": _choice("recipe", list(RECIPES), recipe_name),
        "stage": _choice("stage", list(STAGES.items()), stage),
        "card_name": _choice("card", [c.name for c in CARDS], card_name),
    }
    controls["ranks"], slider = _number("ranks", ranks, 1, MOST_RANKS)
    picture, words = widgets.Image(format="png", width=800), widgets.HTML()

    def redraw(_=None) -> None:
        chosen = {name: control.value for name, control in controls.items()}
        drawn = png(memory_bars(**_stages(**chosen)))
        words.value, picture.value = fit_in_words(**chosen), drawn       # together: one is about the other

    _follow(redraw, *controls.values())
    return widgets.VBox([_row(controls["model_name"], controls["recipe_name"]),
                         _row(controls["stage"], controls["card_name"]),
                         _row(controls["ranks"], slider), words, picture])


def _follow(redraw: Callable, *controls: widgets.Widget) -> None:
    """Draw now, and whenever a control changes."""
    for control in controls:
        control.observe(redraw, names="value")
    redraw()


def _row(*controls: widgets.Widget) -> widgets.HBox:
    return widgets.HBox(controls, layout=widgets.Layout(flex_flow="row wrap"))      # wraps where it is narrow


def _choice(name: str, options: list, value) -> widgets.Dropdown:
    return widgets.Dropdown(description=name, options=options, value=value)


def all_reduce_explorer(world_size: int = 4, num_elements: int = 1_000_000) -> widgets.VBox:
    """World size and tensor; each change runs real ranks and shows what the kernel counted."""
    ranks, slider = _number("ranks", world_size, 1, 8)
    sizes = {"4 kB": 1_000, "400 kB": 100_000, "4 MB": 1_000_000, "16 MB": 4_000_000}
    size = _choice("tensor", list(sizes.items()), num_elements)
    shown = widgets.HTML()

    def redraw(_=None) -> None:
        expected = bytes_sent("all_reduce", 4 * size.value, ranks.value)
        rows = {f"sent by rank {r}": (expected, wire.sent)
                for r, wire in enumerate(launch(_all_reduce, ranks.value, size.value).wire)}
        shown.value = predicted_vs_measured(rows, unit="MB")._repr_html_()

    _follow(redraw, ranks, size)
    return widgets.VBox([_row(ranks, slider), size, shown])


def ring_explorer(world_size: int = 4) -> widgets.VBox:
    """Step through a ring all-reduce; the arrow keys move the slider."""
    ranks = _choice("ranks", list(range(2, MOST_IN_A_RING + 1)), world_size)
    step, slider = _number("steps done", 0, 0, 2 * (world_size - 1))
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
    return widgets.VBox([ranks, _row(step, slider), _row(picture, words)])


NODES = {"all alike": 0, "nodes of 4, ten times slower between": 4}


def crossover_explorer(alpha_us: int = 5, gigabytes_per_s: int = 25, world_size: int = 16) -> widgets.VBox:
    """Latency, bandwidth and ranks; all-reduces are played at each change."""
    alpha, alpha_slider = _number("latency, us", alpha_us, 1, 100)
    bandwidth, bandwidth_slider = _number("GB/s", gigabytes_per_s, 1, 400)
    ranks = _choice("ranks", [2, 3, 4, 8, 12, 16, 24, 32], world_size)
    nodes = _choice("links", list(NODES.items()), 0)
    picture, words = widgets.Image(format="png", width=800), widgets.HTML()

    def redraw(_=None) -> None:
        link = Link(alpha.value * 1e-6, 1e-9 / bandwidth.value)
        slow = Link(link.alpha_s, 10 * link.beta_s)
        net = Network(link, ranks_per_node=nodes.value, between=slow) if nodes.value else Network(link)
        found = curves(ranks.value, net)
        drawn = png(times(found, SIZES))
        words.value, picture.value = times_in_words(found), drawn

    _follow(redraw, alpha, bandwidth, ranks, nodes)
    return widgets.VBox([_row(alpha, alpha_slider), _row(bandwidth, bandwidth_slider), _row(ranks, nodes), words,
                         picture])


def _all_reduce(rank: int, world_size: int, num_elements: int) -> None:
    import torch
    import torch.distributed as dist

    dist.all_reduce(torch.ones(num_elements))


def _number(name: str, value: int, least: int, most: int) -> tuple[widgets.BoundedIntText, widgets.IntSlider]:
    """A field and a slider for one number; the field has the name that a slider cannot give a screen reader."""
    field = widgets.BoundedIntText(value=value, min=least, max=most, description=name)
    slider = widgets.IntSlider(value=value, min=least, max=most, continuous_update=False, readout=False)
    widgets.link((field, "value"), (slider, "value"))
    return field, slider


def _stages(model_name: str, recipe_name: str, stage: int, ranks: int, card_name: str) -> dict:
    """What `memory_bars` draws: all four stages, the chosen one marked, and the card's limit."""
    size, kept, limit = model(model_name).num_params, recipe(recipe_name), card(card_name)
    ledgers = {("> " if number == stage else "") + name: state_by_term(size, ranks, number, kept)
               for name, number in STAGES.items()}
    return {"ledgers": ledgers, "limit_bytes": limit.memory_bytes, "unit": "GiB",
            "limit_name": f"card, {in_unit(limit.memory_bytes, 'GiB')}"}


def overlap_explorer(gigabytes_per_s: int = 100, backward_ms: int = 20, world_size: int = 64, bucket_mib: int = 25,
                     layer_bytes: int = 436 * 10**6, num_layers: int = 32) -> widgets.VBox:
    """Links, backward's time, ranks and bucket limit; a predicted step and what of its messages is exposed."""
    bandwidth, bandwidth_slider = _number("GB/s", gigabytes_per_s, 1, 900)
    backward, backward_slider = _number("ms a layer", backward_ms, 1, 100)
    bucket, bucket_slider = _number("bucket MiB", bucket_mib, 1, 20_000)
    ranks = _choice("ranks", [2, 8, 64, 512, 4096], world_size)
    picture, words = widgets.Image(format="png", width=900), widgets.HTML()

    def redraw(_=None) -> None:
        links = network(5e-6, 1e-9 / bandwidth.value)
        step = backward_and_all_reduces([layer_bytes] * num_layers, [backward.value / 1e3] * num_layers, ranks.value,
                                        links, bucket.value * MiB)
        drawn = png(gantt({"predicted": step}))
        words.value, picture.value = overlap_in_words(step), drawn

    _follow(redraw, bandwidth, backward, bucket, ranks)
    return widgets.VBox([_row(bandwidth, bandwidth_slider), _row(backward, backward_slider),
                         _row(bucket, bucket_slider), ranks, words, picture])


def sampling_explorer(make_loader: Callable, kinds: list[str], num_samples: int = 22, world_size: int = 4,
                      batch_size: int = 3) -> widgets.VBox:
    """Samples, ranks, batch and kind of loader; real ranks say what they would draw.

    make_loader(kind, data, batch_size, rank, world_size) gives a DataLoader and what to call before each epoch.
    """
    samples, samples_slider = _number("samples", num_samples, 1, 60)
    ranks, ranks_slider = _number("ranks", world_size, 1, 6)
    batch, batch_slider = _number("batch", batch_size, 1, 12)
    kind = _choice("loader", kinds, kinds[0])
    picture, words = widgets.Image(format="png", width=900), widgets.HTML()

    def redraw(_=None) -> None:
        report = launch(what_is_drawn, ranks.value, make_loader, kind.value, samples.value, batch.value).results[0]
        drawn = png(who_draws(report))
        words.value, picture.value = sampling_in_words(report), drawn

    _follow(redraw, samples, ranks, batch, kind)
    return widgets.VBox([_row(samples, samples_slider), _row(ranks, ranks_slider), _row(batch, batch_slider),
                         kind, words, picture])
