"""How much of data parallel's communication hides behind backward?

    backward  | layer n | layer n-1 | ... | layer 1 |
    ring                | bucket 0 |    | bucket 1 |#######|      # is exposed

A bucket leaves once the last of its layers is done and the bucket before it has arrived; it
takes what a ring all_reduce of its bytes takes.  Compute is not slowed by messages.

Source: Li et al., "PyTorch Distributed", VLDB 2020, section 3.2.
"""
from __future__ import annotations

from collections.abc import Sequence

from helpers.facts.buckets import BUCKET_BYTES, FIRST_BUCKET_BYTES, buckets
from helpers.facts.errors import BadValue
from helpers.facts.network import Network
from helpers.facts.trace import Span, Trace
from helpers.predict.collectives import cost


def backward_and_all_reduces(layer_bytes: Sequence[int], backward_s: Sequence[float], world_size: int,
                             network: Network, bucket_bytes: float = BUCKET_BYTES,
                             first_bucket_bytes: float = FIRST_BUCKET_BYTES) -> Trace:
    """A step's backward on one rank: spans "B", labelled with the number of the layer from 1, and "all_reduce".

    layer_bytes          bytes of each layer's gradient, in the order of forward
    backward_s           seconds of each layer's backward
    bucket_bytes         a bucket is closed once it holds so many; the first one at `first_bucket_bytes`
    Returns a `Trace` in seconds from the start of backward.  Raises `BadValue` if the two lists differ in length.
    """
    if len(layer_bytes) != len(backward_s):
        raise BadValue(f"{len(layer_bytes)} layers have sizes, but {len(backward_s)} have times")
    trace, done_s, now = [], {}, 0.0
    for index in reversed(range(len(layer_bytes))):
        trace.append(Span(0, "B", now, now + backward_s[index], str(index + 1)))
        now = done_s[index] = now + backward_s[index]
    free_s = 0.0
    for number, bucket in enumerate(buckets(layer_bytes, bucket_bytes, first_bucket_bytes)):
        nbytes = sum(layer_bytes[index] for index in bucket)
        start = max(free_s, *(done_s[index] for index in bucket))
        free_s = start + cost("ring_all_reduce", nbytes, world_size, element_bytes=1).seconds(network)
        trace.append(Span(0, "all_reduce", start, free_s, str(number), nbytes))
    return trace
