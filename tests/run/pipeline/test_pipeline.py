"""Schedules on real ranks, one process on the whole batch, torch.distributed.pipelining: the same gradients."""
import functools
import itertools
import re
import time

import pytest
import torch
from torch import nn
from torch.nn.functional import mse_loss

from helpers.facts.schedules import BUILDERS, gpipe, one_f_one_b, to_csv, validate
from helpers.facts.schedules.durations import duration_of
from helpers.facts.schedules.in_flight import held
from helpers.facts.schedules.schedule import parse
from helpers.run.launch import RankFailed, launch
from helpers.run.measure.live_saved import LiveSavedBytes
from helpers.run.pipeline import OwedWeights, deferred_weights
from tests.pairwise import pairwise
from tests.run.in_turn import in_turn
from tests.run.pipeline import pipeline_programs as programs
from tests.run.pipeline import pipeline_stages
from tests.run.pipeline.pipeline_programs import SAMPLES, WIDTH, alone, batch, linear_stages, schedules, stages_of_model

TOLERANCE = {torch.float32: 1e-6, torch.float64: 1e-12}
SIZES = (2, 4)
RUNS = [(size, *key, dtype) for size in SIZES for key in schedules(size) for dtype in TOLERANCE]
ALWAYS = [(4, name, 8, torch.float64) for name in BUILDERS]
ALWAYS += pairwise(SIZES, tuple(BUILDERS), programs.NUM_MICROBATCHES, tuple(TOLERANCE),
                   allowed=lambda *run: run in RUNS, given=ALWAYS)
MATRIX = [*ALWAYS, *(pytest.param(*run, marks=pytest.mark.soak) for run in RUNS if run not in ALWAYS)]


def off_by(gradient, reference):
    """Relative to the reference's largest; none counts as 0."""
    if gradient is None or reference is None:
        return max((0.0 if one is None else one.abs().max().item()) for one in (gradient, reference))
    return ((gradient - reference).abs().max() / reference.abs().max().clamp(min=1e-300)).item()


def worst(ranks, reference):
    """Of all gradients of all ranks."""
    return max([off_by(gradient, reference[stage][name]) for by_stage in ranks
                for stage, gradients in by_stage.items() for name, gradient in gradients.items()], default=0.0)


@functools.cache
def outcomes(world_size, always):
    """By schedule, number of microbatches and dtype."""
    runs = [run for n, *run in RUNS if n == world_size and ((n, *run) in ALWAYS) == always]
    return in_turn(programs.in_a_schedule, world_size, map(tuple, runs))


def outcomes_of(*run):
    return outcomes(run[0], run in ALWAYS)[run[1:]]


@functools.cache
def alone_once(num_stages, num_microbatches, dtype):
    return alone(stages_of_model(num_stages, dtype), *batch(num_microbatches, dtype))


# ---- results

@pytest.mark.parametrize(("world_size", "name", "num_microbatches", "dtype"), MATRIX)
def test_every_schedule_gives_the_gradients_and_the_loss_of_one_process(world_size, name, num_microbatches, dtype):
    ranks = outcomes_of(world_size, name, num_microbatches, dtype)
    loss, reference = alone_once(BUILDERS[name](world_size, num_microbatches).num_stages, num_microbatches, dtype)
    assert {stage for rank in ranks for stage in rank.gradients} == set(reference)
    assert worst([rank.gradients for rank in ranks], reference) < TOLERANCE[dtype]
    assert sum(rank.played.loss for rank in ranks) == pytest.approx(loss, rel=TOLERANCE[dtype])


@pytest.mark.parametrize(("world_size", "name", "num_microbatches", "dtype"), MATRIX)
def test_ranks_do_what_is_written_in_the_order_in_which_it_is_written(world_size, name, num_microbatches, dtype):
    schedule = BUILDERS[name](world_size, num_microbatches)
    for rank, outcome in enumerate(outcomes_of(world_size, name, num_microbatches, dtype)):
        trace = outcome.played.trace
        assert [parse(span.label) for span in trace] == list(schedule.steps[rank])
        assert [span.kind for span in trace] == [step.kind for step in schedule.steps[rank]]
        assert all(before.end <= after.start for before, after in itertools.pairwise(trace))
        assert {span.rank for span in trace} == {rank}


@pytest.mark.parametrize("seeds", [range(20), pytest.param(range(20, 60), marks=pytest.mark.soak)], ids=str)
def test_any_legal_order_ends_and_gives_the_gradients_of_one_process(seeds):
    """Stages anywhere, some on several ranks (whose gradients have the same bits), some backwards split."""
    given = [programs.any_legal_schedule(seed, 3) for seed in seeds]
    for schedule in given:
        validate(schedule)
    assert any(len(holders) == 3 for schedule in given for holders in schedule.holders)
    results = launch(programs.every_given, 3, given, timeout_s=120).results
    for number, schedule in enumerate(given):
        _, reference = alone_once(schedule.num_stages, schedule.num_microbatches, torch.float64)
        ranks = [rank[number].gradients for rank in results]
        assert worst(ranks, reference) < 1e-12, schedule
        for stage in reference:
            first, *others = [by_stage[stage] for by_stage in ranks if stage in by_stage]
            assert all(torch.equal(other[name], first[name]) for other in others for name in first)


def test_one_rank_may_hold_all_stages_or_three_of_them():
    given = [[gpipe(1, 1), gpipe(1, 3), BUILDERS["interleaved 1F1B"](1, 4, 3)], [BUILDERS["interleaved 1F1B"](2, 5, 3)]]
    for world_size, some in enumerate(given, 1):
        results = launch(programs.every_given, world_size, some).results
        for number, schedule in enumerate(some):
            _, reference = alone_once(schedule.num_stages, schedule.num_microbatches, torch.float64)
            assert worst([rank[number].gradients for rank in results], reference) < 1e-12


# ---- memory

def units(stage, last):
    """Bytes that one process keeps of a microbatch from F to B, and from I to W."""
    x, target = (part[:SAMPLES].clone() for part in batch(1))
    kept, owed = LiveSavedBytes(stage.parameters()), OwedWeights()
    with kept.watching(), deferred_weights(stage, owed):
        y = stage(x.requires_grad_())
        y = mse_loss(y, target) if last else y
    whole, gradient = kept.now(), None if last else torch.ones(SAMPLES, WIDTH)
    y.backward(gradient)
    del x, y, target, gradient
    for tensor in owed.tensors():
        kept.note(tensor)
    return whole, kept.now()


@functools.cache
def units_of_each(num_stages):
    stages = linear_stages(num_stages)
    return [units(stage, stage is stages[-1]) for stage in stages]


KEPT = [(size, *key) for size in SIZES for key in schedules(size)]
ALWAYS_KEPT = [run for run in KEPT if any(other[:3] == run for other in ALWAYS)]


@functools.cache
def all_kept(world_size, always):
    runs = [run for n, *run in KEPT if n == world_size and ((n, *run) in ALWAYS_KEPT) == always]
    return in_turn(programs.kept_by_linear_layers, world_size, map(tuple, runs))


@pytest.mark.parametrize(("world_size", "name", "num_microbatches"), [
    *ALWAYS_KEPT, *(pytest.param(*run, marks=pytest.mark.soak) for run in KEPT if run not in ALWAYS_KEPT)])
def test_a_rank_keeps_what_its_order_says_to_the_byte(world_size, name, num_microbatches):
    run, schedule = (world_size, name, num_microbatches), BUILDERS[name](world_size, num_microbatches)
    kept, waiting = zip(*units_of_each(schedule.num_stages), strict=True)
    assert all(x_bytes > SAMPLES * WIDTH * 4 for x_bytes in kept)
    for rank, kept_bytes in enumerate(all_kept(world_size, run in ALWAYS_KEPT)[run[1:]]):
        assert kept_bytes == held(schedule.steps[rank], kept, waiting)


@pytest.mark.parametrize(("name", "microbatches"), [("GPipe", [8, 8, 8, 8]), ("1F1B", [4, 3, 2, 1])])
def test_what_ranks_keep_at_most_is_that_of_the_textbook(name, microbatches):
    for rank, kept_bytes in enumerate(all_kept(4, True)[name, 8]):
        assert max(kept_bytes) == microbatches[rank] * units_of_each(4)[rank][0]


@pytest.mark.parametrize("name", ["1F1B", "ZB-V", "DualPipe"])
def test_calls_in_a_row_add_their_gradients_and_leave_nothing_behind(name):
    schedule = BUILDERS[name](2, 8)
    model = stages_of_model(schedule.num_stages, torch.float64)
    for seed in (1, 2):
        _, reference = alone(model, *batch(8, torch.float64, seed))
    results = launch(programs.two_batches, 2, name).results
    assert worst([gradients for gradients, _, _ in results], reference) < 1e-12
    assert [before for _, before, _ in results] == [after for _, _, after in results]


def test_sends_are_let_go_while_1f1b_goes_on():
    for most in launch(programs.sends_kept, 4).results:
        assert most[0] == most[1] == most[2] <= 8


# ---- PyTorch

@functools.cache
def by_torch(folder):
    for name in ("ZB-H1", "interleaved 1F1B"):
        (folder / f"{name}.csv").write_text(to_csv(BUILDERS[name](4, 9)))
    return launch(programs.by_torch, 4, str(folder), timeout_s=120).results


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("schedules")


@pytest.mark.parametrize("name", [*programs.TORCHS, "ZB-H1, CSV", "interleaved 1F1B, CSV"])
def test_gradients_are_those_of_pytorchs_pipelines(name, folder):
    """Its own schedules, and its runtime that plays ours from CSV."""
    for by in by_torch(folder):
        theirs, ours = by[name]
        assert worst([ours], theirs) < 1e-6


# ---- stages of any kind

@functools.cache
def every_case():
    return launch(pipeline_stages.every_case, 2, timeout_s=60).results


@pytest.mark.parametrize("way", ["one_f_one_b", "zb_h1"])
@pytest.mark.parametrize("name", pipeline_stages.CASES)
def test_stages_of_any_kind_get_the_gradients_of_one_process(name, way):
    case = pipeline_stages.CASES[name]
    stages = pipeline_stages.stages_of(case)
    x, y = pipeline_stages.batch_of(case)
    loss = mse_loss(nn.Sequential(*stages)(x), y)
    if loss.requires_grad:
        loss.backward()
    reference = programs.gradients(dict(enumerate(stages)))
    ranks = [by[name, way] for by in every_case()]
    assert worst([rank.gradients for rank in ranks], reference) < 1e-12
    assert sum(rank.played.loss for rank in ranks) == pytest.approx(loss.item(), rel=1e-12)


def test_a_stage_that_recomputes_keeps_its_input_and_no_more():
    """Between the two halves of backward, W's layers still keep what they need."""
    for by in every_case():
        stored, full = (max(by[f"recompute {what}", "one_f_one_b"].played.kept_bytes) for what in ("none", "full"))
        assert full < stored / 4
    assert max(every_case()[0]["recompute full", "one_f_one_b"].played.kept_bytes) \
        == 2 * SAMPLES * pipeline_stages.LENGTH * WIDTH * 8


def test_stages_in_bf16_hand_on_bf16():
    for ours, theirs in launch(pipeline_stages.in_bf16, 2).results:
        assert all(torch.equal(gradient, theirs[stage][name]) and gradient.dtype == torch.bfloat16
                   for stage, by_name in ours.items() for name, gradient in by_name.items())


# ---- copies

GPTS = ("1F1B", "interleaved 1F1B", "ZB-H1", "ZB-V", "DualPipe", "DualPipeV")


@functools.cache
def trained_gpts(dtype):
    return in_turn(pipeline_stages.trains_gpt, 4, [(name, dtype) for name in GPTS])


@pytest.mark.parametrize("dtype", [pytest.param(torch.float32, marks=pytest.mark.soak), torch.float64])
@pytest.mark.parametrize("name", GPTS)
def test_tied_ends_stay_one_and_train_as_in_one_process(name, dtype):
    """All copies, DualPipe's four of the table as well, are equal to the last bit after three steps."""
    ranks = trained_gpts(dtype)[name, dtype]
    num_stages = BUILDERS[name](4, 8).num_stages
    reference = pipeline_stages.gpt_alone(num_stages, dtype)
    assert worst(ranks, reference) < 3 * TOLERANCE[dtype]
    tables = [stages[number][key] for stages in ranks
              for number, key in ((0, "tokens.weight"), (num_stages - 1, "head.weight")) if number in stages]
    assert len(tables) == (4 if name == "DualPipe" else 2)
    assert all(torch.equal(table, tables[0]) for table in tables)
    for number in range(num_stages):
        first, *others = [stages[number] for stages in ranks if number in stages]
        assert all(torch.equal(other[key], first[key]) for other in others for key in first)


# ---- options

def test_without_scale_gradients_are_as_many_times_as_large_as_there_are_microbatches():
    for by in launch(programs.options, 2).results:
        for stage, named in by["plain"].items():
            for name, gradient in named.items():
                assert torch.equal(by["not scaled"][stage][name], 4 * gradient)
                whole = 4 * SAMPLES * WIDTH * gradient                      # the mean is over so many numbers
                assert off_by(by["sum"][stage][name], whole) < 1e-12


@pytest.mark.parametrize("name", ["ZB-H1", "DualPipeV"])
def test_padded_steps_last_at_least_so_long_and_compute_the_same(name):
    seconds = {"F": 0.004, "I": 0.005, "W": 0.006, "B": [0.01] * BUILDERS[name](2, 4).num_stages}
    least = duration_of(seconds, BUILDERS[name](2, 4).num_stages)
    for outcome, unpadded in launch(programs.padded, 2, name, seconds).results:
        assert all(span.duration_s >= least(parse(span.label)) for span in outcome.played.trace)
        assert all(torch.equal(gradient, unpadded[stage][key])
                   for stage, named in outcome.gradients.items() for key, gradient in named.items())


# ---- failures

@pytest.mark.parametrize("kind", ["forward", "backward"])
def test_a_rank_that_raises_ends_all_and_is_named(kind):
    start = time.monotonic()
    with pytest.raises(RankFailed, match=r"rank 1 of 4 raised ArithmeticError: the third microbatch"):
        launch(programs.raises_in, 4, kind, timeout_s=30)
    assert time.monotonic() - start < 10


@pytest.mark.parametrize(("what", "said"), [
    ("boundary", r"rank 0 of 2 raised BadValue: stage 0 gives \[2, 16\] torch.float32, and .* say \[2, 8\] torch.floa"),
    ("dtype", r"rank 0 of 2 raised BadValue: stage 0 gives \[2, 16\] torch.float32, .* say \[2, 16\] torch.bfloat16: "),
    ("tuple", "rank 0 of 2 raised BadValue: stage 0 gives a tuple, and boundary"),
    ("loss", r"rank 1 of 2 raised BadValue: loss_fn gives \[2, 16\] torch.float32: give one number"),
])
def test_what_cannot_be_handed_on_is_told_instead_of_sent(what, said):
    with pytest.raises(RankFailed, match=said):
        launch(programs.wrong_on_one_rank, 2, what)


REFUSALS = {
    "no_grad": "there is no backward without gradients: call run_schedule outside",
    "no stages": r"rank 0 of GPipe holds stages \[0\]: give a dict with a module for each; given are \[\]",
    "another's stage": r"rank 0 of GPipe holds stages \[0\]: .* given are \[1\]",
    "a list": r"rank 0 of GPipe holds stages \[0\]: .* given are a list",
    "more ranks": "GPipe is for 3 ranks, and there are 2",
    "7 samples": "7 inputs and 7 targets cannot be cut into 4 equal microbatches: take a multiple of 4",
    "no samples": "0 inputs and 0 targets cannot",
    "fewer targets": "8 inputs and 4 targets cannot",
    "no targets": "give rank 0 the inputs and targets of the whole batch, as all others; not a Tensor and a NoneType",
    "W before I": "W first: rank 0 has W0 of stage 0 before I0 of stage 0, which it needs",
    "pad_s": "the schedule has B actions: give their duration, too",
    "boundaries": r"give all ranks the same boundary: rank 0 has \(2, 16\), rank 1 has \(2, 17\)",
    "schedules": "give all ranks the same schedule: rank 0 has GPipe with 4 microbatches, .* GPipe with 2 microbatches",
    "tied on one rank": r"give all ranks the same tied: rank 0 has \[\], rank 1 has \[\[\(0, '0.weight'\)",
    "no such name": "stage 0 has no parameter 'weight' to be tied: it has 0.weight, 0.bias",
    "no such stage": "tied has stage 2's 0.weight: name each copy once, of stages 0 to 1",
    "twice": "tied has stage 1's 0.weight: name each copy once",
    "unlike": "0.weight of stage 0 on rank 0 and 0.weight of stage 1 on rank 1 are copies of one parameter and differ:",
    "shapes": r"differ \(\[16, 16\] torch.float32 and \[16\] torch.float32\): start them",
    "two seeds": "bias of stage 0 on rank 0 and bias of stage 0 on rank 1 are copies of one parameter and differ: st",
}


@functools.cache
def refusals():
    return launch(programs.refusals, 2).results[0]


def test_every_call_that_cannot_be_is_listed():
    assert set(refusals()) == set(REFUSALS)


@pytest.mark.parametrize("what", REFUSALS)
def test_calls_that_cannot_be_are_told_how_to_mend_them(what):
    said = refusals()[what]
    assert re.match(r"(BadValue|IllegalSchedule): ", said)
    assert re.search(REFUSALS[what], said)


@pytest.mark.parametrize("build", [gpipe, one_f_one_b])
def test_a_pipeline_without_microbatches_cannot_be_asked_for(build):
    with pytest.raises(ValueError, match="num_microbatches is a whole number of at least 1"):
        build(2, 0)
