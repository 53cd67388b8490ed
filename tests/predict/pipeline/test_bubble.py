"""Every closed form of a bubble against the schedule that is played; times are whole numbers, so sums are exact."""
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.facts.bubbles import bubble_of_ideal, bubble_of_total, bubble_rate, busy_s, idle_s
from helpers.facts.errors import BadValue
from helpers.facts.schedules import dualpipe, dualpipe_v, gpipe, interleaved, one_f_one_b, zb_h1, zb_h2, zb_v
from helpers.predict.pipeline import (
    bubble_1f1b,
    bubble_dualpipe,
    bubble_dualpipev,
    bubble_fraction,
    bubble_interleaved,
    bubble_zero_bubble,
    simulate,
)

FIFTY = settings(max_examples=50)
RANKS, MORE, TIME = st.integers(2, 8), st.integers(0, 24), st.integers(1, 9)


def split(f, i, w):
    return {"F": f, "I": i, "W": w}


def own_idle(trace, work):
    """Idle time of the rank with the longest own span."""
    rate = bubble_rate(trace)
    return rate / (1 - rate) * work


@FIFTY
@given(st.integers(1, 8), st.integers(1, 30), TIME, TIME, TIME)
def test_gpipe_and_1f1b_idle_alike_for_any_sizes_and_times(p, m, f, i, w):
    for build in (gpipe, one_f_one_b):
        trace = simulate(build(p, m), split(f, i, w))
        assert idle_s(trace) == [(p - 1) * (f + i + w)] * p
        assert bubble_of_total(trace) == pytest.approx(bubble_1f1b(p, m), abs=1e-12)
        assert bubble_of_total(trace) == pytest.approx(bubble_fraction(p, m), abs=1e-12)
        assert bubble_of_ideal(trace) == pytest.approx((p - 1) / m)


@FIFTY
@given(st.integers(1, 6), MORE, st.integers(1, 4), TIME, TIME)
def test_interleaving_divides_the_bubble_by_the_chunks_also_between_multiples(p, more, v, f, b):
    trace = simulate(interleaved(p, p + more, v), {"F": f, "B": b})
    if v > 1:
        assert idle_s(trace) == [(p - 1) * (f + b)] * p
        assert bubble_of_total(trace) == pytest.approx(bubble_interleaved(p, p + more, v), abs=1e-12)


@FIFTY
@given(RANKS, st.data(), TIME, TIME)
def test_fewer_microbatches_than_ranks_idle_longer_when_interleaved(p, data, f, b):
    m = data.draw(st.integers(1, p - 1))
    assert min(idle_s(simulate(interleaved(p, m), {"F": f, "B": b}))) > (p - 1) * (f + b)


@settings(max_examples=200)
@given(RANKS, st.integers(1, 20), TIME, TIME, TIME)
def test_the_bubble_of_zb_h1_holds_inside_its_conditions_and_nowhere_else(p, m, f, i, w):
    trace = simulate(zb_h1(p, m), split(f, i, w))
    inside = w <= f and w <= i and m >= p
    assert (set(idle_s(trace)) == {(p - 1) * (f + i - w)}) == inside
    if inside:
        assert bubble_of_total(trace) == pytest.approx(bubble_zero_bubble(p, m, f=f, i=i, w=w), abs=1e-12)


@settings(max_examples=200)
@given(RANKS, st.integers(1, 24), TIME, TIME, TIME)
def test_the_bubble_of_zb_h2_in_an_own_span_holds_inside_its_conditions_and_nowhere_else(p, m, f, i, w):
    trace = simulate(zb_h2(p, m), split(f, i, w))
    own = own_idle(trace, m * (f + i + w))
    assert (own == pytest.approx((p - 1) * (f + i - 2 * w), abs=1e-9)) == (w <= f and 2 * w <= f + i and m >= 2 * p - 1)


@FIFTY
@given(RANKS, MORE, TIME, TIME, st.data())
def test_over_all_time_zb_h2_idles_at_least_while_its_ranks_wait_for_their_first_input(p, more, f, i, data):
    w = data.draw(st.integers(1, min(f, (f + i) // 2)))
    trace = simulate(zb_h2(p, 2 * p - 1 + more), split(f, i, w))
    assert idle_s(trace) == [(p - 1) * max(f, f + i - 2 * w)] * p


@FIFTY
@given(st.integers(1, 8), MORE, TIME)
def test_zb_v_has_no_bubble_in_an_own_span_where_f_i_and_w_are_equal(p, more, time):
    trace = simulate(zb_v(p, 2 * p - 1 + more), split(time, time, time))
    assert bubble_rate(trace) == 0
    assert idle_s(trace) == [(p - 1) * time] * p


@FIFTY
@given(st.integers(1, 4), st.integers(0, 6), TIME, st.data())
def test_dualpipe_and_dualpipev_idle_on_their_worst_rank_as_the_readme_says(half, more, f, data):
    """f = i and w <= f; a pair takes as long as its longer part at least, and as both at most."""
    s, i, w = 2 * half, f, data.draw(st.integers(0, f))
    pair = data.draw(st.integers(i + w, f + i + w))
    durations = split(f, i, w) | {"F&B": pair}
    idle = (s // 2 - 1) * (pair + (i + w) - 3 * w)
    for schedule, closed, m in ((dualpipe(s, 2 * (s + more)), bubble_dualpipe, 2 * (s + more)),
                                (dualpipe_v(half, s + more), bubble_dualpipev, s + more)):
        trace = simulate(schedule, durations)
        assert max(idle_s(trace)) == idle
        work = m * (f + i + w) * (s // schedule.num_ranks)
        assert closed(s, m, f=f, i=i, w=w, pair=pair) == pytest.approx(idle / (work + idle), abs=1e-12)


@FIFTY
@given(st.integers(1, 4), st.integers(0, 6), TIME, st.data())
def test_an_overlap_that_saves_nothing_leaves_all_ranks_of_dualpipe_idle_alike(half, more, f, data):
    s, w = 2 * half, data.draw(st.integers(0, f))
    m = 2 * (s + more)
    for schedule, closed in ((dualpipe(s, m), bubble_dualpipe), (dualpipe_v(half, m), bubble_dualpipev)):
        trace = simulate(schedule, split(f, f, w))
        assert len(set(idle_s(trace))) == 1
        assert bubble_of_total(trace) == pytest.approx(closed(s, m, f=f, i=f, w=w), abs=1e-12)


@pytest.mark.parametrize(("f", "i", "w", "pair", "idle"), [(10, 12, 8, 26, 60), (2, 1, 1, 4, 12)])
def test_where_f_and_i_differ_the_readmes_formula_is_not_what_dualpipe_idles(f, i, w, pair, idle):
    """Too much in one case, too little in the other."""
    assert max(idle_s(simulate(dualpipe(8, 20), split(f, i, w) | {"F&B": pair}))) == idle
    assert 3 * (pair + i - 2 * w) == {60: 66, 12: 9}[idle]


@FIFTY
@given(st.integers(2, 5), st.integers(0, 12), st.integers(1, 12))
def test_the_time_of_a_bubble_does_not_depend_on_microbatches_and_its_fraction_falls(p, more, steps):
    m = 2 * p + 2 * more
    for build in (gpipe, one_f_one_b, interleaved, zb_h1, zb_h2, zb_v, dualpipe_v):
        few, many = (simulate(build(p, count), split(3, 3, 2)) for count in (m, m + 2 * steps))
        assert idle_s(few) == idle_s(many)
        assert bubble_of_total(few) > bubble_of_total(many)


@FIFTY
@given(RANKS, st.integers(1, 20), TIME, TIME, TIME)
def test_of_total_is_of_ideal_over_one_more(p, m, f, i, w):
    trace = simulate(zb_h2(p, m), split(f, i, w))
    ideal = bubble_of_ideal(trace)
    assert bubble_of_total(trace) == pytest.approx(ideal / (1 + ideal))
    assert busy_s(trace) == [m * (f + i + w)] * p


@FIFTY
@given(RANKS, MORE)
def test_splitting_backward_saves_two_thirds_of_1f1bs_bubble_time_where_all_parts_take_equally_long(p, more):
    m = p + more
    whole, halves = (max(idle_s(simulate(build(p, m), split(1, 1, 1)))) for build in (one_f_one_b, zb_h1))
    assert halves == whole / 3


@pytest.mark.parametrize(("call", "says"), [
    (lambda: bubble_fraction(0, 4), "at least 1 stage and 1 microbatch, not 0 and 4"),
    (lambda: bubble_1f1b(4, 0), "at least 1 stage and 1 microbatch, not 4 and 0"),
    (lambda: bubble_interleaved(0, 0), "at least 1 stage and 1 microbatch"),
    (lambda: bubble_zero_bubble(-1, 2), "at least 1 stage and 1 microbatch"),
    (lambda: bubble_dualpipe(3, 8), "an even number of ranks and an even number of microbatches"),
    (lambda: bubble_dualpipe(4, 9), "at least twice as many as ranks; not 4 and 9"),
    (lambda: bubble_dualpipe(4, 6), "at least twice as many as ranks; not 4 and 6"),
    (lambda: bubble_dualpipev(4, 3), "at least twice as many microbatches as ranks, not 3 for 2"),
    (lambda: bubble_dualpipev(5, 8), "an even number of stages"),
    (lambda: bubble_interleaved(4, 8, 0), "holds where a rank has at least one chunk"),
    (lambda: bubble_zero_bubble(4, 3), "w is at most f and at most i, and m at least p; elsewhere simulate"),
    (lambda: bubble_zero_bubble(4, 8, w=1.5), "holds where w is at most f"),
    (lambda: bubble_zero_bubble(4, 8, i=0.5), "holds where w is at most f"),
    (lambda: bubble_dualpipe(4, 8, i=1.2, w=0.8), "holds where f = i, and w is at most f"),
    (lambda: bubble_dualpipev(4, 8, w=2), "holds where f = i, and w is at most f"),
])
def test_sizes_and_times_that_a_closed_form_does_not_hold_for_are_refused(call, says):
    with pytest.raises(BadValue, match=says):
        call()
