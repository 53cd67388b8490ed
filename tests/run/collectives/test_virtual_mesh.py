"""The virtual clock: right data, exact times, ports that take turns, deadlocks in words."""
import gc
import sys
import weakref

import numpy
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.facts.errors import BadValue
from helpers.facts.network import STEPS, Link, Network, network
from helpers.run.collectives import (
    double_tree,
    double_tree_all_reduce,
    naive_all_reduce,
    pipelined_ring_all_reduce,
    play,
    ring_all_reduce,
    ring_reduce_scatter,
)
from helpers.run.collectives.virtual_mesh import Deadlock
from tests.run.collectives.gloo_collectives import (
    ALL_GATHERS,
    ALL_REDUCES,
    ALL_TO_ALLS,
    BROADCASTS,
    REDUCE_SCATTERS,
    REDUCES,
)

RANKS, SIZES = st.integers(1, 64), st.integers(1, 200)


def numbers(rank, size):
    return numpy.arange(size) + 1000 * rank


def total(world_size, size):
    return sum(numbers(rank, size) for rank in range(world_size))


def played(algorithm, world_size, size, *args, make=numbers, **settings):
    """What each rank's tensor holds afterwards, and what each call returned."""
    def program(mesh):
        tensor = make(mesh.rank, size)
        return tensor, algorithm(mesh, tensor, *args)

    run = play(program, world_size, **settings)
    return [list(tensor) for tensor, _ in run.results], [returned for _, returned in run.results]


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(ALL_REDUCES), RANKS, SIZES)
def test_an_all_reduce_leaves_the_sum_everywhere(all_reduce, world_size, size):
    held, _ = played(all_reduce, world_size, size)
    assert held == [list(total(world_size, size))] * world_size


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(ALL_REDUCES), RANKS, SIZES, st.integers(0, 5), st.integers(0, 5), st.integers(0, 5))
def test_values_do_not_depend_on_the_network(all_reduce, world_size, size, alpha, beta, gamma):
    held, _ = played(all_reduce, world_size, size, network=network(alpha, beta, gamma))
    assert held == [list(total(world_size, size))] * world_size


@settings(max_examples=30, deadline=None)
@given(RANKS, SIZES, st.integers(1, 20))
def test_segments_and_pieces_of_any_size_give_the_same_sum(world_size, size, cut):
    for all_reduce in (double_tree_all_reduce, pipelined_ring_all_reduce):
        held, _ = played(all_reduce, world_size, size, cut)
        assert held == [list(total(world_size, size))] * world_size


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(BROADCASTS), RANKS, SIZES, st.data())
def test_a_broadcast_from_any_rank_reaches_all(broadcast, world_size, size, data):
    source = data.draw(st.integers(0, world_size - 1))
    held, _ = played(broadcast, world_size, size, source)
    assert held == [list(numbers(source, size))] * world_size


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(REDUCES), RANKS, SIZES, st.data())
def test_a_reduce_to_any_rank_leaves_the_sum_there(reduce, world_size, size, data):
    to = data.draw(st.integers(0, world_size - 1))
    held, _ = played(reduce, world_size, size, to)
    assert held[to] == list(total(world_size, size))


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(REDUCE_SCATTERS), RANKS, SIZES)
def test_after_a_reduce_scatter_rank_r_owns_chunk_r(reduce_scatter, world_size, size):
    _, returned = played(reduce_scatter, world_size, size)
    expected = numpy.array_split(total(world_size, size), world_size)
    assert [list(chunk) for chunk in returned] == [list(chunk) for chunk in expected]


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(ALL_GATHERS), RANKS, SIZES)
def test_an_all_gather_spreads_each_ranks_chunk(all_gather, world_size, size):
    def only_own_chunk(rank, size):
        tensor = numpy.full(size, -1)
        numpy.array_split(tensor, world_size)[rank][:] = rank
        return tensor

    held, _ = played(all_gather, world_size, size, make=only_own_chunk)
    expected = [rank for rank, chunk in enumerate(numpy.array_split(numpy.arange(size), world_size)) for _ in chunk]
    assert held == [expected] * world_size


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(ALL_TO_ALLS), RANKS, SIZES)
def test_an_all_to_all_gives_rank_q_the_chunk_q_of_all(all_to_all, world_size, size):
    _, returned = played(all_to_all, world_size, size)
    chunks = [[chunk.tolist() for chunk in numpy.array_split(numbers(r, size), world_size)] for r in range(world_size)]
    for q, received in enumerate(returned):
        assert received.tolist() == [of_rank[q] for of_rank in chunks]


@pytest.mark.parametrize("algorithm", [*ALL_REDUCES, *REDUCE_SCATTERS, *ALL_GATHERS, *ALL_TO_ALLS])
def test_a_tensor_that_is_not_contiguous_is_refused_and_not_lost(algorithm):
    with pytest.raises(BadValue, match="contiguous"):
        play(lambda mesh: algorithm(mesh, torch.ones(4, 4).t()), 2)


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 200))
def test_in_a_double_tree_nobody_has_children_twice(world_size):
    places = [double_tree(rank, world_size) for rank in range(world_size)]
    for tree in (0, 1):
        nodes = [place[tree] for place in places]
        assert sum(node.parent is None for node in nodes) == 1
        assert all(rank in nodes[node.parent].children for rank, node in enumerate(nodes) if node.parent is not None)
        assert sum(len(node.children) for node in nodes) == world_size - 1
        assert max(len(node.children) for node in nodes) <= 2
    assert not any(first.children and second.children for first, second in places)


@pytest.mark.parametrize("world_size", [4, 16, pytest.param(64, marks=pytest.mark.soak)])
def test_many_segments_bring_the_double_tree_near_its_bandwidth(world_size):
    """Not to 2 T, which NCCL reaches: here going up and coming down overlap less."""
    size = 4096
    times = [play(lambda mesh, cut=cut: double_tree_all_reduce(mesh, numpy.ones(size, "f"), cut), world_size,
                  network=network(0, 1 / (4 * size))).time_s for cut in (1, 128)]
    assert 2 <= times[1] <= 3.05
    assert times[1] < times[0]


def test_pieces_hide_the_adding():
    """Without latency the plain ring adds while its links rest; the pipelined one does both at once."""
    net, size = network(0, 1, 1), 4096
    plain = play(lambda mesh: ring_all_reduce(mesh, numpy.ones(size, "f")), 4, network=net)
    pipelined = play(lambda mesh: pipelined_ring_all_reduce(mesh, numpy.ones(size, "f"), 64), 4, network=net)
    assert pipelined.wire == plain.wire
    assert plain.time_s == 3 * 4 * size / 4 * 3                   # N-1 steps, each beta + gamma, then beta again
    assert pipelined.time_s < 0.72 * plain.time_s


def test_a_message_takes_alpha_and_beta_and_adding_gamma():
    def program(mesh):
        tensor = numpy.ones(8, "f")
        if mesh.rank == 0:
            mesh.send(tensor, 1)
        else:
            mesh.recv(tensor, 0)
            mesh.add(tensor, tensor.copy())

    run = play(program, 2, network=network(1000, 10, 1), traced=True)
    assert run.time_s == 1000 + 10 * 32 + 32
    assert [(s.rank, s.kind, s.start, s.end, s.nbytes) for s in run.trace] == [(0, "send", 0, 1320, 32),
                                                                              (1, "add", 1320, 1352, 32)]


def test_an_element_can_stand_for_more_bytes():
    run = play(lambda mesh: ring_all_reduce(mesh, numpy.ones(4, "f")), 4, network=network(0, 1), bytes_per_element=1e6)
    assert run.time_s == run.wire[0].sent == 6e6


def test_a_port_takes_one_message_at_a_time_and_links_take_turns():
    """Ranks 1 and 2 send two messages each to rank 0, all at once."""
    def program(mesh):
        if mesh.rank:
            for work in [mesh.isend(numpy.ones(1, "f"), 0) for _ in range(2)]:
                work.wait()
        else:
            for work in [mesh.irecv(numpy.ones(1, "f"), source) for source in (1, 1, 2, 2)]:
                work.wait()

    run = play(program, 3, network=network(100, 1), traced=True)
    assert [(s.rank, s.start) for s in run.trace] == [(1, 0), (2, 4), (1, 8), (2, 12)]
    assert run.time_s == 12 + 4 + 100


def starts(program, world_size, net):
    return [(s.rank, s.label, s.start) for s in play(program, world_size, network=net, traced=True).trace]


def sends(*pairs):
    """A program in which each pair is one message of 4 bytes; all are begun at once."""
    def program(mesh):
        works = [mesh.isend(numpy.ones(1, "f"), to) for source, to in pairs if source == mesh.rank]
        works += [mesh.irecv(numpy.ones(1, "f"), source) for source, to in pairs if to == mesh.rank]
        for work in works:
            work.wait()

    return program


def test_a_port_out_takes_one_message_at_a_time():
    assert starts(sends((0, 1), (0, 2)), 3, network(100, 1)) == [(0, "to 1", 0), (0, "to 2", 4)]


def test_out_and_in_are_two_ports():
    assert sorted(starts(sends((0, 1), (1, 0)), 2, network(100, 1))) == [(0, "to 1", 0), (1, "to 0", 0)]


TWO_NODES = Network(Link(0, 1), ranks_per_node=2, between=Link(0, 10))


def test_the_ranks_of_a_node_share_its_port_out():
    """Ranks 0 and 1 send to two other nodes; each message takes 40 s."""
    assert starts(sends((0, 2), (1, 4)), 6, TWO_NODES) == [(0, "to 2", 0), (1, "to 4", 40)]


def test_the_ranks_of_a_node_share_its_port_in():
    assert starts(sends((2, 0), (4, 1)), 6, TWO_NODES) == [(2, "to 0", 0), (4, "to 1", 40)]


def test_within_a_node_its_ports_are_not_used():
    assert starts(sends((0, 1), (1, 2), (3, 2)), 4, TWO_NODES) == [(0, "to 1", 0), (1, "to 2", 0), (3, "to 2", 40)]


def test_ranks_can_be_dealt_to_the_nodes_in_turn():
    net = Network(Link(0, 1), ranks_per_node=2, between=Link(0, 10), in_turn=True)
    assert [net.node_of(rank, 4) for rank in range(4)] == [0, 1, 0, 1]
    assert starts(sends((0, 2), (1, 3)), 4, net) == [(0, "to 2", 0), (1, "to 3", 0)]
    assert play(sends((0, 2)), 4, network=net).time_s == 4
    assert play(sends((0, 1)), 4, network=net).time_s == 40


def test_a_ring_is_as_fast_as_its_slowest_link():
    fast, slow = Link(1, 1), Link(10, 5)
    nodes = Network(fast, ranks_per_node=2, between=slow)
    program = lambda mesh: ring_reduce_scatter(mesh, numpy.ones(4, "f")) and None       # noqa: E731
    assert play(program, 4, network=nodes).time_s == play(program, 4, network=Network(slow)).time_s == 3 * (10 + 4 * 5)
    assert play(program, 4, network=Network(fast)).time_s == 3 * (1 + 4)


def test_the_same_play_gives_the_same_trace():
    plays = [play(lambda mesh: double_tree_all_reduce(mesh, numpy.ones(100, "f"), 5), 9, network=network(3, 2, 1),
                  traced=True) for _ in range(2)]
    assert plays[0].trace == plays[1].trace
    assert len(plays[0].trace) > 100


def test_a_deadlock_is_told_at_once_and_names_who_waits_for_whom():
    def all_send_first(mesh):
        tensor = numpy.ones(1)
        mesh.send(tensor, (mesh.rank + 1) % mesh.world_size)
        mesh.recv(tensor, (mesh.rank - 1) % mesh.world_size)

    with pytest.raises(Deadlock) as caught:
        play(all_send_first, 3)
    assert str(caught.value) == (
        "nobody can go on\n"
        "  rank 0 waits to send 1 element to rank 1, which does not receive\n"
        "  rank 1 waits to send 1 element to rank 2, which does not receive\n"
        "  rank 2 waits to send 1 element to rank 0, which does not receive")


def test_of_many_waiting_ranks_the_first_are_named():
    with pytest.raises(Deadlock, match=r"and 92 more$"):
        play(lambda mesh: mesh.recv(numpy.ones(2), (mesh.rank + 1) % 100), 100)


def test_messages_that_do_not_fit_are_named():
    def program(mesh):
        tensor = torch.ones(2 + mesh.rank)
        mesh.exchange(tensor, 1 - mesh.rank, torch.ones(2), 1 - mesh.rank)

    with pytest.raises(BadValue, match=r"rank 1 sends 3 elements of torch.float32 to rank 0, which expects 2"):
        play(program, 2)


def test_a_message_of_another_dtype_is_named():
    def program(mesh):
        mesh.exchange(numpy.ones(1, "f"), 1 - mesh.rank, numpy.ones(1, "i4"), 1 - mesh.rank)

    with pytest.raises(BadValue, match="rank 1 sends 1 elements of float32 to rank 0, which expects 1 of int32"):
        play(program, 2)


def test_a_message_without_wait_has_not_arrived():
    def program(mesh):
        tensor = torch.full((1,), float(mesh.rank))
        work = mesh.irecv(tensor, 0) if mesh.rank else mesh.isend(tensor, 1)
        before = tensor.item()
        work.wait()
        return before, tensor.item()

    assert play(program, 2).results == [(0, 0), (1, 0)]


def test_a_message_that_nobody_takes_is_told():
    with pytest.raises(Deadlock, match=r"left over\n  rank 0 has begun to send 1 element to rank 1, which does not"):
        play(lambda mesh: mesh.rank or mesh.isend(numpy.ones(1), 1), 2)


def test_received_bytes_are_counted_too():
    run = play(lambda mesh: naive_all_reduce(mesh, numpy.ones(2, "f")), 3)
    assert [(wire.sent, wire.received) for wire in run.wire] == [(16, 16), (8, 8), (8, 8)]


def test_a_play_that_fails_lets_every_rank_clean_up():
    ended = []

    def program(mesh):
        try:
            mesh.recv(numpy.ones(1), (mesh.rank + 1) % 3)
        finally:
            ended.append(mesh.rank)

    with pytest.raises(Deadlock):
        play(program, 3)
    assert sorted(ended) == [0, 1, 2]


def test_one_rank_does_not_turn_off_anothers_gradients():
    def program(mesh):
        with torch.set_grad_enabled(mesh.rank == 1):
            ring_all_reduce(mesh, torch.ones(3))
            inside = torch.is_grad_enabled()
        return inside, torch.is_grad_enabled()

    assert play(program, 3).results == [(False, True), (True, True), (False, True)]
    assert torch.is_grad_enabled()


def test_a_rank_that_exits_does_not_take_the_notebook_with_it():
    with pytest.raises(BadValue, match=r"the program left by sys.exit\(3\)"):
        play(lambda mesh: mesh.rank or sys.exit(3), 2)


def test_what_was_played_is_freed_at_once():
    seen = []

    def program(mesh):
        tensor = numpy.ones(8)
        seen.append(weakref.ref(tensor))
        ring_all_reduce(mesh, tensor)

    gc.disable()
    try:
        play(program, 4)
        assert [ref() for ref in seen] == [None] * 4
    finally:
        gc.enable()


@pytest.mark.parametrize("size", [0, -1, float("nan"), "4"])
def test_an_element_stands_for_some_bytes(size):
    with pytest.raises(BadValue, match="bytes_per_element is a number of bytes above 0"):
        play(lambda mesh: None, 2, bytes_per_element=size)


@pytest.mark.parametrize(("call", "says"), [
    (lambda: play(3, 2), "a rank program is a function program"),
    (lambda: play(ring_all_reduce, 2), "missing a required argument: 'tensor'"),
    (lambda: play(lambda mesh: None, 2, network=None), "network is a Network, such as"),
    (lambda: play(lambda mesh: mesh.rank or mesh.send(numpy.ones(1), numpy.int64(1)), 2), "make it an int"),
])
def test_what_cannot_be_played_is_refused(call, says):
    with pytest.raises(BadValue, match=says):
        call()


def test_segments_and_pieces_are_as_many_as_asked_for():
    def messages(all_reduce, size, *cut):
        run = play(lambda mesh: all_reduce(mesh, numpy.ones(size, "f"), *cut), 2, traced=True)
        return sum(span.kind == "send" for span in run.trace)

    assert messages(double_tree_all_reduce, 64) == 4 * 8
    assert messages(double_tree_all_reduce, 64, 3) == 4 * 3
    assert messages(pipelined_ring_all_reduce, 64, 32) == 4 * 4             # two chunks of 128 bytes, each twice
    assert messages(pipelined_ring_all_reduce, 2**20 + 2) == 4 * 2          # a piece of 2 MiB, and what is left


def test_an_error_of_one_rank_is_its_own_and_ends_the_play():
    def program(mesh):
        if mesh.rank == 2:
            raise KeyError("no")
        mesh.recv(numpy.ones(1), 2)

    with pytest.raises(KeyError) as caught:
        play(program, 4)
    assert caught.value.__notes__ == ["on rank 2 of 4"]


@pytest.mark.parametrize("to", [0, 4, -1, 1.0, None])
def test_a_message_goes_to_another_rank_of_the_mesh(to):
    with pytest.raises(BadValue, match="rank 0 can send to and receive from the other ranks of 4"):
        play(lambda mesh: mesh.rank or mesh.send(numpy.ones(1), to), 4)


@pytest.mark.parametrize("root", [4, -1, 1.0, None])
@pytest.mark.parametrize("algorithm", [*BROADCASTS, *REDUCES])
def test_a_root_is_a_rank(algorithm, root):
    with pytest.raises(BadValue):
        play(lambda mesh: algorithm(mesh, numpy.ones(1), root), 4)


def test_a_tree_has_one_segment_at_least():
    with pytest.raises(BadValue, match="num_segments is 1 or more, not 0"):
        play(lambda mesh: double_tree_all_reduce(mesh, numpy.ones(1), 0), 4)


@pytest.mark.parametrize("world_size", [0, -1, 1025, 2.0, True, "4"])
def test_a_play_has_one_to_1024_ranks(world_size):
    with pytest.raises(BadValue, match="from 1 to 1024"):
        play(naive_all_reduce, world_size)


def test_a_thousand_ranks_play_a_tree():
    """Twenty thousand messages."""
    run = play(lambda mesh: double_tree_all_reduce(mesh, tensor := numpy.ones(8, "i4")) or set(tensor.tolist()), 1024)
    assert run.results == [{1024}] * 1024


@pytest.mark.ranks
@pytest.mark.parametrize("world_size", [128, pytest.param(1024, marks=pytest.mark.soak)])
def test_hundreds_of_ranks_play_a_ring(world_size):
    """A thousand send two million messages; `benchmarks/ring.py` says how long it takes."""
    run = play(lambda mesh: ring_all_reduce(mesh, tensor := numpy.ones(world_size, "i4")) or set(tensor.tolist()),
               world_size)
    assert run.results == [{world_size}] * world_size
    assert run.time_s == 2 * (world_size - 1)


def test_steps_are_what_a_network_of_pure_latency_takes():
    assert play(lambda mesh: ring_all_reduce(mesh, numpy.ones(7)), 7, network=STEPS).time_s == 12
