"""Which gradients travel in one message: buckets.

Backward makes gradients from the last parameter to the first, so buckets are
filled in that order.  A bucket is closed once it holds its limit or more; the
first one has a limit of its own, so that the first message leaves early.

Source: Li et al., "PyTorch Distributed", VLDB 2020, section 3.2; the rule is that of
`compute_bucket_assignment_by_size` in torch/csrc/distributed/c10d/reducer.cpp.
"""
from __future__ import annotations

from collections.abc import Sequence

from helpers.facts.errors import BadValue
from helpers.facts.units import MiB

BUCKET_BYTES, FIRST_BUCKET_BYTES = 25 * MiB, 1 * MiB


def buckets(sizes_bytes: Sequence[int], bucket_bytes: float = BUCKET_BYTES,
            first_bucket_bytes: float = FIRST_BUCKET_BYTES) -> list[list[int]]:
    """Indices of the parameters of each bucket, in the order of their all_reduces: the last parameter comes first.

    sizes_bytes         of each parameter's gradient, in the order of `module.parameters()`
    bucket_bytes        a bucket is closed once it holds this much or more; 0 makes every parameter a bucket, infinity
                        makes all of them one
    first_bucket_bytes  the same for the first bucket; never above `bucket_bytes`

    Raises `BadValue` if a limit is negative.
    Source: `compute_bucket_assignment_by_size` in torch/csrc/distributed/c10d/reducer.cpp.
    """
    for limit in (bucket_bytes, first_bucket_bytes):
        if not limit >= 0:
            raise BadValue(f"a bucket holds 0 bytes or more, not {limit!r}")
    filled, held, limit = [[]], 0, min(first_bucket_bytes, bucket_bytes)
    for index in reversed(range(len(sizes_bytes))):
        filled[-1].append(index)
        held += sizes_bytes[index]
        if held >= limit:
            filled.append([])
            held, limit = 0, bucket_bytes
    return [bucket for bucket in filled if bucket]
