"""Activations: a model, a card, ranks, a microbatch; what a rank holds beside its state."""
from __future__ import annotations

from dataclasses import replace

import ipywidgets as widgets

from helpers.compare.plots import memory_bars, png
from helpers.compare.widgets.controls import choice, follow, number_field, row
from helpers.compare.widgets.memory import ZERO_STAGE_NAMES
from helpers.compare.words.activations import TrainingJob, job_in_words, ledger
from helpers.facts.specs import CARDS, TRANSFORMERS, card, transformer
from helpers.facts.units import in_unit
from helpers.predict.activations import ATTENTIONS, RECOMPUTES
from helpers.predict.memory import SHARDED_FROM

DIVIDED = {"none": (1, False), "2 ranks": (2, False), "8 ranks": (8, False), "8, sequence too": (8, True)}
SEQS = [512, 1024, 2048, 4096, 8192, 32768, 131072]
MOST_SEQUENCES = 64


def activation_explorer(model_name: str = "GPT 22B", card_name: str = CARDS[-1].name, ranks: int = 64,
                        zero_stage: int = 3, batch: int = 4, seq: int = 2048, attention: str = "stored",
                        recompute: str = "none", divided: tuple[int, bool] = (1, False)) -> widgets.VBox:
    """Model, card, ranks, stage, microbatch, attention, recomputation, tensor parallelism; bars and a sentence."""
    controls = {
        "model": choice("model", [(one.name, one) for one in TRANSFORMERS], transformer(model_name)),
        "ranks": choice("ranks", [8, 16, 64, 256, 1024], ranks),
        "zero_stage": choice("stage", list(ZERO_STAGE_NAMES.items()), zero_stage),
        "seq": choice("tokens", [(f"{tokens:,}", tokens) for tokens in SEQS], seq),
        "attention": choice("attention", list(ATTENTIONS), attention),
        "recompute": choice("recompute", list(RECOMPUTES), recompute)}
    cards, tensors = choice("card", [c.name for c in CARDS], card_name), choice("tensor p.", list(DIVIDED.items()),
                                                                               divided)
    controls["batch"], slider = number_field("sequences", batch, 1, MOST_SEQUENCES)
    picture, words = widgets.Image(format="png", width=800), widgets.HTML()

    def redraw(_=None) -> None:
        tensor_parallel, sequence_parallel = tensors.value
        chosen = {name: control.value for name, control in controls.items()}
        job = TrainingJob(**chosen, tensor_parallel=tensor_parallel,
                  sequence_parallel=sequence_parallel)
        limit = card(cards.value).memory_bytes
        drawn = png(memory_bars(recomputations(job), limit_bytes=limit, unit="GiB",
                                limit_name=f"card, {in_unit(limit, 'GiB')}"))
        words.value, picture.value = job_in_words(job, limit), drawn

    follow(redraw, *controls.values(), cards, tensors)
    return widgets.VBox([row(controls["model"], cards), row(controls["ranks"], controls["zero_stage"]),
                         row(controls["batch"], slider), row(controls["seq"], controls["attention"]),
                         row(controls["recompute"], tensors), words, picture])


def recomputations(job: TrainingJob) -> dict[str, dict[str, float]]:
    """What a rank holds for each way to recompute, the job's own marked; the state in one piece."""
    return {("> " if recompute == job.recompute else "") + recompute: _state_in_one(ledger(replace(
        job, recompute=recompute))) for recompute in RECOMPUTES}


def _state_in_one(terms: dict[str, float]) -> dict[str, float]:
    state = sum(num_bytes for term, num_bytes in terms.items() if term in SHARDED_FROM)
    return {"state": state} | {term: num_bytes for term, num_bytes in terms.items() if term not in SHARDED_FROM}
