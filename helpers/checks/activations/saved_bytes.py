"""Checks of exercise set 07: the bytes that a block keeps.

The oracle is the block itself: another process runs it and counts what autograd keeps.  What no machine could run is
worked out from small sequences, since a block's bytes are c s + d s * s.
"""
from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace

import torch

from helpers.checks.judge.other_process import Raised, answers, in_other_process
from helpers.checks.judge.verdict import CheckFailed, Verdict, first_wrong, is_number, score, shown, unseen
from helpers.run.measure.saved_tensors import saved

DTYPES = {4: torch.float32, 2: torch.bfloat16}


@dataclass(frozen=True)
class BlockCase:
    """What `kept_bytes` is called with."""

    seq: int = 16
    batch: int = 3              # not 2: its square would look like a second tensor
    hidden: int = 32
    heads: int = 4
    inner: int = 96
    element_bytes: int = 4

    @property
    def sb(self) -> int:
        """Tokens of a microbatch: sequence length times batch."""
        return self.seq * self.batch

    def __str__(self) -> str:
        return (f"{self.batch:,} x {self.seq:,} tokens, hidden {self.hidden}, heads {self.heads}, inner {self.inner}, "
                f"{self.element_bytes} bytes an element")


FIRST = BlockCase()
GIVEN_BYTES = 142_080           # that the block as it is given keeps for the first case
TWO_HEADS, WIDER, HALF = replace(FIRST, heads=2), replace(FIRST, inner=160), replace(FIRST, element_bytes=2)
OTHERS = (BlockCase(33, 3, 40, 5, 56, 2), BlockCase(7, 1, 64, 8, 300), BlockCase(64, 2, 48, 1, 24))
ENDLESS = BlockCase(131_072, 1000, 64, 16, 172, 2)           # probabilities of 550 TB
SMALL_SEQS = 8, 16


def check_saved_bytes(function: object, block_class: object) -> float:
    """3 points: what grows with heads, with the MLP's width, and the whole, in fp32 and bf16."""
    cases = (FIRST, TWO_HEADS, WIDER, HALF)
    right = _measured(block_class, cases)
    got = _answers(function, cases)
    failed = _raised(got.values())
    heads, inner = (failed or _wrong_growth(got, right, other) for other in (TWO_HEADS, WIDER))
    whole = failed or first_wrong(_wrong_whole(case, got[case], right[case]) for case in (FIRST, HALF))
    if heads or inner:
        whole = failed or "judged once these are right"
    return score([Verdict(1, "attention's probabilities", heads), Verdict(1, "the gated MLP", inner),
                  Verdict(1, "all of it, in fp32 and in bf16", whole)],
                 "To the byte. The grader's sizes cannot be run: does yours calculate?")


@unseen
def check_saved_bytes_unseen(function: object, block_class: object) -> float:
    """1 point: other shapes, and one that no machine holds."""
    right = _measured(block_class, (FIRST, *OTHERS)) | {ENDLESS: _extrapolated(block_class, ENDLESS)}
    got = _answers(function, (*OTHERS, ENDLESS))
    wrong = _raised(got.values()) or first_wrong(_wrong_whole(case, got[case], right[case]) for case in got)
    return score([Verdict(1, "other shapes", wrong)], "It holds for any shape.")


def _answers(function: object, cases: tuple[BlockCase, ...]) -> dict[BlockCase, object]:
    given = answers(function, [asdict(case) for case in cases], "a number of bytes")
    return dict(zip(cases, given, strict=True))


def _raised(values) -> str | None:
    return next((value.words for value in values if isinstance(value, Raised)), None) or next(
        (f"a number of bytes is asked for, not {shown(value)}" for value in values if not is_number(value)), None)


def _measured(block_class: object, cases: tuple[BlockCase, ...]) -> dict[BlockCase, int]:
    kept = in_other_process(_run_block, block_class, [asdict(case) for case in cases], ())
    right = dict(zip(cases, kept, strict=True))
    if right.get(FIRST, GIVEN_BYTES) != GIVEN_BYTES:
        raise CheckFailed("GatedBlock is not what it was: leave it as it was given")
    return right


def _run_block(block_class, case: dict) -> int:
    dtype = DTYPES[case.pop("element_bytes")]
    seq, batch = case.pop("seq"), case.pop("batch")
    block = block_class(**case).to(dtype)
    with saved(block) as kept:
        block(torch.ones(batch, seq, case["hidden"], dtype=dtype, requires_grad=True))
    return kept.num_bytes


def _extrapolated(block_class: object, case: BlockCase) -> int:
    """c s + d s s through two short sequences, times the batch."""
    small, twice = SMALL_SEQS
    one, two = _measured(block_class, tuple(replace(case, seq=seq, batch=1) for seq in SMALL_SEQS)).values()
    squared = (two - 2 * one) / (twice**2 - 2 * small**2)
    return round(case.batch * case.seq * (one / small - squared * small + squared * case.seq))


def _wrong_growth(got: dict, right: dict, other: BlockCase) -> str | None:
    """Judges the difference between the first case and another one, so that all other parts drop out."""
    more, expected = (abs(given[other] - given[FIRST]) for given in (got, right))
    if math.isclose(more, expected, rel_tol=1e-9):
        return None
    if other is TWO_HEADS:
        dropping = "34 and 5 are for a block that drops probabilities, and count an entry of a mask as 1 byte"
        words = {0: "nothing grows with heads", 0.25: "bytes are asked for, not elements",
                 0.5: "in fp32 an element has 4 bytes, not 2", 1.25: dropping, 2.5: dropping,
                 2: "of the scores before softmax nothing is kept: its backward needs what it gave",
                 1 / FIRST.batch: "each of the b sequences has its own", FIRST.batch:
                     "each of the b sequences has s s of them for a head; no token attends to another sequence"}
        return (f"4 heads instead of 2 make {more:,.0f} bytes more, and the block keeps {expected:,} more: "
                + words.get(more / expected, f"{more / expected:.3g} times as much"))
    each, rightly = (bytes_more / (64 * FIRST.sb * FIRST.element_bytes) for bytes_more in (more, expected))
    words = {0: "here the MLP has `inner` units, not 4 h", 1: "bytes are asked for, not elements",
             2: "that is GELU's MLP; what do silu and the product need?",
             3: "silu keeps what it got, the product both of its factors, down what it got",
             rightly + 3 * FIRST.hidden / FIRST.sb: "parameters are no activations"}
    return (f"a token and a unit of inner count {each:.3g} times element_bytes, and the block keeps {rightly:g} times: "
            + words.get(each, "go through gate, up, silu, the product and down"))


def _wrong_whole(case: BlockCase, got: float, right: int) -> str | None:
    if got == right:
        return None
    entries, sbh = (got - right) / case.element_bytes, case.sb * case.hidden
    known = {-4 * case.sb: "a norm keeps two numbers a token besides its input: mean and deviation",
             -2 * case.sb: "there are two norms, and each keeps two numbers a token",
             -sbh - 2 * case.sb: "there are two norms, and each keeps its input and two numbers a token",
             -sbh: "one tensor of s b h is missing: an input, or the mask of dropout",
             **{number * sbh: f"{many} of s b h too many: q, k and v have one input, and so have gate and up"
                for number, many in ((1, "one tensor"), (2, "two tensors"), (3, "three tensors"))},
             4 * case.sb * (4 / case.element_bytes - 1): "the norms' statistics have element_bytes here, too",
             -sbh * (1 - 1 / case.element_bytes): "on a CPU an entry of a mask is an element",
             4 * case.hidden**2 + 3 * case.hidden * case.inner: "parameters are no activations",
             right / case.element_bytes: "are elements of 2 bytes counted with 4?",
             right / case.element_bytes**2 - right / case.element_bytes: "bytes are asked for, not elements"}
    why = next((words for number, words in known.items() if math.isclose(entries, number, rel_tol=1e-9)),
               f"{abs(entries / sbh):.4g} s b h elements too {'many' if entries > 0 else 'few'}")
    return f"{case}: {got:,.0f} bytes, expected {right:,}: {why}"
