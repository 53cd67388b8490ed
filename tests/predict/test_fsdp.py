"""FSDP's formulas: against ZeRO's, against each other, and at their limits; tests/run/test_fsdp.py measures them."""
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.predict.collectives import step_elements_sent
from helpers.predict.fsdp import (
    Sharding,
    backward_parts,
    forward_parts,
    num_collectives,
    passing_bytes,
    peak_bytes,
    peak_parts,
    step_bytes_sent,
)
from helpers.predict.memory import buffer_bytes, recipe, state_bytes

MiB = 2**20
LESSON = Sharding(16 * MiB, 16, 4)
SHARDINGS = st.builds(Sharding, st.integers(10**3, 10**9), st.integers(1, 100), st.integers(2, 64), st.booleans(),
                      st.integers(1, 9))


@pytest.mark.parametrize(("num_units", "reshard", "gathers"), [(16, True, 32), (16, False, 16), (1, True, 2),
                                                               (1, False, 1)])
def test_a_unit_is_gathered_once_or_twice_and_reduced_once(num_units, reshard, gathers):
    sharding = replace(LESSON, num_units=num_units, reshard=reshard)
    assert num_collectives(sharding) == {"all_gather": gathers, "reduce_scatter": num_units}


@given(SHARDINGS)
def test_a_step_sends_what_zero_3_does_whatever_the_units(sharding):
    elements = step_elements_sent(sharding.params, 3, sharding.ranks, sharding.reshard)
    assert step_bytes_sent(sharding) == pytest.approx(4 * elements)


def test_the_lessons_bytes():
    """67.1 MB of parameters on 4 ranks, three quarters of which are sent in a gather."""
    gather = 0.75 * 4 * LESSON.params
    assert step_bytes_sent(LESSON) == 3 * gather
    assert step_bytes_sent(LESSON, gloo=True) == 4 * gather
    assert step_bytes_sent(replace(LESSON, reshard=False), gloo=True) == 3 * gather
    assert step_bytes_sent(replace(LESSON, param_dtype="bf16"), gloo=True) == 3 * gather
    assert step_bytes_sent(replace(LESSON, param_dtype="bf16", reduce_dtype="bf16"), gloo=True) == 2 * gather


@given(SHARDINGS)
def test_the_closed_forms_of_the_docstring_hold(sharding):
    sharding = replace(sharding, tensors_a_unit=1 if sharding.num_units > 1 else sharding.tensors_a_unit)
    u, k, n = 4 * sharding.params / sharding.num_units, sharding.num_units, sharding.ranks
    expected = 2 * u + u / sharding.tensors_a_unit + u / n if k == 1 else \
        4 * u + (k - 1) * u / n if sharding.reshard else (k + 2) * u + u / n
    assert passing_bytes(sharding) == pytest.approx(expected)


@pytest.mark.parametrize(("num_units", "ranks", "reshard", "MiB_held"), [
    (16, 4, True, 31), (16, 4, False, 73), (4, 4, True, 72), (1, 4, True, 148), (1, 4, False, 148), (16, 2, True, 46)])
def test_the_lessons_fullest_moments(num_units, ranks, reshard, MiB_held):
    sharding = Sharding(16 * MiB, num_units, ranks, reshard, 16 // num_units)
    assert passing_bytes(sharding) == MiB_held * MiB


@given(SHARDINGS)
def test_the_peak_has_the_state_without_gradients_and_more_than_zeros_minimum(sharding):
    """ZeRO's buffers, one unit's parameters and gradients, are what any implementation needs."""
    parts = peak_parts(sharding)
    state = state_bytes(sharding.params, sharding.ranks, 3, recipe("fp32"))
    assert parts["parameter_shard"] + parts["adam_shard"] == pytest.approx(0.75 * state)
    unit = sharding.params / sharding.num_units
    assert passing_bytes(sharding) >= 0.999 * buffer_bytes(sharding.params, 3, unit, recipe("fp32"))
    assert peak_bytes(sharding) == pytest.approx(sum(parts.values()))


@given(SHARDINGS)
def test_keeping_parameters_never_holds_less(sharding):
    kept, resharded = (replace(sharding, reshard=reshard) for reshard in (False, True))
    assert sum(forward_parts(kept).values()) >= sum(forward_parts(resharded).values())
    if sharding.tensors_a_unit == 1:
        assert sum(backward_parts(kept).values()) >= sum(backward_parts(resharded).values()) * 0.999 or \
            sharding.num_units < 3


def test_bf16_parameters_halve_what_is_gathered_and_no_shard():
    half = replace(LESSON, param_dtype="bf16")
    assert half.gathered == LESSON.gathered / 2
    for part in ("parameter_shard", "adam_shard", "gradient_shard"):
        assert peak_parts(half)[part] == peak_parts(LESSON)[part]


@pytest.mark.parametrize(("change", "says"), [
    ({"params": 0}, "params is the number of parameters"), ({"num_units": 0}, "num_units is a whole number from 1"),
    ({"ranks": 1}, "ranks is a whole number from 2"), ({"tensors_a_unit": 1.5}, "tensors_a_unit is a whole number"),
    ({"param_dtype": "int8"}, "param_dtype is one of fp32, bf16")])
def test_nonsense_is_refused(change, says):
    with pytest.raises(ValueError, match=says):
        replace(LESSON, **change)
