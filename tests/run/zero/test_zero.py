"""Our ZeRO, one process on the whole batch, PyTorch's ZeroRedundancyOptimizer and fully_shard: the same training."""
import functools
import re

import pytest
import torch
from torch import nn

from helpers.run.data_sharding import part_of_batch
from helpers.run.launch import RankFailed, launch
from helpers.run.zero import Zero1, Zero2, Zero3
from tests.pairwise import pairwise
from tests.run.ddp.ddp_programs import wraps_nothing, wraps_unlike_models
from tests.run.in_turn import in_turn
from tests.run.zero import zero_programs as programs
from tests.run.zero.zero_cases import CASES, STAGES, WAYS, Language, Routed

RUNS = [(name, way) for name, case in CASES.items() for way in case.ways]
ODD, FEW = "odd sizes, groups, clipped", "fewer elements than ranks, a rank without samples"
ALWAYS = [(name, way, world_size) for name, way in RUNS for world_size in (1, 2)]
ALWAYS += [(ODD, way, 3) for way in STAGES] + [(FEW, way, 4) for way in STAGES]
ALWAYS += pairwise(tuple(CASES), WAYS, (4,), allowed=lambda name, way, _: way in CASES[name].ways, given=ALWAYS)
MORE = [(*run, world_size) for world_size in (3, 4) for run in RUNS if (*run, world_size) not in ALWAYS]


def off_by(tensor, reference):
    """Relative to the reference's largest."""
    return ((tensor.double() - reference.double()).abs().max() / reference.abs().max()).item()


def apart(tensor, reference):
    """In norm."""
    return ((tensor - reference).norm() / reference.norm()).item()


@functools.cache
def alone(name, dtype=torch.float32):
    threads = torch.get_num_threads()
    torch.set_num_threads(1)                    # as ranks have
    try:
        return programs.train(CASES[name], dtype=dtype)
    finally:
        torch.set_num_threads(threads)


@functools.cache
def trained(world_size, always):
    """By case and way."""
    runs = [(name, way) for name, way in RUNS if ((name, way, world_size) in ALWAYS) == always]
    return in_turn(programs.trained, world_size, runs, timeout_s=200)


# ---- results

def test_each_way_and_each_case_is_tried_on_four_ranks():
    assert {name for name, _, world_size in ALWAYS if world_size == 4} == set(CASES)
    assert {way for _, way, world_size in ALWAYS if world_size == 4} == set(WAYS)
    assert all(way in CASES[name].ways for name, way, _ in ALWAYS)


@pytest.mark.parametrize(("name", "way", "world_size"), [
    *ALWAYS, *(pytest.param(*run, marks=pytest.mark.soak) for run in MORE)])
def test_every_way_trains_as_one_process_does_on_the_whole_batch(name, way, world_size):
    """To 1e-6 in float32 after all steps; the ranks end with the same numbers, to the last bit."""
    ranks = trained(world_size, (name, way, world_size) in ALWAYS)[name, way]
    assert all(torch.equal(parameters, ranks[0][0]) for parameters, _ in ranks)
    (parameters, norms), (expected, expected_norms) = ranks[0], alone(name)
    assert off_by(parameters, expected) < 1e-6
    assert len(norms) == len(expected_norms)
    assert norms.tolist() == pytest.approx(expected_norms.tolist(), rel=1e-6)


@pytest.mark.parametrize("name", CASES)
def test_the_tolerance_is_that_of_float32(name):
    """One process in float32 is less than 1e-6 from one in float64, which is more than 0; training moves more."""
    start = programs.flat(programs.build(CASES[name].model, 0).parameters())
    exact = alone(name, torch.float64)[0]
    assert 0 < off_by(alone(name)[0], exact) < 1e-6
    assert off_by(start, exact) > 1e-2


def test_norms_are_above_the_limit_where_a_case_is_clipped():
    for name, case in CASES.items():
        if case.max_norm:
            assert (alone(name)[1].max() > case.max_norm) == ("not clipped" not in name)


def test_some_ranks_of_four_skip_what_others_use():
    model, case = Routed(), CASES["unused on some ranks"]
    used = [[bool((x[part_of_batch(len(x), rank, 4)][:, 0] > model.limit).any()) for rank in range(4)]
            for x, _ in programs.batches(case)]
    assert sum(0 < sum(ranks) < 4 for ranks in used) > programs.NUM_STEPS / 2


def test_a_module_without_a_unit_or_a_bucket_limit_trains_too():
    """Defaults; only the first rank's model counts."""
    reference = programs.build(programs.plain, 0)
    optimizer = torch.optim.Adam(reference.parameters())
    reference(torch.ones(2, 16)).sum().backward()
    optimizer.step()
    for vectors in launch(programs.one_default_step, 2).results:
        assert [off_by(vector, programs.flat(reference.parameters())) < 1e-6 for vector in vectors] == [True] * 3


# ---- mixed precision

@pytest.mark.parametrize("world_size", [1, 2])
def test_the_mixed_recipe_is_that_of_one_process_to_the_last_bit(world_size):
    """bf16 model and gradients, Adam on an fp32 master copy.  For two ranks the reference adds the gradients of the
    halves, each divided by two, in bf16: two numbers have one sum, in either order."""
    for by_stage, plainly in launch(programs.mixed, world_size).results:
        assert [stage for stage in STAGES if not torch.equal(by_stage[stage], plainly)] == []


@pytest.mark.parametrize("world_size", [3, pytest.param(4, marks=pytest.mark.soak)])
def test_more_ranks_are_no_further_from_it_than_bf16_is_from_float32(world_size):
    """A sum of three has the ring's order, which moves what bf16 rounds: by less than four roundings of 2**-8, in norm,
    and less than rounding moves the recipe away from training in float32."""
    exact = programs.train(programs.Case())[0]
    for by_stage, plainly in launch(programs.mixed, world_size).results:
        away = [apart(by_stage[stage], plainly) for stage in STAGES]
        assert max(away) < min(4 * 2**-8, apart(plainly, exact))


# ---- gradients that stay

@pytest.mark.parametrize("stage", ["zero2", "zero3"])
def test_a_step_without_zero_grad_goes_on_with_the_sum_of_gradients_as_torch_does(stage):
    (ours, alone), *_ = launch(programs.never_zeroes, 2, stage).results
    assert off_by(ours, alone) < 1e-6


def test_stage_1_refuses_a_backward_into_gradients_that_it_has_summed():
    with pytest.raises(RankFailed, match=r"RuntimeError: this backward adds to .* call zero_grad"):
        launch(programs.never_zeroes, 2, "zero1")


# ---- models that cannot be wrapped

@pytest.mark.parametrize("wrap", [Zero1, Zero3])
def test_a_module_without_trainable_parameters_is_refused(wrap):
    with pytest.raises(RankFailed, match="ranks 0 and 1 of 2 raised BadValue: no parameter of this model requires a"):
        launch(wraps_nothing, 2, wrap)


@pytest.mark.parametrize(("wrap", "kind"), [(Zero1, "frozen"), (Zero3, "shape")])
def test_ranks_with_unlike_models_are_told(wrap, kind):
    with pytest.raises(RankFailed, match=r"BadValue: rank 1 has another model than rank 0: '0\.weight'"):
        launch(wraps_unlike_models, 2, wrap, kind)


UNITS = {
    "tied across": (lambda model: [model.ends.embedding, model.ends.output],
                    "ends.output.weight is tied to a parameter of another unit, .* into one unit, or into none"),
    "tied in and out": (lambda model: [model.ends.output], "ends.output.weight is tied .* into one unit, or into none"),
    "the model": (lambda model: [model], "unit 0, a Language, is no module inside the model: take units from"),
    "elsewhere": (lambda model: [nn.Linear(8, 8)], "unit 0, a Linear, is no module inside the model: take units from"),
    "a name": (lambda model: ["body"], "unit 0, a str, is no module inside the model: take units from"),
}
GROUPS = {
    "parameters": lambda model: list(model.parameters()),
    "a generator": lambda model: [{"params": model.parameters()}],
    "no parameters": lambda model: [{"lr": 0.1}],
    "one dict": lambda model: {"params": list(model.parameters())},
    "names": lambda model: [{"params": list(model.named_parameters())}],
    "another model's": lambda model: [{"params": list(Language().parameters())}],
}


@functools.cache
def refusals():
    """By what was asked for: what was said."""
    def program(rank, world_size):
        said = {name: of(lambda model, units=units: Zero3(model, units=units(model)))
                for name, (units, _) in UNITS.items()}
        return said | {name: of(lambda model, groups=groups: Zero2(model, groups=groups(model)))
                       for name, groups in GROUPS.items()}

    def of(wrap):
        try:
            wrap(Language())
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        return "accepted"

    return launch(program, 1).results[0]


@pytest.mark.parametrize("name", UNITS)
def test_units_that_cannot_be_are_told_how_to_mend_them(name):
    assert re.match("BadValue: " + UNITS[name][1], refusals()[name])


@pytest.mark.parametrize("name", GROUPS)
def test_groups_that_cannot_be_are_told_how_to_mend_them(name):
    assert re.match(r"BadValue: .*group.*\{\"params\": ", refusals()[name])
