"""Two parallelisms on one mesh of 2 x 2 ranks equal one process, and groups leave each other alone."""
import functools

import pytest
import torch

from helpers.predict.collectives import cost
from helpers.run.launch import launch
from tests.run.combined import group_programs
from tests.run.combined import mesh_programs as programs
from tests.run.combined.mesh_programs import SCHEDULES, batches, one_process, own_training, perceptron_of, stages_of

TOLERANCE = 1e-6                        # relative, in fp64; clipping takes the norm in fp32
ORDERS = ("rows inside", "columns inside")


@functools.cache
def trained():
    return launch(programs.every_training, 4, timeout_s=120).results


@functools.cache
def grouped():
    return launch(group_programs.everything, 4, timeout_s=120).results


def off_by(found, reference):
    return ((found - reference).abs().max() / reference.abs().max()).item()


# ---- two axes

@pytest.mark.parametrize("order", ORDERS)
def test_ddp_along_one_axis_and_averaging_along_the_other_equal_one_process_on_the_whole_batch(order):
    reference = one_process(perceptron_of(0), batches()).parameters
    assert max(off_by(rank[f"averaged twice, {order}"], reference) for rank in trained()) < TOLERANCE


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("stage", [1, 2, 3])
def test_shards_along_one_axis_with_replicas_along_the_other_equal_one_process_on_the_whole_batch(stage, order):
    reference = one_process(perceptron_of(0), batches(), programs.MAX_NORM)
    assert reference.norms.min() < programs.MAX_NORM < reference.norms.max()        # some steps are clipped
    for rank in trained():
        parameters, norms = rank[f"stage {stage}, {order}"]
        assert off_by(parameters, reference.parameters) < TOLERANCE
        assert off_by(norms, reference.norms) < TOLERANCE


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", SCHEDULES)
def test_a_pipeline_along_one_axis_and_data_parallel_along_the_other_equal_one_process(name, order):
    stages = stages_of(SCHEDULES[name])
    reference = one_process(torch.nn.Sequential(*stages), batches(3, 16))
    found = [rank[f"{name}, {order}"] for rank in trained()]
    assert {number for parameters, _ in found for number in parameters} == set(range(len(stages)))
    assert max(off_by(stage, programs.flat(stages[number])) for parameters, _ in found
               for number, stage in parameters.items()) < TOLERANCE
    losses = torch.tensor([losses for _, losses in found]).sum(0) / 2               # two pipelines
    assert losses.tolist() == pytest.approx(reference.losses, rel=TOLERANCE)


# ---- two groups

@pytest.mark.parametrize("way", ["NaiveDDP", "DDP"])
def test_two_groups_train_different_models_at_the_same_time(way):
    references = [one_process(*own_training(number)).parameters for number in range(2)]
    for number, rank in enumerate(trained()):
        found = rank[f"independent {way}"]
        assert off_by(found["parameters"], references[number // 2]) < TOLERANCE
        assert found["last is trained"] == (number < 2)
        assert found["differs"] is None


def test_buffers_come_from_the_first_rank_of_the_group():
    assert [rank["independent DDP"]["marks"] for rank in trained()] == [{0}, {0}, {2}, {2}]


@pytest.mark.parametrize("what", ["wrong", "ranks"])
def test_a_mesh_of_a_group_counts_its_ranks_from_0_and_gives_what_torch_gives(what):
    expected = {"wrong": [[]] * 4, "ranks": [[(0, 2)], [(0, 2), (0, 3)], [(1, 2), (1, 3)], [(1, 2), (2, 3)]]}[what]
    assert [rank[what] for rank in grouped()] == expected


def test_a_ring_of_a_group_sends_only_between_its_ranks():
    barriers_bytes = 10_000                             # at most, and what the protocol adds
    outside, *members = [rank["sent"] for rank in grouped()]
    assert outside < barriers_bytes
    ring_bytes = cost("ring_all_reduce", group_programs.NUM_ELEMENTS, 3).sent
    assert all(ring_bytes <= sent + 4 * 4 and sent < ring_bytes + barriers_bytes for sent in members)  # ragged chunks


def test_ranks_are_compared_within_a_group():
    for rank in grouped():
        found = rank["compared"]
        assert found["all"] == ((2, 3), (0, 1))
        assert found["row"] is None
        assert found["row, one changed"] == "parameter 0.bias: rank 1 differs from rank 0"        # in both rows
        assert found["drawn alike in a row"] == (0, 1)
        assert found["drawn alike in a column"] == ()


def test_sampling_is_checked_within_a_group():
    for rank in grouped():
        assert rank["drawn"] == {"row": (2, 0, []), "all": (4, 12, ["overlap"])}


# ---- what is no group

WORDS = {
    "a word": "process_group is 'dp': pass a group such as mesh.get_group(\"dp\") or",
    "a mesh": "process_group is DeviceMesh((dp=2, pp=2), 'cpu', stride=(2, 1)): pass a group",
    "a placeholder": "rank 0 is not in this process_group: torch gave it a placeholder when it made the group",
}


@pytest.mark.parametrize("what", WORDS)
def test_what_is_no_group_of_this_rank_is_refused_with_the_cure(what):
    ranks = [rank["refused"][what] for rank in grouped() if what in rank["refused"]]
    assert len(ranks) == (1 if what == "a placeholder" else 4)
    assert [(name, said) for rank in ranks for name, said in rank.items() if WORDS[what] not in said] == []
