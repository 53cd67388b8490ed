"""Checks of exercise set 03: bytes and all_reduces of a step of DDP, predicted and measured."""
from __future__ import annotations

import itertools
import math

from helpers.checks.judge.verdict import Verdict, is_number, number_verdict, plain, score, shown
from helpers.facts.buckets import buckets
from helpers.facts.measured import Wire
from helpers.facts.units import MiB
from helpers.predict.collectives import bytes_sent

WIDTHS = 64, 8192, 64, 8192, 32                     # of the perceptron
SHAPES = [shape for before, after in itertools.pairwise(WIDTHS) for shape in ((after, before), (after,))]
SIZES = [4 * math.prod(shape) for shape in SHAPES]
RANKS = 3


def check_ddp_step(predicted_bytes: object, predicted_all_reduces: object, measured: object) -> float:
    """3 points: bytes and all_reduces of a step of DDP on 3 ranks, and bytes as measured."""
    total = sum(SIZES)
    right = bytes_sent("all_reduce", total, RANKS)
    calls = len(buckets(SIZES, 4 * MiB, 1 * MiB))
    bytes_mistakes = {"is the size of the gradients": total, "is the number of parameters": total / 4,
                      "is the number of elements sent; a float32 has 4 bytes": right / 4,
                      "is half of an all_reduce": right / 2, "is what all ranks send together": right * RANKS}
    call_mistakes = {"is one for each parameter": len(SIZES), "is one for each layer; count bytes": len(SIZES) / 2,
                     "would be right if the first bucket had 4 MiB, too": len(buckets(SIZES, 4 * MiB, 4 * MiB))}
    return score([number_verdict(1, "bytes predicted", predicted_bytes, right, bytes_mistakes),
                  number_verdict(1, "all_reduces predicted", predicted_all_reduces, calls, call_mistakes),
                  Verdict(1, "bytes measured", _wrong_measured(measured, right))], "Predicted and measured agree.")


def _wrong_measured(measured: object, right: float) -> str | None:
    if measured is None or measured is ...:
        return "nothing here yet"
    if type(measured) not in (list, tuple) or len(measured) != RANKS:
        return f"a list of {RANKS} numbers is asked for, one for each rank, not {shown(measured)}"
    if any(type(one) is Wire for one in measured):
        return "these are the counters; the numbers are in each one's .sent"
    for rank, sent in enumerate(map(plain, measured)):
        if not is_number(sent):
            return f"rank {rank} has {shown(sent)}; a number of bytes is asked for"
        if abs(sent - right) < 1:
            return f"{right:,.0f} is the formula; what the kernel has counted has headers, too"
        if not right < sent < 1.05 * right:
            steps = round(sent / right)
            why = f": that is {steps} steps" if steps > 1 and steps * right < sent < 1.05 * steps * right else \
                ". Is the broadcast at construction counted, too?" if sent > right else ""
            return f"rank {rank} has {sent:,.0f}, which is not one step of DDP and some headers{why}"
    return None
