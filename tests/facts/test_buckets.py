"""Our buckets are those that PyTorch forms."""
import math

import pytest
import torch
import torch.distributed as dist
from hypothesis import example, given
from hypothesis import strategies as st

from helpers.facts.buckets import BUCKET_BYTES, FIRST_BUCKET_BYTES, buckets
from helpers.facts.errors import BadValue
from helpers.facts.units import MiB

LARGEST = 2**62                 # bytes; torch takes whole numbers only, and no infinity
limits = st.one_of(st.integers(0, 2000), st.just(math.inf))


def of_torch(sizes_bytes, bucket_bytes, first_bucket_bytes):
    """As `DistributedDataParallel` asks: parameters reversed, and a limit for the first bucket only if it is lower."""
    tensors = [torch.empty(size, dtype=torch.uint8, device="meta") for size in reversed(sizes_bytes)]
    cap, first = (min(limit, LARGEST) for limit in (bucket_bytes, first_bucket_bytes))
    formed, _ = dist._compute_bucket_assignment_by_size(tensors, [first, cap] if first < cap else [cap])
    return [[len(sizes_bytes) - 1 - index for index in bucket] for bucket in formed]


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=30), limits, limits)
@example([400, 400, 400], 400, 400)             # a bucket that is exactly full
@example([0, 0, 0], 0, 0)                       # parameters without elements
def test_random_parameters_get_the_buckets_of_torch(sizes_bytes, bucket_bytes, first_bucket_bytes):
    expected = of_torch(sizes_bytes, bucket_bytes, first_bucket_bytes)
    assert buckets(sizes_bytes, bucket_bytes, first_bucket_bytes) == expected


@given(st.lists(st.integers(0, 20 * MiB), min_size=1, max_size=30))
def test_the_defaults_are_those_of_torch(sizes_bytes):
    assert buckets(sizes_bytes) == of_torch(sizes_bytes, 25 * MiB, dist._DEFAULT_FIRST_BUCKET_BYTES)
    assert (25 * MiB, dist._DEFAULT_FIRST_BUCKET_BYTES) == (BUCKET_BYTES, FIRST_BUCKET_BYTES)


@pytest.mark.parametrize(("sizes_bytes", "bucket_bytes", "first_bucket_bytes", "expected"), [
    ([1, 1, 1], 0, 0, [[2], [1], [0]]),
    ([1, 1, 1], 0, math.inf, [[2], [1], [0]]),
    ([1, 1, 1], math.inf, math.inf, [[2, 1, 0]]),
    ([1, 1, 1], math.inf, 0, [[2], [1, 0]]),
    ([1, 100, 1], 10, 10, [[2, 1], [0]]),       # a tensor above the limit closes the bucket that it joins
    ([1, 1, 100], 10, 10, [[2], [1, 0]]),
    ([], 10, 10, []),
])
def test_edges(sizes_bytes, bucket_bytes, first_bucket_bytes, expected):
    assert buckets(sizes_bytes, bucket_bytes, first_bucket_bytes) == expected


@pytest.mark.parametrize(("limits", "named"), [((-1,), "-1"), ((10, -2), "-2"), ((math.nan,), "nan"),
                                               ((10, math.nan), "nan")])
def test_a_limit_that_cannot_be_meant_is_refused_and_named(limits, named):
    with pytest.raises(BadValue, match=f"a bucket holds 0 bytes or more, not {named}$"):
        buckets([1, 1], *limits)
