"""Model state: the terms of every recipe and stage, the inverses of the formula, and what is refused."""
import math

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from helpers.facts.units import GB, GiB, MiB
from helpers.predict import memory
from helpers.predict.memory import (
    MIXED,
    RECIPES,
    Recipe,
    buffer_bytes,
    largest_params,
    smallest_ranks,
    state_by_term,
    state_bytes,
)

# (bytes per parameter on every rank, bytes per parameter shared by all), for stages 0 to 3; counted by hand
COEFFICIENTS = {
    "mixed": [(16, 0), (4, 12), (2, 14), (0, 16)],                         # ZeRO, section 5
    "mixed, fp32 gradients": [(18, 0), (6, 12), (2, 16), (0, 18)],         # Megatron: 6 + 12/d
    "mixed, two gradients": [(20, 0), (4, 16), (2, 18), (0, 20)],          # Megatron: 4 + 16/d
    "mixed, no master": [(12, 0), (4, 8), (2, 10), (0, 12)],
    "pure bf16": [(8, 0), (4, 4), (2, 6), (0, 8)],
    "fp32": [(16, 0), (8, 8), (4, 12), (0, 16)],                           # Megatron: 8 + 8/d
    "fp32, SGD with momentum": [(12, 0), (8, 4), (4, 8), (0, 12)],
    "fp32, plain SGD": [(8, 0), (8, 0), (4, 4), (0, 8)],
}
ROWS = [(name, stage, *COEFFICIENTS[name][stage]) for name in COEFFICIENTS for stage in range(4)]

names, stages = st.sampled_from(list(RECIPES)), st.integers(0, 3)
params, ranks = st.integers(1, 10**12), st.integers(1, 4096)


def named(name):
    return RECIPES[name]


# the two source documents of the course, row by row
@pytest.mark.parametrize(("computed", "expected"), [
    pytest.param(state_by_term(1), {"parameter": 2, "gradient": 2, "master": 4, "momentum": 4, "variance": 4},
                 id="A4 2 + 2 + (4 + 4 + 4)"),
    pytest.param(state_bytes(1), 16, id="A4 16P"),
    pytest.param([state_bytes(1, 1000, stage) for stage in range(4)], [16, 4.012, 2.014, 0.016],
                 id="A5 A6 16P, 4P + 12P/N, 2P + 14P/N, 16P/N"),
    pytest.param(state_bytes(70e9) / GB, 1120, id="A7 70B DDP"),
    pytest.param(state_bytes(70e9, 1000) / GB, 1120, id="A7 70B DDP on 1000"),
    pytest.param(state_bytes(70e9, 64, 3) / GB, 17.5, id="A7 70B stage 3 on 64"),
    pytest.param(state_bytes(70e9, 8, 3) / GB, 140, id="A7 70B stage 3 on 8"),
    pytest.param([state_bytes(13e9, 8, stage) / GB for stage in range(4)], [208, 71.5, 48.75, 26], id="A13 13B GB"),
    pytest.param([round(state_bytes(13e9, 8, stage) / GiB, 1) for stage in range(4)], [193.7, 66.6, 45.4, 24.2],
                 id="A13 13B GiB"),
    pytest.param(smallest_ranks(13e9, 24 * GB), 9, id="A14 24 GB"),
    pytest.param(smallest_ranks(13e9, 24 * GiB), 9, id="A14 24 GiB"),
    pytest.param([round(state_bytes(13e9, 9, 3) / unit, 2) for unit in (GB, GiB)], [23.11, 21.52],
                 id="A14 the state on 9"),
    pytest.param(smallest_ranks(13e9, 24 * GB, recipe=named("mixed, fp32 gradients")), 10, id="A14 fp32 gradients"),
    pytest.param(smallest_ranks(13e9, 24 * GB, recipe=named("mixed, no master")), 7, id="A14 no master"),
    pytest.param([round(state_bytes(1) / state_bytes(1, 8, stage), 2) for stage in (1, 2, 3)], [2.91, 4.27, 8],
                 id="C3 factors on 8"),
    pytest.param([round(state_bytes(1) / state_bytes(1, 10**6, stage), 3) for stage in (1, 2, 3)], [4, 8, 10**6],
                 id="C3 limits 4x, 8x, Nx"),
    pytest.param(sum(state_by_term(70e9)[term] for term in ("momentum", "variance")) / GB, 560, id="C4 560 GB of Adam"),
    pytest.param(state_bytes(1, 8, 1), 5.5, id="C4 5.5P"),
    pytest.param(1 - state_bytes(1, 8, 1) / state_bytes(1), 0.65625, id="C4 65 %"),
    pytest.param([state_bytes(70e9, 8, 3, named(name)) / GB for name in ("mixed, no master", "mixed")], [105, 140],
                 id="C4 105 is 12P, 140 is right"),
    pytest.param([state_bytes(7e9, recipe=named(name)) / GB for name in
                  ("fp32", "mixed, no master", "mixed", "mixed, fp32 gradients")], [112, 84, 112, 126],
                 id="C4 112 to 84 is 12P, 112 to 112 is right"),
])
def test_row(computed, expected):
    assert computed == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("name", "num_bytes"), [
    ("mixed", 16), ("mixed, fp32 gradients", 18), ("mixed, two gradients", 20), ("mixed, no master", 12),
    ("pure bf16", 8), ("fp32", 16), ("fp32, SGD with momentum", 12), ("fp32, plain SGD", 8),
])
def test_a_recipe_has_its_known_bytes_per_parameter(name, num_bytes):
    assert RECIPES[name].bytes_per_param == num_bytes


def test_every_recipe_is_tested_and_known_by_its_name():
    assert list(COEFFICIENTS) == list(RECIPES) == [RECIPES[name].name for name in RECIPES]
    assert [memory.recipe(name) for name in RECIPES] == list(RECIPES.values())


@pytest.mark.parametrize(("name", "stage", "kept", "shared"), ROWS)
@pytest.mark.parametrize("num_ranks", [1, 2, 8, 1024])
def test_a_rank_holds_what_is_kept_and_its_part_of_what_is_shared(name, stage, kept, shared, num_ranks):
    assert state_bytes(1024, num_ranks, stage, named(name)) == 1024 * kept + 1024 // num_ranks * shared


@pytest.mark.parametrize(("term", "from_stage"), [
    ("parameter", 3), ("gradient", 2), ("main_gradient", 1), ("master", 1), ("momentum", 1), ("variance", 1)])
def test_a_term_is_whole_before_its_stage_and_shared_from_it_on(term, from_stage):
    recipe = named("mixed, two gradients")
    whole = state_by_term(800, 1, 0, recipe)[term]
    held = [state_by_term(800, 8, stage, recipe)[term] for stage in range(4)]
    assert held == [whole if stage < from_stage else whole / 8 for stage in range(4)]


def test_a_term_that_a_recipe_does_not_keep_is_not_listed():
    assert state_by_term(10, recipe=named("fp32, plain SGD")) == {"parameter": 40, "gradient": 40}


@given(params, ranks, stages, names)
def test_the_terms_add_up_to_the_state(num_params, num_ranks, stage, name):
    terms = state_by_term(num_params, num_ranks, stage, named(name))
    assert state_bytes(num_params, num_ranks, stage, named(name)) == pytest.approx(math.fsum(terms.values()))
    assert all(num_bytes > 0 for num_bytes in terms.values())


@given(params, ranks, names)
def test_a_higher_stage_never_holds_more_and_the_third_holds_one_part_of_n(num_params, num_ranks, name):
    held = [state_bytes(num_params, num_ranks, stage, named(name)) for stage in range(4)]
    assert held == sorted(held, reverse=True)
    assert held[3] * num_ranks == pytest.approx(held[0])
    assert held[0] == state_bytes(num_params, 1, 0, named(name))


@given(params, ranks, st.integers(1, 3), names)
def test_more_ranks_never_hold_more(num_params, num_ranks, stage, name):
    assert (state_bytes(num_params, num_ranks + 1, stage, named(name))
            <= state_bytes(num_params, num_ranks, stage, named(name)))


def brute_force(num_params, budget_bytes, stage, name, most):
    """The first N whose state is below the budget, in whole numbers, or None."""
    kept, shared = COEFFICIENTS[name][stage]
    return next((n for n in range(1, most + 1) if num_params * (kept * n + shared) < budget_bytes * n), None)


def check_against_brute_force(num_params, budget_bytes, stage, name, most=4096):
    kept, _ = COEFFICIENTS[name][stage]
    if budget_bytes <= num_params * kept:
        with pytest.raises(ValueError, match="no number of ranks is enough"):
            smallest_ranks(num_params, budget_bytes, stage, named(name))
        return
    found = smallest_ranks(num_params, budget_bytes, stage, named(name))
    expected = brute_force(num_params, budget_bytes, stage, name, most)
    assert found == expected if expected else found > most


@settings(deadline=None)
@given(params, st.integers(1, 25 * 10**12), stages, names)
def test_the_smallest_number_of_ranks_is_what_brute_force_finds(num_params, budget_bytes, stage, name):
    check_against_brute_force(num_params, budget_bytes, stage, name)


@settings(deadline=None)
@given(params, st.integers(1, 4096), st.integers(-1, 1), stages, names)
def test_so_it_is_one_byte_below_at_and_above_the_state_of_n_ranks(num_params, num_ranks, off, stage, name):
    kept, shared = COEFFICIENTS[name][stage]
    budget_bytes = num_params * kept + num_params * shared // num_ranks + off
    assume(budget_bytes > 0)
    check_against_brute_force(num_params, budget_bytes, stage, name)


def test_a_state_that_fills_the_budget_exactly_is_not_below_it():
    assert smallest_ranks(70e9, 1120 * GB, 3) == 2
    assert smallest_ranks(70e9, 80 * GB) == 15             # on 14 it would be 80.0 GB


def test_the_smallest_number_of_ranks_is_asked_for_stage_3_of_the_mixed_recipe():
    assert smallest_ranks(13e9, 24 * GB) == smallest_ranks(13e9, 24 * GB, 3, MIXED)


@given(st.integers(1, 10**13), ranks, stages, names)
def test_the_largest_model_fills_the_budget_exactly(budget_bytes, num_ranks, stage, name):
    most = largest_params(budget_bytes, num_ranks, stage, named(name))
    assert state_bytes(most, num_ranks, stage, named(name)) == pytest.approx(budget_bytes)


@pytest.mark.parametrize(("stage", "billions"), [(0, 2), (1, 7.6), (2, 14.4), (3, 128)])
def test_the_largest_model_of_32_gb_and_64_ranks_is_that_of_the_zero_paper(stage, billions):
    """Table 2, first row, theoretical maximum without model parallelism; figures are truncated."""
    assert billions == pytest.approx(largest_params(32e9, 64, stage) / 1e9, rel=0.006)


@pytest.mark.parametrize(("stage", "bucket_view", "num_bytes"), [
    (0, False, 2000), (1, False, 2000), (0, True, 0), (1, True, 0),        # every gradient again, or a view
    (2, False, 200), (3, False, 400), (2, True, 200), (3, True, 400),      # one layer's gradients; and its parameters
])
def test_a_stage_needs_its_buffers(stage, bucket_view, num_bytes):
    assert buffer_bytes(1000, stage, 100, bucket_view=bucket_view) == num_bytes


def test_the_buckets_of_ddp_cost_what_was_measured():
    """160 MiB of fp32 parameters: DDP took 827 MiB, and 667 MiB with gradient_as_bucket_view."""
    assert buffer_bytes(40 * MiB, 0, 0, named("fp32")) == (827 - 667) * MiB


def test_a_gathered_layer_costs_what_deepspeed_prints():
    """DeepSpeed, memory.rst: 32.90M parameters of t5-large's largest layer take 125 MB (it means MiB)."""
    assert int(buffer_bytes(737.67e6, 3, 32.9e6) / MiB) == 125


def test_buffers_have_the_dtypes_of_the_recipe():
    assert buffer_bytes(1000, 0, 0, named("mixed, fp32 gradients")) == 4000
    assert buffer_bytes(1000, 2, 100, named("mixed, fp32 gradients")) == 400
    assert buffer_bytes(1000, 3, 100, named("mixed, fp32 gradients")) == 600


CALLS = {
    "state_by_term": lambda params=1e9, ranks=1, stage=0: state_by_term(params, ranks, stage),
    "state_bytes": lambda params=1e9, ranks=1, stage=0: state_bytes(params, ranks, stage),
    "buffer_bytes": lambda params=1e9, stage=0: buffer_bytes(params, stage, 0),
    "smallest_ranks": lambda params=1e9, stage=3: smallest_ranks(params, 1e12, stage),
    "largest_params": lambda ranks=1, stage=0: largest_params(1e12, ranks, stage),
}
NONSENSE = {
    "params": ([0, -1, math.nan, math.inf, True, "13B", None],
               "params is the number of parameters, such as 13e9, not "),
    "ranks": ([0, -1, 8.0, True, "8", None], "ranks is a whole number from 1, not "),
    "stage": ([-1, 4, 1.0, True, "3", None], r"stage is 0 \(DDP\), 1, 2 or 3, not "),
}
REFUSED = [(call, argument, value) for call, function in CALLS.items() for argument, (values, _) in NONSENSE.items()
           if argument in function.__code__.co_varnames for value in values]


@pytest.mark.parametrize(("call", "argument", "value"), REFUSED)
def test_nonsense_is_refused_and_the_message_says_what_is_wanted(call, argument, value):
    with pytest.raises(ValueError, match=NONSENSE[argument][1]):
        CALLS[call](**{argument: value})


@pytest.mark.parametrize("budget_bytes", [0, -1, math.nan])
@pytest.mark.parametrize("ask", [lambda budget: smallest_ranks(1e9, budget), largest_params])
def test_a_budget_of_nothing_is_refused(ask, budget_bytes):
    with pytest.raises(ValueError, match="budget_bytes is a number of bytes above 0, such as 24 \\* GB, not "):
        ask(budget_bytes)


@pytest.mark.parametrize(("stage", "gb"), [(0, r"1,120\.0"), (1, r"280\.0"), (2, r"140\.0")])
def test_what_no_number_of_ranks_can_hold_is_refused_with_the_way_out(stage, gb):
    with pytest.raises(ValueError, match=f"stage {stage} keeps {gb} GB on every rank, and the budget is 80.0 GB; "
                                         "a higher stage shards more"):
        smallest_ranks(70e9, 80 * GB, stage)


@pytest.mark.parametrize("layer", [-1, 1001, math.nan])
def test_a_layer_larger_than_the_model_is_refused(layer):
    with pytest.raises(ValueError, match="largest_layer_params is between 0 and params, not "):
        buffer_bytes(1000, 3, layer)


def test_an_unknown_recipe_is_refused_with_the_list():
    with pytest.raises(ValueError, match="no recipe 'adam'; there are 'mixed', 'mixed, fp32 gradients', "):
        memory.recipe("adam")


@pytest.mark.parametrize(("dtypes", "message"), [
    ({"parameter": "float16", "gradient": "fp16"}, "parameter is one of fp32, bf16, fp16, fp8, not 'float16'"),
    ({"parameter": "fp16", "gradient": ""}, "gradient is one of fp32, bf16, fp16, fp8, not ''"),
    ({"parameter": "fp16", "gradient": "fp16", "variance": "int8"}, "variance is one of .*, not 'int8'"),
])
def test_a_recipe_with_an_unknown_dtype_is_refused_by_term(dtypes, message):
    with pytest.raises(ValueError, match=message):
        Recipe("mine", **dtypes)


@pytest.mark.parametrize(("dtype", "bits"), [("fp32", 32), ("bf16", 16), ("fp16", 16), ("fp8", 8)])
def test_a_dtype_has_the_bits_in_its_name(dtype, bits):
    assert Recipe("mine", dtype, dtype).bytes_per_param == 2 * bits / 8


def test_a_recipe_of_ones_own_counts_like_the_others():
    eight_bit_adam = Recipe("fp8 moments", "bf16", "bf16", master="fp32", momentum="fp8", variance="fp8")
    assert eight_bit_adam.bytes_per_param == 10
    assert state_bytes(8, 8, 1, eight_bit_adam) == 8 * 4 + 6


def test_the_name_of_a_recipe_is_no_recipe():
    with pytest.raises(ValueError, match=r"such as RECIPES\['mixed'\], not 'fp32'"):
        state_bytes(13e9, 1, 0, "fp32")
