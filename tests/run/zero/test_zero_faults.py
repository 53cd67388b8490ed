"""What users do to ZeRO besides training: it raises and says how to mend it, or does not matter."""
import re

import pytest

from helpers.run.launch import RankFailed, launch
from tests.run.zero import zero_fault_programs as programs

STAGES = [1, 2, 3]


def message(program, *args, world_size=2) -> str:
    with pytest.raises(RankFailed) as failed:
        launch(program, world_size, *args)
    return str(failed.value)


@pytest.mark.parametrize("stage", STAGES)
def test_a_backward_that_failed_and_was_caught_leaves_nothing_behind(stage):
    results = launch(programs.goes_on_after_a_failed_backward, 2, stage).results
    assert max(results) < 1e-6


@pytest.mark.parametrize("stage", STAGES)
def test_a_graph_from_before_the_step_is_refused_as_torch_refuses_it(stage):
    words = message(programs.backward_through_a_graph_from_before_the_step, stage)
    assert "has been modified by an inplace operation" in words


@pytest.mark.parametrize("stage", [1, 2])
def test_a_loaded_state_is_not_undone_by_the_next_step(stage):
    assert max(launch(programs.loads_a_state, 2, stage).results) < 0.01         # bfloat16's rounding


def test_the_state_of_stage_3_is_whole_or_refused():
    assert launch(programs.asks_for_the_state, 2, True).results == [(4, True)] * 2
    assert "call state_dict() on all ranks, inside `with zero.full_parameters()`" in message(
        programs.asks_for_the_state, False)


@pytest.mark.parametrize("stage", STAGES)
def test_a_parameter_that_is_frozen_after_wrapping_is_no_silent_matter(stage):
    assert "requires_grad of a parameter has changed since the model was wrapped: wrap it anew" in message(
        programs.freezes_later, stage)


def test_a_gradient_in_two_parts_is_refused():
    assert "make it use_reentrant=False" in message(programs.checkpoints_a_shared_layer_twice)


def test_frozen_units_are_freed_one_after_another_in_backward():
    """Eight of them are 4 in shards on 2 ranks, and one or two are gathered; not all eight."""
    assert max(launch(programs.peak_of_frozen_units, 2).results) < 4 + 2.5


def test_units_may_return_a_dataclass():
    assert max(launch(programs.units_that_return_a_dataclass, 2).results) < 1e-6


def test_a_module_that_is_never_called_is_no_unit():
    assert "a ModuleList is never called: name the modules in it as units, units=list(...)" in message(
        programs.model_of_lists)


@pytest.mark.parametrize("stage", STAGES)
def test_float64_is_clipped_too(stage):
    (ours, alone), (ours_of_1, _) = launch(programs.in_float64, 2, stage).results
    assert ours == ours_of_1 == pytest.approx(alone, rel=1e-6)


def test_a_state_that_would_be_lost_is_refused():
    assert "what is loaded now would be lost: load it, then wrap" in message(programs.loads_into_shards)


def test_stage_3_has_units_and_no_buckets():
    assert "choose units instead of bucket_bytes" in message(programs.has_buckets_in_stage_3)


def test_units_inside_a_checkpoint_are_there_when_they_run_again():
    assert max(launch(programs.units_inside_a_checkpoint, 2).results) < 1e-6


def test_a_rank_that_waits_in_a_helper_is_shown_with_its_own_line_and_the_helpers():
    words = message(programs.validates_on_rank_0)
    assert re.search(r'File "zero_fault_programs.py", line \d+, in validates_on_rank_0: zero\(inputs\(rank\)\)\n'
                     r'    File "ring.py", line \d+, in ring_all_gather: mesh.exchange', words)
