"""Four definitions of a bubble, by hand on one trace."""
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.facts.bubbles import bubble_of_ideal, bubble_of_total, bubble_rate, busy_s, idle_s
from helpers.facts.errors import BadValue
from helpers.facts.trace import Span

TRACE = [Span(0, "F", 2, 4), Span(0, "B", 7, 10), Span(1, "F", 4, 6), Span(1, "B", 6, 7)]       # from 2 to 10
SPANS = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 9), st.integers(0, 5)), min_size=1, max_size=20)


def test_time_with_work_and_without_by_rank():
    assert busy_s(TRACE) == [5, 3]
    assert idle_s(TRACE) == [3, 5]


def test_one_trace_has_a_bubble_of_1_half_or_1_or_3_eighths():
    assert bubble_of_total(TRACE) == 8 / 16
    assert bubble_of_ideal(TRACE) == 8 / 8
    assert bubble_rate(TRACE) == 3 / 8                  # of rank 0 alone, from 2 to 10; rank 1's own span has none


@given(SPANS)
def test_of_total_is_of_ideal_over_one_more(parts):
    free, trace = dict.fromkeys(range(4), 0), []
    for rank, length, gap in parts:
        trace.append(Span(rank, "F", free[rank] + gap, free[rank] + gap + length))
        free[rank] += gap + length
    ideal = bubble_of_ideal(trace)
    assert bubble_of_total(trace) == pytest.approx(ideal / (1 + ideal), abs=1e-12)
    assert 0 <= bubble_rate(trace) < 1
    assert sum(busy_s(trace)) == sum(length for _, length, _ in parts)


@pytest.mark.parametrize("trace", [[], [Span(0, "F", 1, 1)]], ids=["empty", "without time"])
@pytest.mark.parametrize("measure", [bubble_of_total, bubble_of_ideal, bubble_rate])
def test_a_trace_without_time_is_refused(measure, trace):
    with pytest.raises(BadValue, match="in which nothing takes time has no bubble"):
        measure(trace)
