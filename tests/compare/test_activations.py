"""What a rank holds, in numbers, words and pictures; the numbers are worked out here a second time."""
import re

import matplotlib
import pytest

from helpers.compare.plots import growth, memory_bars, part_bars, png
from helpers.compare.widgets import activation_explorer
from helpers.compare.widgets.activations import recomputations
from helpers.compare.words.activations import (
    TrainingJob,
    held_bytes,
    job_in_words,
    largest_batch,
    least_recompute,
    ledger,
)
from helpers.facts.specs import TRANSFORMERS, transformer
from helpers.facts.units import GiB
from helpers.predict.activations import BlockShape

matplotlib.use("agg")

L, H, A, V = 48, 6144, 64, 51200                        # the 22B model of arXiv:2205.05198, table 3
GPT = transformer("GPT 22B")
SBH, SSBA = 2048 * 4 * H, 2048 * 2048 * 4 * A           # 4 sequences of 2,048 tokens
P = 12 * L * H**2 + 13 * L * H + (V + 2048) * H
JOB = TrainingJob(GPT, ranks=64, zero_stage=3, batch=4, seq=2048)
NONE, SELECTIVE, FULL = 34 * SBH + 5 * SSBA, 34 * SBH, 2 * SBH
OUTSIDE = SBH + 4 * SBH                                 # the embedding's mask; last norm's and output layer's input
LOGITS = 4 * 2048 * 4 * V


def job(**changes):
    return TrainingJob(**{"model": GPT, "ranks": 64, "zero_stage": 3, "batch": 4, "seq": 2048} | changes)


@pytest.mark.parametrize(("recompute", "a_block", "back"), [
    ("none", NONE, None), ("selective", SELECTIVE, 5 * SSBA), ("full", FULL, 32 * SBH + 5 * SSBA)])
def test_a_ledger_is_state_all_blocks_the_one_that_comes_back_and_logits(recompute, a_block, back):
    terms = ledger(job(recompute=recompute))
    assert sum(terms.pop(term) for term in ("parameter", "gradient", "master", "momentum", "variance")) == 16 * P / 64
    assert terms.pop("recomputed_block", None) == back
    assert terms == {"activations": L * a_block + OUTSIDE, "logits": LOGITS}


def test_tensor_parallel_ranks_share_the_model_and_the_rest_shard_its_state():
    terms = ledger(job(tensor_parallel=8))
    assert sum(size for term, size in terms.items() if term not in ("activations", "logits")) == 16 * P / 8 / 8
    assert terms["activations"] == L * (10 * SBH + 24 * SBH / 8 + 5 * SSBA / 8) + OUTSIDE
    assert terms["logits"] == LOGITS / 8
    assert ledger(job(tensor_parallel=8, sequence_parallel=True))["activations"] == (L * NONE + OUTSIDE) / 8


def test_only_the_state_shrinks_with_more_data_parallel_ranks():
    few, many = (ledger(job(ranks=ranks)) for ranks in (64, 1024))
    assert few.keys() == many.keys()
    assert {term: many[term] / few[term] for term in few} == pytest.approx(
        {term: 1 if term in ("activations", "logits") else 1 / 16 for term in few})


def test_flash_attention_holds_no_scores():
    assert ledger(job(attention="flash"))["activations"] == L * SELECTIVE + OUTSIDE


def test_ranks_that_tensor_parallelism_does_not_divide_are_refused():
    with pytest.raises(ValueError, match="ranks is a multiple of tensor_parallel = 8, not 12"):
        TrainingJob(GPT, ranks=12, tensor_parallel=8)


@pytest.mark.parametrize("recompute", ["none", "selective", "full"])
@pytest.mark.parametrize("limit", [24 * GiB, 80 * GiB])
def test_the_largest_batch_fits_and_one_more_does_not(recompute, limit):
    most = largest_batch(job(recompute=recompute), limit)
    assert not most or held_bytes(job(recompute=recompute, batch=most)) < limit
    assert held_bytes(job(recompute=recompute, batch=most + 1)) >= limit


def test_the_least_recomputation_is_found_just_above_what_each_holds():
    for recompute in ("none", "selective", "full"):
        held = held_bytes(job(recompute=recompute))
        assert least_recompute(JOB, held + 1) == recompute
        assert least_recompute(JOB, held) != recompute
    assert least_recompute(JOB, 10 * GiB) is None


def test_words_have_the_numbers():
    words = job_in_words(JOB, 80 * GiB)
    state, rest = 16 * P / 64, L * NONE + OUTSIDE + LOGITS
    assert f"state {state / GiB:.3g} GiB (stage 3 over 64 ranks)" in words
    assert f"activations and logits {rest / GiB:.3g} GiB, together {(state + rest) / GiB:.3g} GiB" in words


@pytest.mark.parametrize(("changes", "gib", "says"), [
    ({}, 80, "does not fit into 80 GiB. What would: recompute full, for 33 % more FLOPs."),
    ({"batch": 3}, 80, "What would: recompute selective, for 1.7 % more FLOPs. Flash attention would, too."),
    ({"recompute": "full"}, 80, "which fits into 80 GiB. The largest microbatch that does has 23 sequences."),
    ({"batch": 1, "attention": "flash", "recompute": "full"}, 80, "So does recompute none, which saves 33 % of FLOPs."),
    ({"zero_stage": 0}, 80, "The state alone is too much, and recomputation does not touch it: shard more."),
    ({"seq": 32768, "attention": "flash"}, 80, "No recomputation is enough; with full, 2 sequences fit."),
    ({"seq": 131072}, 80, "Not even one sequence does, fully recomputed: divide it, by tensor and sequence"),
    ({"seq": 512, "tensor_parallel": 64, "sequence_parallel": True}, 10**6, "4096 or more sequences"),
])
def test_words_say_whether_it_fits_and_what_would(changes, gib, says):
    assert says in job_in_words(job(**changes), gib * GiB)


@pytest.mark.parametrize("changes", [{}, {"batch": 3}, {"seq": 32768, "attention": "flash"}, {"batch": 60}])
def test_what_the_words_recommend_fits(changes):
    words = job_in_words(job(**changes), 80 * GiB)
    if found := re.search(r"What would: recompute (\w+)", words):
        assert held_bytes(job(**changes | {"recompute": found[1]})) < 80 * GiB
    if "Flash attention would" in words:
        assert held_bytes(job(**changes | {"attention": "flash"})) < 80 * GiB
    if found := re.search(r"with full, (\d+) sequence", words):
        assert held_bytes(job(**changes | {"recompute": "full", "batch": int(found[1])})) < 80 * GiB


def parts(box):
    (model, card), (ranks, stage), (batch, slider), (seq, attention), (recompute, divided) = (
        row.children for row in box.children[:5])
    return {"model": model, "card": card, "ranks": ranks, "stage": stage, "batch": batch, "slider": slider, "seq": seq,
            "attention": attention, "recompute": recompute, "divided": divided, "words": box.children[5],
            "picture": box.children[6]}


@pytest.mark.parametrize(("control", "value", "says"), [
    ("model", transformer("GPT-3 175B"), "GPT-3 175B, 4 x 2,048 tokens"), ("card", "40 GB, A100", "into 40 GiB"),
    ("ranks", 256, "stage 3 over 256 ranks"), ("stage", 1, "stage 1 over 64 ranks"), ("batch", 2, "2 x 2,048 tokens"),
    ("slider", 7, "7 x 2,048 tokens"), ("seq", 8192, "4 x 8,192 tokens"), ("recompute", "full", "recompute full: "),
    ("attention", "flash", "together 83.4 GiB"), ("divided", (8, True), "stage 3 over 8 ranks"),
])
def test_each_control_changes_words_and_picture(control, value, says):
    shown = parts(activation_explorer())
    assert shown["words"].value == job_in_words(JOB, 80 * GiB)
    before = shown["picture"].value
    shown[control].value = value
    assert says in shown["words"].value
    assert shown["picture"].value != before
    assert bytes(shown["picture"].value).startswith(b"\x89PNG")


def test_every_choice_of_the_widget_can_be_made():
    shown = parts(activation_explorer())
    for control in ("model", "card", "ranks", "stage", "seq", "attention", "recompute", "divided"):
        for option in shown[control].options:
            shown[control].value = option[1] if isinstance(option, tuple) else option
            assert "GiB" in shown["words"].value


def test_bars_are_as_long_as_the_ledgers_and_the_jobs_own_is_marked():
    axes = memory_bars(recomputations(job(recompute="selective")), unit="GiB")
    ends = [max(bar.get_x() + bar.get_width() for bar in axes.patches if round(bar.get_y() + 0.35) == row)
            for row in range(3)]
    assert ends == pytest.approx([held_bytes(job(recompute=how)) / GiB for how in ("none", "selective", "full")])
    assert [label.get_text() for label in axes.get_yticklabels()] == ["none", "> selective", "full"]
    png(axes)


def test_a_blocks_bars_are_its_parts():
    axes = part_bars(BlockShape(2048, 4, H, A))
    assert sum(bar.get_width() for bar in axes.patches) * 2**20 == pytest.approx(NONE)
    assert len(axes.patches) == 14
    assert sum(bar.get_hatch() is not None for bar in axes.patches) == 3
    assert {bar.get_facecolor() for bar in axes.patches} == {matplotlib.colors.to_rgba(one)
                                                            for one in ("#0072B2", "#D55E00")}
    png(axes)


def test_growth_draws_formulas_as_lines_and_measurements_as_marks():
    axes = growth({"stored": {32: 2**20, 64: 2**22}}, {"stored": {32: 2**21}})
    line, marks = axes.get_lines()
    assert (line.get_linestyle(), list(line.get_ydata())) == ("-", [1, 4])
    assert (marks.get_linestyle(), list(marks.get_xdata()), list(marks.get_ydata())) == ("None", [32], [2])
    png(axes)


@pytest.mark.parametrize(("name", "billions"), [("GPT 1.7B", 1.7), ("GPT 7.5B", 7.5), ("GPT 22B", 22),
                                                ("GPT-3 175B", 175), ("MT-NLG 530B", 530)])
def test_a_transformer_is_as_large_as_its_name_says(name, billions):
    """Matrices, biases and norms of the blocks, and two tables."""
    shape = transformer(name)
    params = shape.layers * (12 * shape.hidden**2 + 13 * shape.hidden) + (shape.vocab + 2048) * shape.hidden
    assert round(params / 1e9, 1 if billions % 1 else None) == billions
    assert shape.hidden % shape.heads == 0
    assert shape.heads % 8 == 0                         # else the explorer's tensor parallelism could not be


def test_transformers_have_names_of_their_own_and_sources():
    assert len({one.name for one in TRANSFORMERS}) == len(TRANSFORMERS) == 5
    assert all(one.source.strip() for one in TRANSFORMERS)
    with pytest.raises(ValueError, match=r"no transformer 'GPT-5'; there are 'GPT 1\.7B'"):
        transformer("GPT-5")
