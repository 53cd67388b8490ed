"""What a rank holds, sends and keeps from moment to moment, against the formulas of `predict`."""
import functools

import pytest

from helpers.facts.units import MiB
from helpers.predict.collectives import step_elements_sent
from helpers.predict.memory import RECIPES, SHARDED_FROM, state_by_term, state_bytes
from helpers.run.launch import launch
from tests.run.zero import zero_measured as measured
from tests.run.zero.zero_measured import DEPTH, DTYPES, SENDER, SIZES, STAGES, UNIT, WIDTH

ELEMENT_BYTES = {"fp32": dict.fromkeys(SHARDED_FROM, 4), "mixed": dict.fromkeys(SHARDED_FROM, 4) | {"parameter": 2,
                                                                                                    "gradient": 2}}

# ---- state

@functools.cache
def all_held(world_size):
    return launch(measured.held, world_size).results


CONFIGURATIONS = [(sizes, recipe, stage) for sizes in SIZES for recipe in DTYPES for stage in STAGES]


@pytest.mark.parametrize("world_size", [1, 2, 3, pytest.param(4, marks=pytest.mark.soak)])
@pytest.mark.parametrize(("sizes", "recipe", "stage"), CONFIGURATIONS)
def test_a_rank_holds_what_the_formula_says(sizes, recipe, stage, world_size):
    """A sharded term of b bytes is b * sum over flat parameters [n] of the length of chunk `rank` of n: P b / N if N
    divides every n, and else less than b more or less for each flat parameter.  Each piece that the optimizer has costs
    a counter of 4 bytes, and there is nothing else."""
    for rank, by in enumerate(all_held(world_size)):
        terms, tensors, lengths, num_pieces = by[sizes, recipe, stage]
        formula = state_by_term(sum(lengths), world_size, stage, RECIPES[recipe])
        width = ELEMENT_BYTES[recipe]
        chunks = sum(n // world_size + (rank < n % world_size) for n in lengths)
        exactly = {term: width[term] * (chunks if stage >= SHARDED_FROM[term] else sum(lengths)) for term in formula}
        assert terms == exactly | {"counter": 4 * num_pieces}
        assert tensors == sum(terms.values())
        for term in formula:
            assert abs(exactly[term] - formula[term]) < (width[term] * len(lengths) if sizes == "odd" else 1e-9)


@pytest.mark.parametrize(("sizes", "recipe", "stage"), CONFIGURATIONS)
@pytest.mark.parametrize("world_size", [2, 3, pytest.param(4, marks=pytest.mark.soak)])
def test_the_ranks_shards_together_are_the_state_once(sizes, recipe, stage, world_size):
    ranks = [by[sizes, recipe, stage] for by in all_held(world_size)]
    once = state_by_term(sum(ranks[0][2]), recipe=RECIPES[recipe])
    for term in once:
        copies = 1 if stage >= SHARDED_FROM[term] else world_size
        assert sum(terms[term] for terms, *_ in ranks) == copies * once[term]


# ---- what the kernel has given, and what was sent

@pytest.mark.parametrize(("stage", "recipe", "world_size"), [
    (1, "fp32", 2), (2, "fp32", 2), (3, "fp32", 2), (3, "mixed", 2),
    pytest.param(3, "mixed", 4, marks=pytest.mark.soak)])
def test_the_kernel_has_back_what_the_state_does_not_need(stage, recipe, world_size):
    """Within 5 %, and 8 MiB for what gloo and autograd set up and pages that malloc keeps."""
    formula = state_bytes(WIDTH * WIDTH * DEPTH, world_size, stage, RECIPES[recipe])
    for private, state in launch(measured.steps_of, world_size, stage, DTYPES[recipe], timeout_s=60).results:
        assert state == pytest.approx(formula, rel=1e-5)
        assert -0.05 * formula < private - formula < 0.05 * formula + 8 * MiB


@functools.cache
def all_sent(world_size):
    return launch(measured.sent_by_each, world_size, timeout_s=60).results


@pytest.mark.parametrize("world_size", [1, 3, *(pytest.param(n, marks=pytest.mark.soak) for n in (2, 4))])
def test_a_step_sends_2_p_in_stages_1_and_2_and_3_p_in_stage_3(world_size):
    """Times (N-1)/N, to 1 %, by the kernel's count; without resharding stage 3 sends 2 P, too."""
    for by in all_sent(world_size):
        for stage, reshard in ((1, True), (2, True), (3, True), (3, False)):
            formula = 4 * step_elements_sent(SENDER[0]**2 * SENDER[1], stage, world_size, reshard)
            assert by[stage, reshard] == pytest.approx(formula, rel=0.01)


@pytest.mark.parametrize("world_size", [3, *(pytest.param(n, marks=pytest.mark.soak) for n in (2, 4))])
def test_pytorchs_send_more_on_gloo(world_size):
    """Beside DDP, gradients are all_reduced, 2 P, and shards broadcast; gloo's reduce_scatter, which fully_shard calls,
    moves as much as an all_reduce."""
    one = 4 * SENDER[0]**2 * SENDER[1] * (world_size - 1) / world_size
    ranks = all_sent(world_size)
    assert [by["fully_shard"] / one for by in ranks] == [pytest.approx(4, rel=0.01)] * world_size
    assert sum(by["beside DDP"] for by in ranks) / one / world_size == pytest.approx(3, rel=0.01)


# ---- from moment to moment

@functools.cache
def all_lives():
    return launch(measured.lives, 2).results


def phases(alive, kind):
    """The most bytes of a kind in forward, backward and step, and what is left."""
    series, backward, end = alive.bytes[kind], alive.phases["backward"], alive.phases["step"]
    return [max(part) / UNIT for part in (series[:backward], series[backward:end], series[end:], series[-1:])]


def test_stage_1_holds_all_parameters_and_all_gradients_all_the_time():
    for by in all_lives():
        assert phases(by[1], "parameter") == phases(by[1], "gradient") == [8, 8, 8, 8]


def test_stage_2_holds_its_shard_of_the_gradients_and_one_bucket_of_them():
    """Beside the shards of 7 buckets, the gradient that autograd has just made and the bucket that it is moved into."""
    for by in all_lives():
        assert phases(by[2], "parameter") == [8, 8, 8, 8]
        assert phases(by[2], "gradient") == [0, 7 / 2 + 2, 4, 4]


def test_stage_3_holds_its_shard_of_the_parameters_and_at_most_two_units():
    for by in all_lives():
        forward, backward, update, left = phases(by[3], "parameter")
        assert [forward, update, left] == [5, 4, 4]
        assert 5 <= backward <= 4 + 2
        assert phases(by[3], "gradient") == phases(by[2], "gradient")


def test_moments_are_sharded_in_every_stage_and_the_peak_falls_from_stage_to_stage():
    for by in all_lives():
        for stage in STAGES:
            assert phases(by[stage], "momentum") == phases(by[stage], "variance") == [4, 4, 4, 4]
        assert by[1].peak_bytes > by[2].peak_bytes > by[3].peak_bytes
