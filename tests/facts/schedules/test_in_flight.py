"""What a rank holds: counted step by step by hand, and over time."""
import pytest
from hypothesis import given

from helpers.facts.schedules import from_csv, most_held, one_f_one_b, zb_h1
from helpers.facts.schedules.in_flight import held, held_over_time
from helpers.predict.pipeline import simulate
from tests.facts.schedules.test_schedules import BUILT


def steps(text):
    return from_csv(text).steps[0]


@pytest.mark.parametrize(("text", "expected"), [
    ("0F0,0F1,0B0,0B1", [1, 2, 2, 1]),                                      # during a B its activations are still there
    ("0F0,0I0,0W0", [1, 1, 1]),                                             # I gives back nothing that W does not need
    ("0F0,0F1,0I0,0F2,0W0,0I1,0W1,0I2,0W2", [1, 2, 2, 3, 3, 2, 2, 1, 1]),
    ("0F0,1F0,1B0,(0F1;0B0)OVERLAP_F_B,1F1,1B1,0B1", [1, 2, 2, 2, 2, 2, 1]),
])
def test_what_is_held_during_each_step(text, expected):
    assert held(steps(text)) == expected


def test_bytes_differ_by_stage_and_what_waits_for_w_is_the_rest():
    order = steps("0F0,1F0,1I0,1W0,0I0,0F1,0W0,1F1,1I1,1W1,0I1,0W1")
    kept, waiting = [100, 10], [30, 4]
    assert held(order, kept) == [100, 110, 110, 110, 100, 200, 200, 110, 110, 110, 100, 100]
    assert held(order, kept, waiting) == [100, 110, 110, 104, 100, 130, 130, 110, 110, 104, 100, 30]


def test_zb_h1_holds_where_it_waits_for_w_what_1f1b_does_not():
    """arXiv:2401.10241, section 2.3: worker i of 1..p keeps (p-i+1) M_B + (i-1) M_W."""
    p, whole, rest = 4, 34, 12
    for rank, order in enumerate(zb_h1(p, 12).steps):
        assert max(held(order, [whole] * p, [rest] * p)) == (p - rank) * whole + rank * rest


def test_over_time_a_forward_counts_from_its_start_and_a_backward_to_its_end():
    curves = held_over_time(simulate(one_f_one_b(2, 2), {"F": 1, "B": 2}))
    assert curves == {0: [(0.0, 1), (1.0, 2), (6.0, 1), (9.0, 0)], 1: [(1.0, 1), (4.0, 0), (4.0, 1), (7.0, 0)]}


@given(BUILT)
def test_the_peak_over_time_is_the_most_that_is_held_and_the_end_is_empty(schedule):
    """Whatever the durations: a rank's order alone says what it holds."""
    durations = {"F": [1 + s % 3 for s in range(schedule.num_stages)], "I": 2, "W": 1, "B": 4}
    curves = list(held_over_time(simulate(schedule, durations, send_s=0.5)).values())
    assert [max(amount for _, amount in curve) for curve in curves] == most_held(schedule)
    assert all(curve[-1][1] == 0 for curve in curves)
    assert all(amount >= 0 for curve in curves for _, amount in curve)
