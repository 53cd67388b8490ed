"""FSDP: a model, its units, ranks and settings; what a step sends and holds."""
from __future__ import annotations

from dataclasses import dataclass

import ipywidgets as widgets

from helpers.compare.plots import memory_bars, png
from helpers.compare.widgets.controls import choice, follow, number_field, row
from helpers.compare.words.fsdp import sharding_in_words
from helpers.facts.specs import CARDS, model
from helpers.facts.units import GiB, MiB
from helpers.predict.fsdp import Sharding, peak_parts

MOST_RANKS = 512
UNITS = {"one block": 1, "two blocks": 2, "the whole model": 0}
RESHARD = {"on": True, "off": False}
DTYPES = {"fp32": ("fp32", "fp32"), "bf16, reduced in fp32": ("bf16", "fp32"), "bf16": ("bf16", "bf16")}


@dataclass(frozen=True)
class Stack:
    """Equal blocks; a language model's embedding and output layer are left out."""

    num_blocks: int
    block_params: float
    tensors_a_block: int        # taken as equally large; norms are left out


LAYERS = {"Llama 3.1 8B": 32, "Llama 3.1 70B": 80, "Llama 3.1 405B": 126}       # arXiv:2407.21783, table 3
STACKS = {"16 blocks of 4 MiB": Stack(16, 1024**2, 1)} | {
    f"{name}, {layers} blocks": Stack(layers, model(name).block_params, 7) for name, layers in LAYERS.items()}
LIMITS = {"140 MiB": 140 * MiB} | {card.name: card.memory_bytes for card in CARDS}


def fsdp_explorer(stack: str = "16 blocks of 4 MiB", blocks_a_unit: int = 1, reshard: bool = True, ranks: int = 4,
                  dtypes: str = "fp32", limit: str = "140 MiB") -> widgets.VBox:
    """Model, units, reshard_after_forward, dtypes, ranks, card; bars for six ways to shard, the chosen one marked."""
    controls = {
        "stack": choice("model", list(STACKS), stack),
        "blocks_a_unit": choice("unit", list(UNITS.items()), blocks_a_unit),
        "reshard": choice("reshard", list(RESHARD.items()), reshard), "dtypes": choice("dtypes", list(DTYPES), dtypes),
        "limit": choice("card", list(LIMITS), limit)}
    controls["ranks"], slider = number_field("ranks", ranks, 2, MOST_RANKS)
    picture, words = widgets.Image(format="png", width=800), widgets.HTML()

    def redraw(_=None) -> None:
        chosen = {name: control.value for name, control in controls.items()}
        small, limit_bytes = LIMITS[chosen["limit"]] < GiB, LIMITS[chosen.pop("limit")]
        unit = "MiB" if small else "GiB"
        drawn = png(memory_bars(_ways(**chosen), limit_bytes=limit_bytes, limit_name="card", unit=unit))
        words.value, picture.value = sharding_in_words(_sharding(**chosen), limit_bytes, unit), drawn

    follow(redraw, *controls.values())
    return widgets.VBox([row(controls["stack"], controls["limit"]), row(controls["blocks_a_unit"], controls["reshard"]),
                         row(controls["dtypes"]), row(controls["ranks"], slider), words, picture])


def _ways(**chosen) -> dict[str, dict[str, float]]:
    """The parts of the fullest moment for each unit, resharded or not."""
    ways = {}
    for unit, blocks in UNITS.items():
        for name, reshard in RESHARD.items():
            mark = "> " if (blocks, reshard) == (chosen["blocks_a_unit"], chosen["reshard"]) else ""
            ways[f"{mark}{unit}, reshard {name}"] = peak_parts(
                _sharding(**chosen | {"blocks_a_unit": blocks, "reshard": reshard}))
    return ways


def _sharding(stack: str, blocks_a_unit: int, reshard: bool, ranks: int, dtypes: str) -> Sharding:
    model_, size = STACKS[stack], blocks_a_unit or STACKS[stack].num_blocks
    return Sharding(model_.num_blocks * model_.block_params, model_.num_blocks // size, ranks, reshard,
                    model_.tensors_a_block * size, *DTYPES[dtypes])
