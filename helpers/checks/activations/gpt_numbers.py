"""Checks of exercise set 07: a GPT whose blocks recompute in full or selectively, foretold and measured."""
from __future__ import annotations

import math
from functools import cache

import torch

from helpers.checks.judge.verdict import Verdict, is_number, number_verdict, plain, score, shown
from helpers.predict.activations import RECOMPUTES, BlockShape, block_bytes
from helpers.predict.flops import Shape, recomputed_flops
from helpers.run.measure.saved_tensors import counted_flops, saved
from helpers.run.models import GPT

FULL, SELECTIVE = 2, 4                  # blocks, of which the full ones come first
LAYERS, HIDDEN, HEADS, VOCAB, SEQ, BATCH = FULL + SELECTIVE, 96, 6, 512, 64, 4
INSIDE = "blocks."                      # names of the modules that count
Numbers = tuple[int, int, int]          # bytes that blocks keep, bytes in all, FLOPs of a step


def check_gpt(predicted_bytes: object, predicted_flops: object, measured: object) -> float:
    """3 points: bytes that the blocks keep, FLOPs that are run again, and both measured."""
    return score([_bytes_verdict(predicted_bytes), _flops_verdict(predicted_flops),
                  Verdict(1, "both measured", _not_measured(measured))], "Foretold, and so it was.")


def _bytes_verdict(predicted: object) -> Verdict:
    block, sbh = BlockShape(SEQ, BATCH, HIDDEN, HEADS, 4, dropout=False), SEQ * BATCH * HIDDEN
    none, selective, full = (block_bytes(block, recompute=how) for how in RECOMPUTES)
    kept, papers = FULL * full + SELECTIVE * selective, (FULL * 2 + SELECTIVE * 34) * sbh
    return number_verdict(1, "bytes predicted", predicted, kept, {
        "is without recomputation": LAYERS * none,
        "has the probabilities, which selective recomputation drops": FULL * full + SELECTIVE * none,
        "would be right if all blocks recomputed selectively": LAYERS * selective,
        "would be right if all blocks recomputed in full": LAYERS * full,
        "would be right if four blocks recomputed in full and two selectively": SELECTIVE * full + FULL * selective,
        "leaves out the blocks that recompute in full: each keeps its input": SELECTIVE * selective,
        "is in bf16; here all is fp32": kept / 2,
        "is twice as much: 2 and 32 are bytes with 2 bytes an element; elements are 1 and 16": 2 * kept,
        "is in elements; bytes are asked for": kept / 4,
        "is with the paper's 2 and 34: those are bytes in bf16, with masks of dropout": papers,
        "is with the paper's 2 and 34 for bf16 doubled, and in 34 are masks of dropout": 2 * papers,
        "has the paper's 2 and 34 for elements: those are bytes in bf16, with masks of dropout": 4 * papers,
        "is with 65 tokens a sequence; the last one is a target only": kept * (SEQ + 1) / SEQ,
        "has masks of dropout; here there is none": FULL * full + SELECTIVE * block_bytes(
            BlockShape(SEQ, BATCH, HIDDEN, HEADS, 4), recompute="selective")})


def _flops_verdict(predicted: object) -> Verdict:
    (core, forward), longer = ([recomputed_flops(Shape(1, HIDDEN, seq), BATCH, how) for how in RECOMPUTES[1:]]
                               for seq in (SEQ, SEQ + 1))
    again = FULL * forward + SELECTIVE * core
    return number_verdict(1, "FLOPs predicted", predicted, again, {
        "is for the blocks that recompute in full alone": FULL * forward,
        "is for the selective ones alone": SELECTIVE * core,
        "would be right if all blocks recomputed in full": LAYERS * forward,
        "would be right if all blocks recomputed selectively": LAYERS * core,
        "would be right if four blocks recomputed in full and two selectively": SELECTIVE * forward + FULL * core,
        "is with the paper's equation 8, which counts three times what runs": FULL * forward + 3 * SELECTIVE * core,
        "is three times as much: only forward runs again, and once": 3 * again,
        "leaves attention's core out where the whole block runs again": again - FULL * core,
        "is one product where attention has two": again - SELECTIVE * core / 2,
        "is with 65 tokens a sequence; the last one is a target only": SELECTIVE * longer[0] + FULL * longer[1],
        "leaves out the last product of each, as early_stop does; here recomputation runs to the end":
            again - FULL * (forward - core) / 3 - SELECTIVE * core / 2,
        "is in multiplications; each counts with its addition, 2 FLOPs": again / 2})


@cache
def _of_step(full: int, selective: int) -> Numbers:
    """As measured here."""
    gpt = GPT(LAYERS, HIDDEN, HEADS, VOCAB, SEQ)
    for number, block in enumerate(gpt.blocks):
        block.recompute = "full" if number < full else "selective" if number < full + selective else "none"
    with saved(gpt) as kept, counted_flops() as done:
        gpt.loss(torch.zeros(BATCH, SEQ + 1, dtype=torch.long)).backward()
    inside = sum(num_bytes for module, num_bytes in kept.by_module.items() if module.startswith(INSIDE))
    return inside, kept.num_bytes, done.num_flops


def _not_measured(measured: object) -> str | None:
    if measured is None or measured is ...:
        return "nothing here yet"
    pair = [plain(number) for number in measured] if isinstance(measured, (list, tuple)) else []
    if len(pair) != 2 or not all(map(is_number, pair)):
        return f"a pair (bytes, FLOPs) is asked for, not {shown(measured)}"
    (kept, everything, flops), (unrecomputed, _, model_flops) = _of_step(FULL, SELECTIVE), _of_step(0, 0)
    known = {everything: "that is the whole model; count modules whose name begins with 'blocks.'",
             unrecomputed: "that is without recomputation", _of_step(LAYERS, 0)[0]: "that is with full in all blocks",
             _of_step(0, LAYERS)[0]: "that is with selective in all blocks",
             FULL * 4 * SEQ * BATCH * HIDDEN + SELECTIVE * 64 * SEQ * BATCH * HIDDEN:
                 "that is the formula; the norms keep their statistics, too. Is it measured?"}
    if pair[0] != kept:
        return f"{pair[0]:,.0f} bytes are not what the six blocks keep here: " + known.get(
            pair[0], "is it mixed_gpt(), with 4 sequences of 64 tokens and the next one?")
    if math.isclose(pair[1], flops - model_flops):
        return None
    known = {flops: "that is the whole step; those that are run again are asked for",
             model_flops: "that is a step without recomputation", model_flops - flops: "the other way round"}
    return f"{pair[1]:,.0f} FLOPs are not what this GPT runs again: " + known.get(
        pair[1], "take a step with and one without recomputation")
