"""Our orders against those of torch.distributed.pipelining, which reads our CSV, too; no process is started."""
from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest
from torch.distributed.pipelining import schedules as torchs

from helpers.facts.schedules import BUILDERS, dualpipe, dualpipe_v, gpipe, interleaved, one_f_one_b, to_csv, zb_v

COMPUTE = ("F", "B", "I", "W", "OVERLAP_F_B")
SIZES = {name: [(2, 8), (4, 8), (4, 12)] for name in BUILDERS} | {"DualPipeV": [(1, 2), (2, 5), (4, 8), (4, 11)]}


def read_by_torch(schedule):
    return {rank: [torchs._Action.from_str(cell) for cell in line.split(",")]
            for rank, line in enumerate(to_csv(schedule).splitlines())}


def without_bubbles(actions):
    """Only what computes: torch writes None where a rank waits, and gradient reductions."""
    return [str(a) for a in actions if a is not None and a.computation_type.value in COMPUTE]


def order_of(torchs_class, num_ranks, **attributes):
    stub = SimpleNamespace(pp_group_size=num_ranks, **attributes)
    return [without_bubbles(torchs_class._calculate_single_rank_operations(stub, rank)) for rank in range(num_ranks)]


def ours(schedule):
    return [line.split(",") for line in to_csv(schedule).splitlines()]


@pytest.mark.parametrize(("name", "size"), [(n, s) for n in BUILDERS if n != "DualPipe" for s in SIZES[n]])
def test_torch_reads_our_csv_and_finds_it_valid(name, size):
    schedule = BUILDERS[name](*size)
    read = read_by_torch(schedule)
    assert [list(map(str, actions)) for actions in read.values()] == ours(schedule)
    placed = torchs._validate_schedule(read, schedule.num_ranks, schedule.num_stages, schedule.num_microbatches)
    assert {stage: (rank,) for stage, rank in placed.items()} == dict(enumerate(schedule.holders))


def test_torch_takes_no_schedule_in_which_two_ranks_hold_a_stage():
    with pytest.raises(AssertionError, match="Stage 0 is assigned to both rank 1 and rank 0"):
        torchs._validate_schedule(read_by_torch(dualpipe(2, 4)), 2, 2, 4)


def played_by_torch(torchs_class, num_ranks, rank, m):
    """What a single-stage schedule calls, in order; its stage computes and sends nothing."""
    calls = []
    schedule = MagicMock(_n_microbatches=m, _num_stages=num_ranks)
    schedule._check_inputs.return_value = [()] * m, [{}] * m
    stage = schedule._stage
    stage.stage_index = rank
    for name in ("get_fwd_recv_ops", "get_fwd_send_ops", "get_bwd_recv_ops", "get_bwd_send_ops"):
        getattr(stage, name).return_value = []
    stage.forward_one_chunk.side_effect = lambda i, *_, **__: calls.append(f"{rank}F{i}")
    stage.backward_one_chunk.side_effect = lambda i, **_: calls.append(f"{rank}B{i}")
    torchs_class._step_microbatches(schedule)
    return calls


@pytest.mark.parametrize(("num_ranks", "m"), [(1, 1), (2, 2), (4, 2), (4, 4), (4, 8), (8, 11)])
@pytest.mark.parametrize(("torchs_class", "build"), [(torchs.ScheduleGPipe, gpipe),
                                                     (torchs.Schedule1F1B, one_f_one_b)])
def test_gpipe_and_1f1b_are_what_torch_plays(torchs_class, build, num_ranks, m):
    assert ours(build(num_ranks, m)) == [played_by_torch(torchs_class, num_ranks, r, m) for r in range(num_ranks)]


@pytest.mark.parametrize(("num_ranks", "m"), [(2, 2), (4, 4), (4, 8)])
def test_the_orders_that_torch_writes_down_are_ours_but_for_its_slip_on_1f1bs_last_rank(num_ranks, m):
    """torch 2.13 numbers the forwards of the last rank from 1 there; what it plays, above, is right."""
    stub = SimpleNamespace(_num_stages=num_ranks, _n_microbatches=m)
    order = torchs.ScheduleGPipe._get_pipeline_order(stub)
    assert ours(gpipe(num_ranks, m)) == [without_bubbles(order[rank]) for rank in range(num_ranks)]
    order = torchs.Schedule1F1B._get_pipeline_order(stub)
    assert ours(one_f_one_b(num_ranks, m))[:-1] == [without_bubbles(order[rank]) for rank in range(num_ranks - 1)]
    last = num_ranks - 1
    assert without_bubbles(order[last])[0] == f"{last}F1"


@pytest.mark.parametrize("num_chunks", [2, 3])
@pytest.mark.parametrize(("num_ranks", "m"), [(1, 3), (2, 2), (2, 8), (4, 4), (4, 12), (4, 10), (3, 5), (4, 3)])
def test_interleaved_1f1b_is_torchs_also_where_microbatches_are_no_multiple_of_ranks(num_ranks, m, num_chunks):
    a_round = m // max(1, m // num_ranks)
    order = order_of(torchs.ScheduleInterleaved1F1B, num_ranks, n_local_stages=num_chunks, _n_microbatches=m,
                     microbatches_per_round=a_round)
    assert ours(interleaved(num_ranks, m, num_chunks)) == order


@pytest.mark.parametrize(("num_ranks", "m"), [(1, 1), (2, 2), (2, 3), (4, 4), (4, 7), (4, 16), (5, 9)])
def test_zb_v_is_torchs_also_for_few_microbatches(num_ranks, m):
    assert ours(zb_v(num_ranks, m)) == order_of(torchs.ScheduleZBVZeroBubble, num_ranks, num_stages=2 * num_ranks,
                                                _n_microbatches=m)


@pytest.mark.parametrize(("num_ranks", "m"), [(1, 2), (2, 4), (2, 7), (3, 6), (4, 8), (4, 20), (5, 11)])
def test_dualpipev_is_torchs(num_ranks, m):
    assert ours(dualpipe_v(num_ranks, m)) == order_of(torchs.ScheduleDualPipeV, num_ranks, _n_microbatches=m)
