"""The meters count what the kernel counts: bytes of collectives, of DDP and FSDP, on the wire and in memory."""
import functools
import math
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist

from helpers.predict.collectives import bytes_sent
from helpers.predict.memory import buffer_bytes, recipe, state_bytes
from helpers.run.launch import launch
from helpers.run.measure import meters
from tests.run.in_turn import in_turn
from tests.run.measure import metered

FULL_BYTES = 4_000_032          # 4 MB of float32, a multiple of 2, 3 and 4 elements


@functools.cache
def collectives(world_size):
    names = ("all_reduce", "all_gather", "all_to_all", "reduce_scatter", "broadcast", "send")
    return in_turn(metered.collective, world_size, [(name, FULL_BYTES // 4) for name in names])


def counted(name, world_size):
    """By rank: the bytes of one collective."""
    return collectives(world_size)[name, FULL_BYTES // 4]


@pytest.mark.parametrize("world_size", [2, 3, 4])
@pytest.mark.parametrize("collective", ["all_reduce", "all_gather", "all_to_all"])
def test_bytes_agree_with_the_formula(collective, world_size):
    """Within 1 % of the optimum: gloo's ring reaches it."""
    expected = bytes_sent(collective, FULL_BYTES, world_size)
    for wire in counted(collective, world_size):
        assert wire.sent == pytest.approx(expected, rel=0.01)
        assert wire.received == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize("world_size", [2, 3, 4])
def test_gloos_reduce_scatter_moves_what_an_all_reduce_moves(world_size):
    """Its optimum is half of that: gloo reduces everything everywhere, then drops the rest."""
    for wire in counted("reduce_scatter", world_size):
        assert wire.sent == pytest.approx(bytes_sent("all_reduce", FULL_BYTES, world_size), rel=0.01)


@pytest.mark.parametrize("world_size", [2, 3, 4])
def test_gloos_broadcast_is_a_tree(world_size):
    """The source sends once per level of a binomial tree; everybody else receives the tensor once."""
    wires = counted("broadcast", world_size)
    assert wires[0].sent == pytest.approx(FULL_BYTES * math.ceil(math.log2(world_size)), rel=0.01)
    assert sum(w.sent for w in wires) == pytest.approx(FULL_BYTES * (world_size - 1), rel=0.01)
    assert [w.received for w in wires[1:]] == [pytest.approx(FULL_BYTES, rel=0.01)] * (world_size - 1)


@pytest.mark.parametrize("world_size", [2, 3, 4])
def test_a_send_moves_the_tensor_once_and_only_between_two(world_size):
    first, second, *others = counted("send", world_size)
    assert [first.sent, second.received] == [pytest.approx(FULL_BYTES, rel=0.01)] * 2
    assert all(quiet < 1000 for quiet in (first.received, second.sent, *(w.sent + w.received for w in others)))


def test_the_run_has_the_total_of_the_whole_program():
    def program(rank, world_size):
        for _ in range(3):
            dist.all_reduce(torch.ones(250_000))

    assert [w.sent for w in launch(program, 2).wire] == [pytest.approx(3e6, rel=0.01)] * 2


def test_bytes_still_in_the_sockets_queue_count_as_sent():
    """A send may return while most of its bytes wait in the kernel; they are of this block, not of the next."""
    def program(rank, world_size):
        with meters.wire() as first:
            if rank == 0:
                dist.send(torch.ones(1_000_000), 1)
            else:
                dist.recv(torch.ones(1_000_000), 0)
        with meters.wire() as second:
            dist.barrier()
        return first.sent, second.sent

    assert launch(program, 2).results[0] == (pytest.approx(4e6, rel=0.01), pytest.approx(0, abs=1000))


def test_a_plain_socket_is_counted_to_the_byte():
    """Against a plain socket that sends a known number of bytes."""
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        peer, _ = server.accept()
        with peer, meters.wire() as counted:
            client.sendall(b"x" * 12_345)
            assert len(_read(peer, 12_345)) == 12_345
    assert (counted.sent, counted.received, counted.counted_by) == (12_345, 12_345, "kernel")


def test_without_the_kernels_count_the_calls_are_added_up():
    """What macOS sees: the sizes of the tensors given, in the direction of the call."""
    def program(rank, world_size):
        meters.sys = SimpleNamespace(platform="darwin")
        tensor, other = torch.ones(10), 1 - rank
        with meters.wire() as one_way:
            dist.send(tensor, 1) if rank == 0 else dist.recv(tensor, 0)
        with meters.wire() as both_ways:
            for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, tensor, other),
                                                dist.P2POp(dist.irecv, torch.ones(20), other)] if rank == 0 else
                                               [dist.P2POp(dist.irecv, torch.ones(10), other),
                                                dist.P2POp(dist.isend, torch.ones(20), other)]):
                work.wait()
        with meters.wire() as together:
            dist.all_reduce(tensor)
        return one_way, both_ways, together

    first, second = launch(program, 2).results
    assert [(w.sent, w.received) for w in first] == [(40, 0), (40, 80), (40, 40)]
    assert [(w.sent, w.received) for w in second] == [(0, 40), (80, 40), (40, 40)]
    assert first[0].counted_by == "calls"


def test_a_destroyed_group_keeps_its_bytes():
    """Scripts for torchrun end with destroy_process_group, which closes the sockets and their counters."""
    def program(rank, world_size):
        group = dist.new_group([0, 1])
        dist.all_reduce(torch.ones(1_000_000), group=group)
        dist.destroy_process_group(group)
        dist.all_reduce(torch.ones(1_000_000))
        dist.destroy_process_group()

    assert [w.sent for w in launch(program, 2).wire] == [pytest.approx(8e6, rel=0.01)] * 2


def test_sparse_and_fake_tensors_are_counted_by_what_they_hold():
    from torch._subclasses.fake_tensor import FakeTensorMode

    before = meters.live_tensor_bytes()
    sparse = torch.sparse_coo_tensor([[0, 1]], torch.ones(2), (1000,), check_invariants=True)
    with FakeTensorMode():
        fake = torch.empty(1000)
    assert meters.live_tensor_bytes() - before == 2 * 8 + 2 * 4
    del sparse, fake


STEPS = [(how, world_size) for how in ("ddp", "ddp with bucket view", "fsdp") for world_size in (1, 2, 4)]
IN_TEST = [("ddp", 2), ("ddp with bucket view", 1), ("fsdp", 2)]


@pytest.mark.parametrize(("how", "world_size", "depth"), [
    *((*step, 20) for step in IN_TEST), *(pytest.param(*step, 40, marks=pytest.mark.soak) for step in STEPS)])
def test_memory_of_a_training_step_is_the_formula(how, world_size, depth):
    """State by formula, exactly; the kernel's count within 5 % of state, buffers and 5 MiB that are always there."""
    params, largest = metered.WIDTH**2 * depth, metered.WIDTH**2
    stage = 3 if how == "fsdp" else 0
    state = state_bytes(params, world_size, stage, recipe("fp32"))
    buffers = buffer_bytes(params, stage, largest, recipe("fp32"), bucket_view=how == "ddp with bucket view")
    if how == "fsdp":
        buffers = 0                     # freed again when the step is over
    for grown in launch(metered.train_step, world_size, how, depth, timeout_s=60).results:
        assert state <= grown.tensors <= state + 1000         # step counters of 4 bytes
        assert grown.private == pytest.approx(state + buffers + 5 * 2**20, rel=0.05)


def test_the_run_keeps_the_fullest_block():
    def program(rank, world_size):
        for size in (1, 4, 2):
            with meters.memory():
                kept = torch.ones(size * 2**20)
            del kept

    memory, = launch(program, 1).memory
    assert memory.tensors == 16 * 2**20
    assert memory.private == pytest.approx(16 * 2**20, rel=0.02)


def test_a_storage_seen_through_two_tensors_counts_once():
    before = meters.live_tensor_bytes()
    whole = torch.ones(1000)
    part = whole[10:20]
    assert meters.live_tensor_bytes() - before == 4000
    del whole, part


def test_gradients_and_optimizer_state_are_found():
    before = meters.live_tensor_bytes()
    model = torch.nn.Linear(100, 100, bias=False)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(1, 100)).sum().backward()
    optimizer.step()
    assert meters.live_tensor_bytes() - before == 4 * 40_000 + 4      # Adam's step count is a tensor, too


def _read(peer, count: int) -> bytes:
    got = b""
    while len(got) < count:
        got += peer.recv(count - len(got))
    return got
