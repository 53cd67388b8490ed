"""Our data parallel, one process on the whole batch, and PyTorch's DDP: the same results, messages and faults."""
import functools
import math
import multiprocessing
import re
from functools import partial

import pytest
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from helpers.facts.buckets import buckets
from helpers.run.ddp import DDP
from helpers.run.launch import RankFailed, RankHung, launch, warm_up
from tests.run.ddp import ddp_programs as programs
from tests.run.ddp.ddp_programs import BOTH, CASES, SCENARIOS, VIEWS, WAYS
from tests.run.in_turn import in_turn

MiB = 2**20
FEW = {3: ["ragged"], 4: ["a rank without samples"]}      # cases in more than two ranks; all of them with `make soak`


def off_by(tensor, reference):
    """Relative to the reference's largest."""
    return ((tensor.double() - reference.double()).abs().max() / reference.abs().max()).item()


def same(one, other):
    """To the last bit, in any nesting."""
    if isinstance(one, torch.Tensor):
        return isinstance(other, torch.Tensor) and torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other


@functools.cache
def seen():
    return in_turn(programs.scenario_on_both, 2, [(name,) for name in SCENARIOS])


def both(name):
    """What each of two ranks saw in a scenario, with ours; with PyTorch's DDP they saw the same, bit for bit."""
    ranks = seen()[name,]
    assert [same(by["ours"], by["torch"]) for by in ranks] == [True] * 2
    return [by["ours"] for by in ranks]


# ---- results

def runs():
    for world_size in (2, 3, 4):
        for name in CASES:
            if name != "a rank without samples" or world_size == 4:
                soak = name not in FEW.get(world_size, CASES)
                yield pytest.param(name, world_size, marks=[pytest.mark.soak] * soak)


@functools.cache
def trained(world_size, few):
    return in_turn(programs.trained_each_way, world_size,
                   [(name,) for name in CASES if (name in FEW.get(world_size, CASES)) == few])


@pytest.mark.parametrize(("name", "world_size"), list(runs()))
def test_every_way_trains_as_one_process_does_on_the_whole_batch(name, world_size):
    """To 1e-6 in float32; the ranks are equal to the last bit."""
    reference = programs.train(CASES[name])
    ranks = trained(world_size, name in FEW.get(world_size, CASES))[name,]
    assert all(same(trained, ranks[0]) for trained in ranks)
    off = {way: [off_by(*pair) for pair in zip(ranks[0][way], reference, strict=True)] for way in WAYS}
    assert {way: each for way, each in off.items() if not max(each) < 1e-6} == {}
    off = {way: [off_by(*pair) for pair in zip(ranks[0][way], ranks[0]["torch"], strict=True)] for way in WAYS}
    assert {way: each for way, each in off.items() if not max(each) < 1e-6} == {}


@pytest.mark.parametrize("accumulate", [False, True])
def test_statistics_of_batch_norm_are_each_ranks_own_until_the_next_forward(accumulate):
    """A backward in no_sync leaves them alone also then."""
    first, second = both(f"batch norm, accumulate={accumulate}")
    after_step, after_next_forward = slice(0, None, 2), slice(1, None, 2)
    assert not any(map(torch.equal, first[after_step], second[after_step]))
    kept = list(map(torch.equal, first[after_next_forward], second[after_next_forward]))
    assert kept == [True, not accumulate, True]


@pytest.mark.parametrize("make", [programs.normed, programs.Scaled])
def test_a_forward_without_gradients_may_come_before_backward(make):
    first, second = both(f"evaluates {make.__name__}")
    assert same(first, second)


@pytest.mark.parametrize("views", VIEWS)
def test_microbatches_in_no_sync_add_up_to_the_whole_batch(views):
    ranks = both(f"no_sync around all but the last, views={views}")
    whole = programs.whole_gradient(ranks=(0, 1), numbers=(0, 1, 2))
    assert max(off_by(seen, whole) for gradients in ranks for seen in gradients) < 1e-6


@pytest.mark.parametrize("views", VIEWS)
def test_no_sync_around_backward_only_does_not_hold_messages_back(views):
    ranks = both(f"no_sync around backward only, views={views}")
    whole = programs.whole_gradient(ranks=(0, 1), numbers=(0, 1, 2))
    assert max(off_by(seen, whole) for gradients in ranks for seen in gradients) < 1e-6


@pytest.mark.parametrize("views", VIEWS)
def test_without_a_microbatch_outside_no_sync_gradients_stay_on_their_rank(views):
    for rank, gradients in enumerate(both(f"no_sync around all, views={views}")):
        own = programs.whole_gradient(ranks=(rank,), numbers=(0, 1, 2))
        assert max(off_by(seen, own) for seen in gradients) < 1e-6


@pytest.mark.parametrize("views", VIEWS)
def test_gradients_may_be_set_to_zero_instead_of_none(views):
    zeroed = both(f"set_to_none=False, views={views}")
    assert same(zeroed, both(f"set_to_none=True, views={views}"))


@pytest.mark.parametrize("views", VIEWS)
def test_parameters_may_have_two_dtypes(views):
    first, second = both(f"two dtypes, views={views}")
    assert same(first, second)
    assert {tensor.dtype for tensor in first} == {torch.float32, torch.bfloat16}


# ---- parameters without a gradient

@pytest.mark.parametrize("wrap", BOTH.values(), ids=BOTH)
def test_a_head_that_all_ranks_skip_fails_the_next_forward(wrap):
    names = r"'b\.weight', 'b\.bias'" if wrap is DDP else "did not receive grad for rank [01]: 4 5"
    with pytest.raises(RankFailed, match=f"RuntimeError: (.|\n)*{names}"):
        launch(programs.skips_a_head, 2, wrap, (0, 1), num_steps=2)


@pytest.mark.parametrize("wrap", BOTH.values(), ids=BOTH)
def test_a_head_that_one_rank_skips_leaves_the_other_waiting(wrap):
    with pytest.raises(RankHung, match="rank 0 waits in barrier"):
        launch(programs.skips_a_head, 2, wrap, (0,), num_steps=1, timeout_s=3)


@pytest.mark.parametrize("pack", programs.PACKS)
def test_a_head_that_one_rank_skips_gets_the_mean_with_that_ranks_zero(pack):
    first, second = both(f"one skips, {pack}")
    assert same(first, second)
    model = programs.build(programs.Heads, 0)
    programs.loss_of(model(programs.samples(1, 0))).backward()
    assert off_by(first[0]["b.weight"], model.b.weight.grad / 2) < 1e-6


@pytest.mark.parametrize("views", VIEWS)
def test_a_head_that_all_ranks_skip_keeps_no_gradient(views):
    first, second = both(f"all skip, views={views}")
    assert same(first, second)
    assert [seen["b.weight"] is None for seen in first] == [False, True, False]


def test_each_rank_may_skip_another_head():
    first, second = both("each skips another")
    assert same(first, second)


@pytest.mark.parametrize("views", VIEWS)
def test_a_head_used_in_no_sync_only_is_a_used_one(views):
    first, second = both(f"used in no_sync, views={views}")
    assert same(first[1], second[1])


def test_an_output_left_out_of_the_loss_is_told():
    """The walk finds its parameters, but no gradient comes to them; torch takes them for unused."""
    with pytest.raises(RankFailed, match=r"no gradient to 'b.weight', 'b.bias'.*Leave out what the loss does not use"):
        launch(programs.on_both, 2, programs.drops_an_output, find=True)


@pytest.mark.parametrize("wrap", BOTH.values(), ids=BOTH)
def test_a_parameter_found_unused_must_not_get_a_gradient(wrap):
    with pytest.raises(RankFailed, match="RuntimeError"):
        launch(lambda rank, world_size: programs.uses_a_parameter_outside_forward(wrap, rank), 2)


# ---- models that cannot be wrapped

@pytest.mark.parametrize("kind", ["shape", "dtype", "more layers", "fewer layers", "buffer", "frozen"])
def test_ranks_with_unlike_models_are_told_the_tensor(kind):
    name = {"shape": "0.weight", "dtype": "2.weight", "more layers": "4.weight", "fewer layers": "2.weight",
            "buffer": "extra", "frozen": "0.weight"}[kind]
    with pytest.raises(RankFailed, match="BadValue: rank 1 has another model than rank 0: ") as raised:
        launch(programs.wraps_unlike_models, 2, DDP, kind)
    assert repr(name) in str(raised.value)


def test_a_layer_frozen_on_one_rank_is_told_as_that():
    with pytest.raises(RankFailed) as raised:
        launch(programs.wraps_unlike_models, 2, DDP, "frozen")
    theirs, first = re.search(r"rank 0: (.*) where rank 0 has (.*)", str(raised.value)).groups()
    assert theirs != first


@pytest.mark.parametrize("wrap", BOTH.values(), ids=BOTH)
def test_a_module_without_trainable_parameters_is_refused(wrap):
    says = "BadValue: no parameter of this model requires a gradient" if wrap is DDP else "RuntimeError: .*not needed"
    with pytest.raises(RankFailed, match=f"ranks 0 and 1 of 2 raised {says}"):
        launch(programs.wraps_nothing, 2, wrap)


# ---- messages

@pytest.mark.parametrize("world_size", [pytest.param(2, marks=pytest.mark.soak), 3,
                                        pytest.param(4, marks=pytest.mark.soak)])
def test_the_kernel_counts_what_a_ring_sends_and_a_quarter_of_it_with_four_microbatches(world_size):
    """2 P (N-1)/N bytes, to 1 %, for one million parameters."""
    expected = 2 * 4e6 * (world_size - 1) / world_size
    for by in launch(programs.bytes_of_steps, world_size, width=500, depth=4).results:
        for one, four, accumulated in by.values():
            assert [one.sent, one.received] == [pytest.approx(expected, rel=0.01)] * 2
            assert [four.sent / 4, accumulated.sent] == [pytest.approx(expected, rel=0.01)] * 2


LIMITS = [0, 3000, MiB]
STEPS = {
    **{("ours", limit): partial(DDP, bucket_bytes=limit, first_bucket_bytes=limit) for limit in LIMITS},
    ("ours", "early"): partial(DDP, bucket_bytes=0),
    ("ours", "late"): partial(DDP, bucket_bytes=math.inf, first_bucket_bytes=math.inf),
    **{("torch", limit): partial(DistributedDataParallel, bucket_cap_mb=limit / MiB) for limit in LIMITS},
    ("torch", "early"): partial(DistributedDataParallel, bucket_cap_mb=0),
    ("torch", "late"): partial(DistributedDataParallel, bucket_cap_mb=100),
}


@functools.cache
def third_steps():
    return in_turn(programs.third_step, 2, [(wrap,) for wrap in STEPS.values()])


def third_step_of(*which):
    """Of each rank: the timeline of its third step, and the number of all_reduces of all three."""
    return third_steps()[STEPS[which],]


@pytest.mark.parametrize("limit", LIMITS)
def test_a_step_has_as_many_all_reduces_as_buckets(limit):
    """Counted by the profiler, which sees torch's too, and by the recorder, which sees calls from Python."""
    num_buckets = len(buckets([4 * p.numel() for p in programs.padded().parameters()], limit, limit))
    ours, torchs = (third_step_of(whose, limit) for whose in BOTH)
    counted = [sum(span.kind == "all_reduce" for span in trace) for trace, _ in (*ours, *torchs)]
    assert counted == [num_buckets] * 4
    assert [recorded for _, recorded in ours] == [3 * num_buckets] * 2


@pytest.mark.parametrize("whose", BOTH)
def test_messages_leave_during_backward_unless_all_wait_for_the_last(whose):
    for when in ("early", "late"):
        for trace, _ in third_step_of(whose, when):
            first_message = min(span.start for span in trace if span.kind == "all_reduce")
            backwards = [span for span in trace if span.kind == "B"]
            assert len(backwards) == 4
            if when == "early":
                assert first_message < max(span.start for span in backwards)
            else:
                assert first_message > max(span.start for span in backwards)


# ---- a plain script

def test_the_worker_loop_of_row_c8_runs_as_plain_processes(tmp_path):
    """Copies of the fork server, as ranks are, but nothing of `launch` in them; spawned ones cost seconds, and torch
    aborts some of them at exit: gloo's threads want the interpreter after it is gone."""
    init_file, world_size, num_steps = tmp_path / "init", 2, 3
    warm_up()
    torch.multiprocessing.start_processes(programs.worker, (world_size, init_file, tmp_path, num_steps), world_size,
                                          start_method="forkserver")
    assert multiprocessing.active_children() == []
    # the rendezvous file is PyTorch's to remove: two that leave at one moment may each leave it to the other
    assert {path.name for path in tmp_path.iterdir()} - {"init"} == {"0.pt", "1.pt"}
    first, second = (torch.load(tmp_path / f"{rank}.pt") for rank in range(world_size))
    assert torch.equal(first, second)
    assert off_by(first, trained_alone(num_steps, world_size)) < 1e-6


def trained_alone(num_steps, world_size):
    model = programs.build(programs.plain, programs.SEED)
    optim = programs.sgd(model.parameters())
    for x, y in programs.slices(0, 1, num_steps, batch=world_size * programs.BATCH):
        optim.zero_grad(set_to_none=True)
        nn.functional.mse_loss(model(x), y).backward()
        optim.step()
    return programs.flat(model.parameters())
