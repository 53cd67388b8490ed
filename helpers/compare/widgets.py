"""Controls that redraw a picture and the sentence beside it."""
from __future__ import annotations

import ipywidgets as widgets

from helpers.compare.explain import fit_in_words
from helpers.compare.plots import memory_bars, png
from helpers.facts.specs import CARDS, MODELS, card, model
from helpers.predict.memory import RECIPES, recipe, state_by_term

MOST_RANKS = 512
STAGES = {"DDP (stage 0)": 0, "ZeRO-1": 1, "ZeRO-2": 2, "ZeRO-3, FSDP": 3}


def memory_explorer(model_name: str = "13B", recipe_name: str = "mixed", stage: int = 3, ranks: int = 8,
                    card_name: str = CARDS[0].name) -> widgets.VBox:
    """Model, recipe, stage, ranks and card; bars for all four stages and the smallest number of ranks.

    The slider is paired with a number field, since a slider has no name that a
    screen reader could read.
    """
    controls = {
        "model_name": _choice("model", [m.name for m in MODELS], model_name),
        "recipe_name": _choice("recipe", list(RECIPES), recipe_name),
        "stage": _choice("stage", list(STAGES.items()), stage),
        "card_name": _choice("card", [c.name for c in CARDS], card_name),
        "ranks": widgets.BoundedIntText(value=ranks, min=1, max=MOST_RANKS, description="ranks"),
    }
    slider = widgets.IntSlider(value=ranks, min=1, max=MOST_RANKS, continuous_update=False, readout=False)
    widgets.link((slider, "value"), (controls["ranks"], "value"))
    picture, words = widgets.Image(format="png", width=820), widgets.HTML()

    def redraw(_=None) -> None:
        chosen = {name: control.value for name, control in controls.items()}
        words.value = fit_in_words(**chosen)
        picture.value = png(memory_bars(**_stages(**chosen)))

    for control in controls.values():
        control.observe(redraw, names="value")
    redraw()
    return widgets.VBox([widgets.HBox([controls["model_name"], controls["recipe_name"]]),
                         widgets.HBox([controls["stage"], controls["card_name"]]),
                         widgets.HBox([controls["ranks"], slider]), words, picture])


def _choice(name: str, options: list, value) -> widgets.Dropdown:
    return widgets.Dropdown(description=name, options=options, value=value)


def _stages(model_name: str, recipe_name: str, stage: int, ranks: int, card_name: str) -> dict:
    """What `memory_bars` draws: all four stages, the chosen one marked, and the card's limit."""
    size, kept, limit = model(model_name).num_params, recipe(recipe_name), card(card_name)
    ledgers = {("> " if number == stage else "") + name: state_by_term(size, ranks, number, kept)
               for name, number in STAGES.items()}
    name = limit.name.split(",")[0]
    return {"ledgers": ledgers, "limit_bytes": limit.memory_bytes, "limit_name": name, "unit": "GiB"}
