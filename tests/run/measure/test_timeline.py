"""The profiler's view of a step: layers and messages of all ranks, on one clock."""
import itertools
import math
import time
from functools import partial

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from helpers.run.ddp import DDP
from helpers.run.launch import launch, preload
from helpers.run.measure.timeline import timeline
from helpers.run.models import Padded, perceptron

NUM_LAYERS, BACKWARD_S, LATE_S = 3, 0.02, 0.2
SLACK_S = 0.05                  # a busy machine may stop a rank between the two readings of its clocks
WAYS = {"ours": partial(DDP, bucket_bytes=0), "torch": partial(DistributedDataParallel, bucket_cap_mb=0)}


def padded_step(rank, world_size):
    """With each DDP: begin and end of the block, and its trace; rank 1 comes late to its backward."""
    seen = {}
    for name, wrap in WAYS.items():
        model = wrap(nn.Sequential(*(Padded(nn.Linear(8, 8, bias=False), f"layer {n}", BACKWARD_S)
                                     for n in range(NUM_LAYERS))))
        for _ in range(2):                  # torch's DDP forms its buckets after the first step
            model(torch.ones(2, 8)).sum().backward()
        dist.barrier()
        begin = time.perf_counter()
        with timeline(rank) as trace:
            loss = model(torch.ones(2, 8)).sum()
            time.sleep(LATE_S * rank)
            loss.backward()
        seen[name] = begin, trace, time.perf_counter()
    return seen


@pytest.fixture(scope="module")
def run():
    return launch(padded_step, 2)


@pytest.fixture(params=WAYS)
def ranks(run, request):
    return [seen[request.param] for seen in run.results]


def of_kind(kind, trace):
    return [span for span in trace if span.kind == kind]


def test_spans_lie_within_the_block(ranks):
    for begin, trace, end in ranks:
        assert all(begin <= span.start <= span.end <= end for span in trace)


def test_spans_have_the_rank_that_was_given(ranks):
    assert [{span.rank for span in trace} for _, trace, _ in ranks] == [{0}, {1}]


def test_layers_are_named_from_the_last_to_the_first_and_do_not_overlap(ranks):
    for _, trace, _ in ranks:
        layers = of_kind("B", trace)
        assert [span.label for span in layers] == [f"layer {n}" for n in reversed(range(NUM_LAYERS))]
        assert all(span.end <= following.start for span, following in itertools.pairwise(layers))


def test_the_padding_is_part_of_a_layers_span(ranks):
    """A sleep is never shorter than asked for."""
    for _, trace, _ in ranks:
        assert min(span.duration_s for span in of_kind("B", trace)) >= BACKWARD_S


def test_all_reduces_are_numbered_as_they_began(ranks):
    for _, trace, _ in ranks:
        messages = of_kind("all_reduce", trace)
        assert [span.label for span in messages] == [str(n) for n in range(NUM_LAYERS)]
        assert messages == sorted(messages, key=lambda span: span.start)


def test_ranks_share_a_clock(ranks):
    """No all_reduce is over before it has begun on every rank, and the late rank begins it late."""
    first, second = (of_kind("all_reduce", trace) for _, trace, _ in ranks)
    for span, same in zip(first, second, strict=True):
        assert max(span.start, same.start) <= min(span.end, same.end) + SLACK_S
    assert second[0].start - ranks[0][0] > LATE_S


def test_an_all_reduce_begins_when_its_layer_is_done(ranks):
    """And not before: one bucket for each layer, none is sent before autograd has its gradient."""
    for _, trace, _ in ranks:
        for layer, message in zip(of_kind("B", trace), of_kind("all_reduce", trace), strict=True):
            assert message.start >= layer.start + BACKWARD_S


def test_the_profiler_prints_nothing(run):
    assert run.printed == ["", ""]


def test_a_model_without_padded_layers_has_messages_only():
    def program(rank, world_size):
        model = DDP(perceptron(8, 8, 8), bucket_bytes=math.inf)
        with timeline(rank) as trace:
            model(torch.ones(2, 8)).sum().backward()
        return [span.kind for span in trace]

    assert launch(program, 2).results == [["all_reduce"]] * 2


def test_a_block_in_which_nothing_happens_has_no_spans():
    def program(rank, world_size):
        with timeline(rank) as trace:
            pass
        return trace

    assert launch(program, 1).results == [[]]


preload(__name__)
