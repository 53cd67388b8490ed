"""Activations: the paper's parts and rows, what divides and drops them, stages, and what is refused."""
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.predict.activations import (
    PARTS,
    RECOMPUTES,
    BlockShape,
    best_num_checkpoints,
    block_bytes,
    block_parts,
    blocks_in_flight,
    checkpointed_bytes,
    pipeline_stage_bytes,
    pipeline_stage_parts,
)

BLOCK = BlockShape(seq=2048, batch=4, hidden=6144, heads=64)                # the paper's 22B model
S, B, H, A = 2048, 4, 6144, 64
SBH, SSBA = S * B * H, S * S * B * A

counts = st.integers(1, 64)
blocks = st.builds(BlockShape, counts, counts, counts, counts, st.sampled_from([2, 4]), st.booleans(),
                   st.sampled_from(["stored", "flash"]), st.sampled_from(["paper", "torch"]))


# section 4.1 of the paper, sentence by sentence
@pytest.mark.parametrize(("names", "num_bytes"), [
    (("qkv's input",), 2 * SBH),
    (("q and k",), 4 * SBH),
    (("softmax",), 2 * SSBA),
    (("softmax dropout's mask",), SSBA),
    (("dropped softmax",), 2 * SSBA),
    (("v",), 2 * SBH),
    (("projection's input",), 2 * SBH),
    (("attention dropout's mask",), SBH),
    (("first linear's input",), 2 * SBH),
    (("GELU's input",), 8 * SBH),
    (("second linear's input",), 8 * SBH),
    (("MLP dropout's mask",), SBH),
    (("attention norm's input", "MLP norm's input"), 4 * SBH),
])
def test_a_part_has_the_bytes_of_the_paper(names, num_bytes):
    parts = block_parts(BLOCK)
    assert sum(parts[name] for name in names) == num_bytes


def test_attention_mlp_and_norms_have_the_papers_sums():
    parts = block_parts(BLOCK)
    assert len(parts) == 14
    norms = parts.pop("attention norm's input") + parts.pop("MLP norm's input")
    mlp = sum(parts.pop(name) for name in
              ("first linear's input", "GELU's input", "second linear's input", "MLP dropout's mask"))
    assert (norms, mlp, sum(parts.values())) == (4 * SBH, 19 * SBH, 11 * SBH + 5 * SSBA)


@pytest.mark.parametrize("t", [1, 2, 8])
def test_a_block_keeps_what_table_2_says(t):
    scores = 5 * SSBA
    assert block_bytes(BLOCK, t) == SBH * 10 + (SBH * 24 + scores) / t
    assert block_bytes(BLOCK, t, True) == (SBH * 34 + scores) / t
    assert block_bytes(BLOCK, t, recompute="selective") == SBH * 10 + SBH * 24 / t
    assert block_bytes(BLOCK, t, True, "selective") == SBH * 34 / t
    assert block_bytes(BLOCK, t, recompute="full") == 2 * SBH
    assert block_bytes(BLOCK, t, True, "full") == 2 * SBH / t


def test_without_dropout_32_sbh_and_one_copy_of_the_scores_are_left():
    assert block_bytes(replace(BLOCK, dropout=False)) == 32 * SBH + 2 * SSBA


def test_flash_attention_keeps_what_selective_recomputation_keeps():
    assert block_bytes(replace(BLOCK, attention="flash")) == block_bytes(BLOCK, recompute="selective") == 34 * SBH


def test_only_scores_grow_with_the_square_of_the_sequence():
    growth = {part.name: part.num_bytes(replace(BLOCK, seq=2 * S)) / part.num_bytes(BLOCK)
              for part in PARTS if part.num_bytes(BLOCK)}
    assert growth == {part.name: 4 if part.grows_with_seq_squared else 2 for part in PARTS if part.num_bytes(BLOCK)}
    squared = {part.name for part in PARTS if part.grows_with_seq_squared}
    assert squared == {"softmax", "softmax dropout's mask", "dropped softmax"}


def test_selective_recomputation_drops_what_grows_with_the_square_and_flashs_statistics():
    assert {part.name for part in PARTS if part.dropped_by == "selective"} == {
        "softmax", "softmax dropout's mask", "dropped softmax", "logsumexp of scores"}


def test_fp32_doubles_elements_and_leaves_masks_as_they_are():
    assert block_bytes(replace(BLOCK, element_bytes=4)) == 66 * SBH + 9 * SSBA


def test_torch_also_keeps_statistics_and_has_masks_of_elements():
    """Four numbers a token for two norms; with flash one in fp32 for each head and token."""
    assert block_bytes(replace(BLOCK, counted="torch")) == 36 * SBH + 6 * SSBA + 2 * 4 * S * B
    flash = replace(BLOCK, counted="torch", attention="flash", dropout=False, element_bytes=4)
    assert block_bytes(flash) == 64 * SBH + 4 * 4 * S * B + 4 * A * S * B


@given(blocks, st.integers(1, 16), st.booleans())
def test_more_recomputation_or_parallelism_never_keeps_more(block, t, sequence_parallel):
    kept = [block_bytes(block, t, sequence_parallel, recompute) for recompute in RECOMPUTES]
    assert kept == sorted(kept, reverse=True)
    for recompute in RECOMPUTES:
        assert block_bytes(block, t, True, recompute) <= block_bytes(block, t, False, recompute)
        assert block_bytes(block, t + 1, sequence_parallel, recompute) <= block_bytes(block, t, sequence_parallel,
                                                                                      recompute)


@given(blocks, st.integers(1, 16))
def test_with_sequence_parallelism_t_ranks_keep_together_what_one_does(block, t):
    for recompute in RECOMPUTES:
        assert t * block_bytes(block, t, True, recompute) == pytest.approx(block_bytes(block, recompute=recompute))


@given(blocks, st.sampled_from(RECOMPUTES))
def test_the_parts_add_up_and_none_is_empty(block, recompute):
    parts = block_parts(block, recompute=recompute)
    assert sum(parts.values()) == block_bytes(block, recompute=recompute)
    assert all(num_bytes > 0 for num_bytes in parts.values())


def test_70_and_65_percent_of_the_activations_are_scores():
    """Section 5: GPT-3 and MT-NLG, 5as/h = 80 and 64."""
    for hidden, heads, factor, saved in ((12288, 96, 80, 0.70), (20480, 128, 64, 0.65)):
        block = BlockShape(2048, 1, hidden, heads)
        assert 5 * heads * 2048 / hidden == factor
        share = 1 - block_bytes(block, recompute="selective") / block_bytes(block)
        assert share == pytest.approx(saved, abs=0.005)


@pytest.mark.parametrize(("layers", "p", "v", "num_blocks"), [
    (48, 1, 1, 48), (48, 8, 1, 48), (96, 8, 3, 96 * (1 + 7 / 24)), (4, 2, 2, 5), (8, 4, 2, 11)])
def test_the_first_stage_keeps_as_many_blocks_as_there_are_layers_or_more(layers, p, v, num_blocks):
    """By hand for 4 layers, p = v = 2: chunks of one block, 2(p-1) + (v-1)p + 1 = 5 of them in flight."""
    assert blocks_in_flight(layers, p, v) == pytest.approx(num_blocks)


def test_a_whole_model_keeps_blocks_and_what_the_loss_needs():
    parts = pipeline_stage_parts(BLOCK, 48, 51200)
    assert parts == {"blocks": 48 * block_bytes(BLOCK), "embedding dropout's mask": SBH, "last norm's input": 2 * SBH,
                     "output layer's input": 2 * SBH, "logits": 4 * S * B * 51200}
    assert pipeline_stage_bytes(BLOCK, 48, 51200) == sum(parts.values())


@pytest.mark.parametrize("p", [1, 4])
@pytest.mark.parametrize("t", [1, 8])
def test_what_lies_outside_of_blocks_is_the_papers_formula(p, t):
    """Section 4.3: (sbhL/t) (p/L + [p = 1] 4/L (1 + V/h)), with sequence parallelism."""
    L, V = 48, 51200
    parts = pipeline_stage_parts(BLOCK, L, V, pipeline=p, tensor_parallel=t, sequence_parallel=True)
    expected = SBH * L / t * (p / L + (4 / L * (1 + V / H) if p == 1 else 0))
    assert sum(parts.values()) - parts["blocks"] == pytest.approx(expected)


def test_without_sequence_parallelism_only_logits_are_divided():
    one, eight = (pipeline_stage_parts(BLOCK, 48, 51200, tensor_parallel=t) for t in (1, 8))
    assert {name for name in one if name != "blocks" and eight[name] != one[name]} == {"logits"}


def test_recomputation_changes_blocks_alone():
    none, full = (pipeline_stage_parts(BLOCK, 48, 51200, recompute=recompute) for recompute in ("none", "full"))
    assert full.pop("blocks") == 48 * 2 * SBH != none.pop("blocks")
    assert none == full


@given(st.integers(1, 200), st.integers(1, 10**9), st.integers(1, 10**9), st.floats(0.1, 100))
def test_no_other_number_of_checkpoints_keeps_less_than_the_best(layers, input_bytes, layer_bytes, other):
    best = best_num_checkpoints(layers, input_bytes, layer_bytes)
    assert (checkpointed_bytes(best, layers, input_bytes, layer_bytes)
            <= checkpointed_bytes(other, layers, input_bytes, layer_bytes) * (1 + 1e-12))


@pytest.mark.parametrize("name", ["seq", "batch", "hidden", "heads", "element_bytes"])
@pytest.mark.parametrize("value", [0, -1, 2.0, True, "8", None])
def test_a_size_that_is_none_is_refused(name, value):
    with pytest.raises(ValueError, match=f"{name} is a whole number from 1, not "):
        replace(BLOCK, **{name: value})


@pytest.mark.parametrize(("call", "says"), [
    (lambda: replace(BLOCK, attention="sparse"), "attention is one of stored, flash, not 'sparse'"),
    (lambda: replace(BLOCK, counted="numpy"), "counted is one of paper, torch, not 'numpy'"),
    (lambda: block_bytes(BLOCK, recompute="some"), "recompute is one of none, selective, full, not 'some'"),
    (lambda: pipeline_stage_bytes(BLOCK, 4, recompute="some"), "recompute is one of none, selective, full, not 'some'"),
    (lambda: block_bytes(BLOCK, 0), "tensor_parallel is a whole number from 1, not 0"),
    (lambda: blocks_in_flight(0), "layers is a whole number from 1, not 0"),
    (lambda: blocks_in_flight(10, 4), r"layers is a multiple of pipeline \* interleave = 4, not 10"),
    (lambda: blocks_in_flight(8, 4, 4), r"layers is a multiple of pipeline \* interleave = 16, not 8"),
])
def test_nonsense_is_refused_and_the_message_says_what_is_wanted(call, says):
    with pytest.raises(ValueError, match=says):
        call()
