"""A model, a card, a number of ranks: what fits."""
from __future__ import annotations

import ipywidgets as widgets

from helpers.compare.plots import memory_bars, png
from helpers.compare.widgets.controls import choice, follow, number_field, row
from helpers.compare.words.memory import fit_in_words
from helpers.facts.specs import CARDS, MODELS, card, model
from helpers.facts.units import in_unit
from helpers.predict.memory import RECIPES, recipe, state_by_term

MOST_RANKS = 128
ZERO_STAGE_NAMES = {"DDP (stage 0)": 0, "ZeRO-1": 1, "ZeRO-2": 2, "ZeRO-3, FSDP": 3}


def memory_explorer(model_name: str = "70B", recipe_name: str = "mixed", zero_stage: int = 3, ranks: int = 16,
                    card_name: str = CARDS[-1].name) -> widgets.VBox:
    """Model, recipe, stage, ranks and card; bars for all four stages and the smallest number of ranks."""
    controls = {
        "model_name": choice("model", [m.name for m in MODELS], model_name),
        "recipe_name": choice("recipe", list(RECIPES), recipe_name),
        "zero_stage": choice("stage", list(ZERO_STAGE_NAMES.items()), zero_stage),
        "card_name": choice("card", [c.name for c in CARDS], card_name),
    }
    controls["ranks"], slider = number_field("ranks", ranks, 1, MOST_RANKS)
    picture, words = widgets.Image(format="png", width=800), widgets.HTML()

    def redraw(_=None) -> None:
        chosen = {name: control.value for name, control in controls.items()}
        drawn = png(memory_bars(**_stages(**chosen)))
        words.value, picture.value = fit_in_words(**chosen), drawn       # together: one is about the other

    follow(redraw, *controls.values())
    return widgets.VBox([row(controls["model_name"], controls["recipe_name"]),
                         row(controls["zero_stage"], controls["card_name"]),
                         row(controls["ranks"], slider), words, picture])


def _stages(model_name: str, recipe_name: str, zero_stage: int, ranks: int, card_name: str) -> dict:
    """What `memory_bars` draws: all four stages, the chosen one marked, and the card's limit."""
    size, kept, limit = model(model_name).num_params, recipe(recipe_name), card(card_name)
    ledgers = {("> " if number == zero_stage else "") + name: state_by_term(size, ranks, number, kept)
               for name, number in ZERO_STAGE_NAMES.items()}
    return {"ledgers": ledgers, "limit_bytes": limit.memory_bytes, "unit": "GiB",
            "limit_name": f"card, {in_unit(limit.memory_bytes, 'GiB')}"}
