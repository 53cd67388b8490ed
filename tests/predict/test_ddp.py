"""What hides behind backward: solved by hand, and bounds that hold for any model."""
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.facts.buckets import buckets
from helpers.facts.errors import BadValue
from helpers.facts.network import network
from helpers.facts.trace import Span, duration_s, exposed_s
from helpers.predict.ddp import backward_and_all_reduces

BYTES_PER_S = network(0.0, 1.0)         # a ring all_reduce of T bytes on 2 ranks: T seconds
LAYERS = [4, 4, 4]                      # bytes


def times(trace, kind):
    return [(span.start, span.end, span.label) for span in trace if span.kind == kind]


@pytest.mark.parametrize(("bucket_bytes", "backward_s", "messages", "exposed"), [
    (0, 5, [(5, 9), (10, 14), (15, 19)], 4),                    # each hides but the last
    (0, 2, [(2, 6), (6, 10), (10, 14)], 8),                     # each waits for the one before
    (8, 5, [(10, 18), (18, 22)], 7),                            # two layers in a bucket
    (float("inf"), 5, [(15, 27)], 12),                          # nothing hides
])
def test_a_step_solved_by_hand(bucket_bytes, backward_s, messages, exposed):
    trace = backward_and_all_reduces(LAYERS, [backward_s] * 3, 2, BYTES_PER_S, bucket_bytes, bucket_bytes)
    assert times(trace, "B") == [(k * backward_s, (k + 1) * backward_s, str(3 - k)) for k in range(3)]
    assert [span[:2] for span in times(trace, "all_reduce")] == messages
    assert exposed_s(trace, 0, "all_reduce", behind="B") == exposed


def test_the_lessons_model_hides_all_but_one_message_of_nine_milliseconds():
    """2 (N-1) (alpha + T/N beta), by hand."""
    links = network(5e-6, 1 / 100e9)
    trace = backward_and_all_reduces([436 * 10**6] * 32, [0.02] * 32, 64, links)
    last_s = 2 * 63 * (5e-6 + 436e6 / 64 / 100e9)
    assert exposed_s(trace, 0, "all_reduce", behind="B") == pytest.approx(last_s, rel=1e-9)


@given(st.lists(st.tuples(st.integers(1, 50), st.integers(0, 9)), min_size=1, max_size=12), st.integers(1, 8),
       st.integers(0, 60))
def test_messages_go_one_after_another_and_never_before_their_layers(layers, world_size, limit):
    sizes, seconds = zip(*layers, strict=True)
    trace = backward_and_all_reduces(sizes, seconds, world_size, BYTES_PER_S, limit, limit)
    done = {span.label: span.end for span in trace if span.kind == "B"}
    sent = [span for span in trace if span.kind == "all_reduce"]
    for span, bucket in zip(sent, buckets(sizes, limit, limit), strict=True):
        assert span.start >= max(done[str(index + 1)] for index in bucket)
    assert all(second.start >= first.end for first, second in pairwise(sent))
    assert sum(seconds) <= duration_s(trace) <= sum(seconds) + sum(span.duration_s for span in sent) + 1e-9
    assert duration_s(trace) == pytest.approx(sum(seconds) + exposed_s(trace, 0, "all_reduce", behind="B"))


def test_sizes_without_times_are_refused():
    with pytest.raises(BadValue, match="3 layers have sizes, but 2 have times"):
        backward_and_all_reduces(LAYERS, [1, 1], 2, BYTES_PER_S)


def test_exposed_is_what_no_span_of_the_same_rank_covers():
    trace = [Span(0, "all_reduce", 0, 10), Span(0, "all_reduce", 8, 12), Span(0, "B", 2, 5), Span(0, "B", 4, 6),
             Span(1, "B", 0, 99)]
    assert exposed_s(trace, 0, "all_reduce", behind="B") == 8           # 0 to 2 and 6 to 12
    assert exposed_s(trace, 1, "all_reduce", behind="B") == 0
