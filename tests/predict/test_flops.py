"""FLOPs: the printed formulas, what recomputation adds, utilization and days, and what is refused."""
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.predict.flops import (
    Shape,
    days_by_rule,
    flops_per_token,
    forward_flops,
    hardware_flops,
    hfu,
    mfu,
    model_flops,
    num_params,
    params_by_part,
    recomputed_flops,
    recomputed_share,
    training_days,
    utilization,
)

GPT3 = Shape(layers=96, hidden=12288, seq=2048, vocab=51200)
shapes = st.builds(Shape, st.integers(1, 200), st.integers(1, 20000), st.integers(1, 10000), st.integers(0, 200000))
batches = st.integers(1, 4096)


@given(shapes)
def test_parameters_are_equation_2(shape):
    L, h, s, V = shape.layers, shape.hidden, shape.seq, shape.vocab
    assert num_params(shape) == pytest.approx(12 * L * h**2 * (1 + 13 / (12 * h) + (V + s) / (12 * L * h)))


def test_untied_embeddings_are_a_second_table_and_positions_can_be_left_out():
    assert params_by_part(Shape(2, 8, 16, 100)) == {
        "matrices": 2 * 12 * 64, "biases and norms": 2 * 13 * 8, "tokens": 800, "positions": 128}
    assert params_by_part(Shape(2, 8, 16, 100, tied=False, learned_positions=False)) == {
        "matrices": 2 * 12 * 64, "biases and norms": 2 * 13 * 8, "tokens": 1600, "positions": 0}


@given(shapes, batches)
def test_model_flops_are_the_printed_formula(shape, batch):
    L, h, s, V = shape.layers, shape.hidden, shape.seq, shape.vocab
    printed = 72 * batch * s * L * h**2 * (1 + s / (6 * h) + V / (12 * L * h))
    assert model_flops(shape, batch) == pytest.approx(printed)


@given(shapes, batches)
def test_with_full_recomputation_they_are_equation_3(shape, batch):
    L, h, s, V = shape.layers, shape.hidden, shape.seq, shape.vocab
    printed = 96 * batch * s * L * h**2 * (1 + s / (6 * h) + V / (16 * L * h))
    assert hardware_flops(shape, batch, "full") == pytest.approx(printed)


@given(shapes, batches)
def test_selective_recomputation_adds_two_matrix_products_a_block(shape, batch):
    """q k^T and scores times v: 2 s s h each, for every sequence."""
    assert recomputed_flops(shape, batch, "selective") == shape.layers * batch * 2 * (2 * shape.seq**2 * shape.hidden)
    assert hardware_flops(shape, batch) == model_flops(shape, batch)


def test_a_forward_pass_is_the_sum_of_its_matrix_products():
    """B = 1, s = 2, h = 3, V = 5: M N K twice for qkv, projection, up, down; q k^T and scores v; logits."""
    products = {"linears": [(2, 9, 3), (2, 3, 3), (2, 12, 3), (2, 3, 12)],
                "attention core": [(2, 2, 3), (2, 3, 2)], "output layer": [(2, 5, 3)]}
    assert forward_flops(Shape(1, 3, 2, 5), 1) == {
        part: sum(2 * math.prod(sizes) for sizes in each) for part, each in products.items()}


def test_flash_attention_computes_half_of_the_core_again():
    stored, flash = (Shape(2, 64, 32, attention=attention) for attention in ("stored", "flash"))
    core = forward_flops(stored, 1)["attention core"]
    for recompute in ("none", "selective", "full"):
        assert recomputed_flops(flash, 1, recompute) - recomputed_flops(stored, 1, recompute) == core / 2
    assert model_flops(flash, 1) == model_flops(stored, 1)


def test_full_recomputation_costs_a_third_and_selective_about_a_hundredth_for_gpt_3():
    assert recomputed_share(GPT3, "full") == pytest.approx(1 / 3, rel=0.02)
    assert recomputed_share(GPT3, "selective") == pytest.approx(2048 / (18 * 12288), rel=0.04)
    assert recomputed_share(GPT3, "none") == 0


@given(shapes)
def test_more_recomputation_never_computes_less(shape):
    shares = [recomputed_share(shape, recompute) for recompute in ("none", "selective", "full")]
    assert shares == sorted(shares)
    assert shares[-1] <= 1 / 3


def test_utilization_is_achieved_over_peak():
    assert utilization(600, step_s=2, num_devices=3, peak_flop_per_s=200) == 0.5
    one_second = model_flops(GPT3, 8)
    assert mfu(GPT3, 8, 1, 4, one_second) == 0.25
    assert hfu(GPT3, 8, 1, 4, one_second, "none") == 0.25
    assert hfu(GPT3, 8, 1, 4, one_second, "full") == pytest.approx(0.25 * (1 + recomputed_share(GPT3, "full")))


def test_a_token_costs_palm_what_it_costs_megatron_but_for_biases_norms_and_positions():
    per_token = model_flops(GPT3, 1) / GPT3.seq
    palm = flops_per_token(num_params(GPT3), 96, 96, 128, 2048)
    assert palm == pytest.approx(per_token, rel=0.001)


def test_gpt_3_takes_34_days_on_1024_gpus_by_the_rule():
    """Narayanan et al., section 5.1: T = 300e9, P = 175e9, n = 1024, X = 140 TFLOP/s."""
    assert days_by_rule(175e9, 300e9, 1024, 140e12) == pytest.approx(34, abs=0.5)
    assert days_by_rule(175e9, 300e9, 1024, 140e12, "none") == pytest.approx(0.75 * 33.9, rel=0.005)


def test_days_are_iterations_times_flops_over_speed():
    shape, batch = Shape(2, 64, 128, 1000), 16
    steps = 1000
    days = training_days(shape, batch, steps * batch * 128, num_devices=4, flop_per_s=1e9, recompute="full")
    assert days * 24 * 3600 == pytest.approx(steps * hardware_flops(shape, batch, "full") / 4e9)


@pytest.mark.parametrize(("call", "says"), [
    (lambda: Shape(0, 8, 8), "layers is a whole number from 1, not 0"),
    (lambda: Shape(1, 8.0, 8), "hidden is a whole number from 1, not 8.0"),
    (lambda: Shape(1, 8, None), "seq is a whole number from 1, not None"),
    (lambda: Shape(1, 8, 8, -1), "vocab is a whole number from 0, not -1"),
    (lambda: Shape(1, 8, 8, attention="sparse"), "attention is one of stored, flash, not 'sparse'"),
    (lambda: recomputed_flops(GPT3, 1, "some"), "recompute is one of none, selective, full, not 'some'"),
    (lambda: days_by_rule(1, 1, 1, 1, "selective"), "recompute is one of none, full, not 'selective'"),
    (lambda: mfu(GPT3, 1, 0, 1, 1), "step_s is a number above 0, not 0"),
    (lambda: mfu(GPT3, 1, 1, 0, 1), "num_devices is a number above 0, not 0"),
    (lambda: mfu(GPT3, 1, 1, 1, math.inf), "peak_flop_per_s is a number above 0, not inf"),
])
def test_nonsense_is_refused_and_the_message_says_what_is_wanted(call, says):
    with pytest.raises(ValueError, match=says):
        call()
