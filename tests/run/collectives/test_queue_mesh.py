"""A mesh of queues: real processes, counted bytes, a deadline that names who waits for whom."""
import functools
import itertools
import time

import numpy
import psutil
import pytest
import torch

from helpers.facts.errors import BadValue
from helpers.run.collectives import (
    double_tree_all_reduce,
    play,
    ring_all_gather,
    ring_all_reduce,
    ring_reduce_scatter,
    run_on_gloo,
    run_on_queues,
    tree_broadcast,
)
from helpers.run.launch import RankFailed, preload

pytestmark = pytest.mark.ranks
DTYPES = (torch.float32, torch.float64, torch.int64, torch.bfloat16)
CASES = list(itertools.product((ring_all_reduce, double_tree_all_reduce), DTYPES))


def summed(mesh, all_reduce, size, dtype=torch.float32):
    tensor = torch.full((size,), float(mesh.rank + 1)).to(dtype)
    all_reduce(mesh, tensor)
    return tensor


def test_l76_four_ranks_and_64_floats_send_384_bytes_each():
    run = run_on_queues(summed, 4, ring_all_reduce, 64)
    assert [wire.sent for wire in run.wire] == [wire.received for wire in run.wire] == [384] * 4
    assert run.wire[0].counted_by == "mesh"
    assert all(torch.equal(result, torch.full((64,), 10.0)) for result in run.results)


def sums(mesh):
    """Of each case: the sum, and the bytes that the mesh has counted, if it counts."""
    found = []
    for all_reduce, dtype in CASES:
        before = mesh.wire.sent if hasattr(mesh, "wire") else 0
        result = summed(mesh, all_reduce, 7, dtype)
        found.append((result, mesh.wire.sent - before if hasattr(mesh, "wire") else 0))
    return found


@functools.cache
def all_sums(run, world_size):
    return run(sums, world_size).results


@pytest.mark.parametrize("world_size", [1, 2, 3, 5])
@pytest.mark.parametrize("dtype", DTYPES)
def test_one_algorithm_gives_the_same_on_three_transports(world_size, dtype):
    for all_reduce in (ring_all_reduce, double_tree_all_reduce):
        number, played = CASES.index((all_reduce, dtype)), play(summed, world_size, all_reduce, 7, dtype)
        queued, sent = zip(*(rank[number] for rank in all_sums(run_on_queues, world_size)), strict=True)
        on_gloo = [rank[number][0] for rank in all_sums(run_on_gloo, world_size)]
        assert str(list(queued)) == str(on_gloo) == str(played.results)
        assert list(sent) == [wire.sent for wire in played.wire]


def test_l76_broadcast_from_any_source_all_gather_and_reduce_scatter():
    def program(mesh):
        one = torch.full((3,), float(mesh.rank))
        tree_broadcast(mesh, one, 2)
        parts = torch.full((8,), float(mesh.rank))
        ring_all_gather(mesh, parts)
        return one.tolist(), parts.tolist(), ring_reduce_scatter(mesh, torch.arange(4.0)).tolist()

    for rank, returned in enumerate(run_on_queues(program, 4).results):
        assert returned == ([2.0] * 3, [0.0, 0.0, 1.0, 1.0, 2.0, 2.0, 3.0, 3.0], [4.0 * rank])


def test_torch_distributed_is_not_used():
    assert run_on_queues(lambda mesh: torch.distributed.is_initialized(), 2).results == [False, False]


def test_a_receive_in_vain_ends_at_the_deadline_and_names_both_ranks():
    """The default is 30 seconds; here one, so that the test is quick."""
    def program(mesh):
        if mesh.rank:
            mesh.recv(torch.ones(1), mesh.rank - 1)

    with pytest.raises(RankFailed) as caught:
        run_on_queues(program, 3, deadline_s=1)
    assert "NothingCame: rank 1 waited 1 s for a message from rank 0, and none came" in str(caught.value)
    assert "rank 2 waited 1 s for a message from rank 1" in str(caught.value)
    assert "mesh.recv(torch.ones(1), mesh.rank - 1)" in str(caught.value)
    assert not psutil.Process().children(recursive=True)[2:]            # the fork server and its tracker stay


def test_sends_do_not_wait_so_all_may_send_first():
    def program(mesh):
        tensor = torch.full((100_000,), float(mesh.rank))
        mesh.send(tensor, (mesh.rank + 1) % mesh.world_size)
        tensor.zero_()                                                  # what was sent is a copy
        mesh.recv(tensor, (mesh.rank - 1) % mesh.world_size)
        return tensor.mean().item()

    assert run_on_queues(program, 4).results == [3, 0, 1, 2]


def test_what_a_rank_sent_arrives_after_the_rank_has_ended():
    def program(mesh):
        tensor = torch.full((2_000_000,), 3.0)
        if mesh.rank == 0:
            mesh.send(tensor, 1)
            return None
        time.sleep(1.5)
        mesh.recv(tensor.zero_(), 0)
        return tensor.mean().item()

    assert run_on_queues(program, 2).results == [None, 3.0]


def test_receives_may_be_waited_for_in_any_order():
    def program(mesh):
        first, second = numpy.zeros(1), numpy.zeros(1)
        if mesh.rank == 0:
            mesh.send(first + 1, 1)
            mesh.send(second + 2, 1)
        else:
            works = [mesh.irecv(first, 0), mesh.irecv(second, 0)]
            for work in reversed(works):
                work.wait()
        return first.item(), second.item()

    assert run_on_queues(program, 2).results[1] == (1, 2)


def test_messages_of_another_size_are_named():
    def program(mesh):
        mesh.send(torch.ones(mesh.rank + 1), 1 - mesh.rank)
        mesh.recv(torch.ones(1), 1 - mesh.rank)

    with pytest.raises(RankFailed, match=r"rank 1 has sent 8 bytes of torch\.float32 to rank 0, which expects 4 of"):
        run_on_queues(program, 2)


@pytest.mark.parametrize("run", [run_on_queues, run_on_gloo])
def test_what_cannot_be_run_is_refused_before_anything_starts(run):
    with pytest.raises(BadValue, match="a rank program is a function"):
        run(3, 2)
    with pytest.raises(BadValue, match="missing a required argument: 'size'"):
        run(summed, 2, ring_all_reduce)
    with pytest.raises(BadValue, match="world_size is a whole number"):
        run(summed, 0, ring_all_reduce, 4)


def test_every_pair_has_a_queue_so_ranks_are_few():
    assert run_on_queues(summed, 16, ring_all_reduce, 16).results[15].tolist() == [136.0] * 16
    with pytest.raises(BadValue, match="from 1 to 16 on queues, not 17"):
        run_on_queues(summed, 17, ring_all_reduce, 4)


@pytest.mark.parametrize("deadline_s", ["x", 0, -1, float("nan"), None])
def test_a_deadline_is_a_number_of_seconds(deadline_s):
    with pytest.raises(BadValue, match="deadline_s is a number of seconds"):
        run_on_queues(summed, 2, ring_all_reduce, 4, deadline_s=deadline_s)


def test_a_message_of_another_dtype_is_named():
    def program(mesh):
        mine, theirs = (torch.ones(1), torch.ones(1, dtype=torch.int32))[::1 if mesh.rank else -1]
        mesh.exchange(mine, 1 - mesh.rank, theirs.to(mine.dtype), 1 - mesh.rank)

    with pytest.raises(RankFailed, match=r"4 bytes of torch\.(float|int)32 to rank ., which expects 4 of"):
        run_on_queues(program, 2)


def test_what_nobody_receives_is_named_at_the_deadline():
    def program(mesh):
        if mesh.rank == 0:
            mesh.send(torch.ones(300_000), 1)

    with pytest.raises(RankFailed, match="rank 0 has sent to rank 1, which did not receive all of it in 1 s"):
        run_on_queues(program, 2, deadline_s=1)


@pytest.mark.parametrize("run", [run_on_queues, run_on_gloo, play])
def test_shapes_and_gradients_do_not_matter_on_any_transport(run):
    def program(mesh):
        other = 1 - mesh.rank
        given = torch.full((2, 3), float(mesh.rank + 1), requires_grad=True)
        taken, single = torch.zeros(3, 2), torch.tensor(0.0)
        mesh.exchange(given, other, taken, other)
        mesh.exchange(torch.tensor(float(mesh.rank)), other, single, other)
        return taken.tolist(), single.item()

    assert run(program, 2).results == [([[2.0, 2.0]] * 3, 1.0), ([[1.0, 1.0]] * 3, 0.0)]


@pytest.mark.parametrize("run", [run_on_queues, run_on_gloo])
@pytest.mark.parametrize("to", [0, 2, -1])
def test_a_message_goes_to_another_rank(run, to):
    with pytest.raises(RankFailed, match="rank 0 can send to and receive from the other ranks of 2, not"):
        run(lambda mesh: mesh.rank or mesh.send(torch.ones(1), to), 2)


@pytest.mark.parametrize("run", [run_on_queues, run_on_gloo, play])
def test_every_rank_has_its_own_copy_of_the_arguments(run):
    def program(mesh, tensor, *, more):
        ring_all_reduce(mesh, tensor)
        more.append(mesh.rank)
        return tensor.tolist(), more

    assert run(program, 3, torch.ones(3), more=[]).results == [([3.0] * 3, [rank]) for rank in range(3)]


def test_errors_show_the_learners_lines_and_not_the_courses():
    def program(mesh):
        mesh.recv(torch.ones(1), 5)

    for run in (run_on_queues, run_on_gloo):
        with pytest.raises(RankFailed) as caught:
            run(program, 2)
        assert "mesh.recv(torch.ones(1), 5)" in str(caught.value)
        assert "helpers." not in str(caught.value)
        assert "mesh.py" not in str(caught.value).replace("test_queue_mesh.py", "")


def test_what_cannot_come_home_is_named_by_its_own_type():
    import threading

    with pytest.raises(RankFailed, match="the program returned a lock"):
        run_on_queues(lambda mesh: threading.Lock(), 2)


preload(__name__)
