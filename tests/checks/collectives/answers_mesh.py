"""Collectives that are no answer to any exercise; no pytest here, so that ranks need not import it."""
import os
import sys
import time

import greenlet
import torch
import torch.distributed as dist

from helpers.run.launch import launch
from tests.checks.collectives import answers_gather


def is_not_written_yet(mesh, tensor, *source):
    raise NotImplementedError()


def does_nothing(mesh, tensor, *source):
    pass


def fills_with_nan(mesh, tensor, *source):
    tensor.fill_(float("nan"))


def divides_by_zero(mesh, tensor, *source):
    return 1 / 0


def takes_no_mesh(tensor):
    return tensor


def yields_instead_of_working(mesh, tensor, *source):
    yield mesh.send(tensor, (mesh.rank + 1) % mesh.world_size)


def never_ends(mesh, tensor, *source):
    while True:
        pass


def sleeps(mesh, tensor, *source):
    time.sleep(60)


def swallows_every_exception(mesh, tensor, *source):
    for _ in range(100):
        try:
            mesh.recv(tensor, (mesh.rank + 1) % mesh.world_size)
        except:                                                         # noqa: E722  also what ends a virtual rank
            tensor += 1


def exits_the_process(mesh, tensor, *source):
    os._exit(3)


def leaves_with_sys_exit(mesh, tensor, *source):
    sys.exit("enough")


def interrupts_itself(mesh, tensor, *source):
    raise KeyboardInterrupt


def leaves_the_clock(mesh, tensor, *source):
    raise greenlet.GreenletExit


def forgets_to_receive(mesh, tensor, *source):
    if mesh.rank == 0:
        mesh.isend(tensor, mesh.world_size - 1)


def gives_its_turn_away(mesh, tensor, *source):
    greenlet.getcurrent().parent.switch()


def prints_17_mb_of_blanks(mesh, tensor, *source):
    print(" " * 17 * 2**20)


def prints_that_it_is_right(mesh, tensor, *source):
    print("ok     every rank has all chunks\n3 of 3 points.")


def launches_ranks(mesh, tensor, *source):
    launch(int, 2)


def asks_torch(mesh, tensor, *source):
    dist.all_reduce(tensor)


def sends_a_list(mesh, tensor, *source):
    mesh.exchange([1.0], (mesh.rank + 1) % mesh.world_size, tensor, (mesh.rank - 1) % mesh.world_size)


def sends_to_itself(mesh, tensor, *source):
    mesh.send(tensor, mesh.rank)


def forgets_whom_to_send_to(mesh, tensor, *source):
    mesh.send(tensor)


def receives_what_has_gaps(mesh, tensor, *source):
    mesh.exchange(tensor[::2], (mesh.rank + 1) % mesh.world_size, tensor[::2], (mesh.rank - 1) % mesh.world_size)


class EqualToAll(list):
    def __eq__(self, other):
        return True

    def __ne__(self, other):
        return False

    __hash__ = None


class OneIsEqualToAll(float):
    __eq__, __ne__ = EqualToAll.__eq__, EqualToAll.__ne__
    __hash__ = float.__hash__


class LiesAboutItsElements(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return EqualToAll() if func is torch.Tensor.tolist else super().__torch_function__(func, types, args, kwargs)


def forges_its_list(mesh, tensor, *source):
    tensor.tolist = EqualToAll
    return tensor


def forges_its_class(mesh, tensor, *source):
    tensor.__class__ = LiesAboutItsElements
    return tensor


def forges_torch(mesh, tensor, *source):
    torch.Tensor.tolist = lambda self: [OneIsEqualToAll()] * len(self)
    return tensor


def leaves_a_huge_tensor(mesh, tensor, *source):
    """It takes no memory, but would as a list: 8 TB."""
    tensor.data = torch.zeros(1, dtype=tensor.dtype).expand(10**12)
    return tensor


# all-gather, bought cheaply: right values, and a cost that the clock must see
def hides_bytes_in_one_row(mesh, tensor):
    """A matrix of one row has a length of 1."""
    n = mesh.world_size
    for _ in range(n - 1):
        incoming = torch.empty_like(tensor).view(1, -1)
        mesh.exchange(tensor.view(1, -1), (mesh.rank - 1) % n, incoming, (mesh.rank + 1) % n)
        tensor.copy_(torch.maximum(tensor, incoming[0]))


class Weightless(torch.Tensor):
    itemsize = 0


def sends_what_weighs_nothing(mesh, tensor):
    n = mesh.world_size
    for _ in range(n - 1):
        incoming = torch.empty_like(tensor)
        mesh.exchange(tensor.as_subclass(Weightless), (mesh.rank - 1) % n, incoming, (mesh.rank + 1) % n)
        tensor.copy_(torch.maximum(tensor, incoming))


def prints_what_it_has(mesh, tensor):
    """Right, and looked at."""
    answers_gather.goes_round_downwards(mesh, tensor)
    print(mesh.rank, "has", tensor)
