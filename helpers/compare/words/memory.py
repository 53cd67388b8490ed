"""The sentence beside the bars of lesson 01: what a rank holds, and whether its card holds that."""
from __future__ import annotations

from helpers.facts.specs import card, model
from helpers.facts.units import in_unit
from helpers.predict.memory import recipe, smallest_ranks, state_bytes


def fit_in_words(model_name: str, recipe_name: str, zero_stage: int, ranks: int, card_name: str) -> str:
    """How much model state a rank holds, whether the card holds it, and how many ranks would do."""
    size, kept, limit = model(model_name).num_params, recipe(recipe_name), card(card_name)
    held = state_bytes(size, ranks, zero_stage, kept)
    left = limit.memory_bytes - held
    verdict = (f"leaves {in_unit(left, 'GiB', 3)} of {in_unit(limit.memory_bytes, 'GiB', 3)} for activations and "
               "buffers" if left > 0 else f"is more than the card's {in_unit(limit.memory_bytes, 'GiB', 3)}")
    try:
        enough = smallest_ranks(size, limit.memory_bytes, zero_stage, kept)
        need = f"Smallest number of ranks for the model state alone: {enough}."
    except ValueError as error:
        need = f"For the model state alone, {error}."
    return (f"{model_name}, {kept.bytes_per_param} bytes per parameter, stage {zero_stage} on {ranks} "
            f"rank{'s' if ranks > 1 else ''}: {in_unit(held, 'GB')} ({in_unit(held, 'GiB')}) of model state a rank, "
            f"which {verdict}. {need}")
