"""`mended` as learners might write it, right and wrong; no pytest here, so that ranks need not import it."""
import torch
import torch.distributed as dist


def _swaps(mesh, tensor, sends_first, add_first=False):
    incoming, distance = torch.empty_like(tensor), 1
    while distance < mesh.world_size:
        partner = mesh.rank ^ distance
        if sends_first(mesh.rank, partner, distance):
            mesh.send(tensor, partner)
            mesh.recv(incoming, partner)
        else:
            mesh.recv(incoming, partner)
            if add_first:
                mesh.add(tensor, incoming)
            mesh.send(tensor, partner)
        if not add_first or sends_first(mesh.rank, partner, distance):
            mesh.add(tensor, incoming)
        distance *= 2


# right ----------------------------------------------------------------------------------------------------------------
def lower_sends_first(mesh, tensor):
    _swaps(mesh, tensor, lambda rank, partner, distance: rank < partner)


def higher_sends_first(mesh, tensor):
    _swaps(mesh, tensor, lambda rank, partner, distance: rank > partner)


def looks_at_the_bit(mesh, tensor):
    _swaps(mesh, tensor, lambda rank, partner, distance: rank // distance % 2 == 0)


def sums_up_a_tree_and_back_down(mesh, tensor):
    """Other messages, as many of them, and none of the bytes in vain."""
    incoming, distance = torch.empty_like(tensor), 1
    while distance < mesh.world_size:
        if mesh.rank % (2 * distance) == distance:
            mesh.send(tensor, mesh.rank - distance)
        elif mesh.rank % (2 * distance) == 0:
            mesh.recv(incoming, mesh.rank + distance)
            mesh.add(tensor, incoming)
        distance *= 2
    while distance > 1:
        distance //= 2
        if mesh.rank % (2 * distance) == 0:
            mesh.send(tensor, mesh.rank + distance)
        elif mesh.rank % (2 * distance) == distance:
            mesh.recv(tensor, mesh.rank - distance)


# wrong ----------------------------------------------------------------------------------------------------------------
def is_still_broken(mesh, tensor):
    _swaps(mesh, tensor, lambda rank, partner, distance: True)


def all_receive_first(mesh, tensor):
    _swaps(mesh, tensor, lambda rank, partner, distance: False)


def looks_at_parity_only(mesh, tensor):
    _swaps(mesh, tensor, lambda rank, partner, distance: rank % 2 == 0)


def adds_before_sending(mesh, tensor):
    _swaps(mesh, tensor, lambda rank, partner, distance: rank < partner, add_first=True)


def adds_twice(mesh, tensor):
    incoming, distance = torch.empty_like(tensor), 1
    while distance < mesh.world_size:
        _pair(mesh, tensor, incoming, mesh.rank ^ distance)
        tensor += 2 * incoming
        distance *= 2


def stops_a_step_early(mesh, tensor):
    incoming, distance = torch.empty_like(tensor), 1
    while 2 * distance < mesh.world_size or distance == 1:
        _pair(mesh, tensor, incoming, mesh.rank ^ distance)
        tensor += incoming
        distance *= 2


def adds_the_distance(mesh, tensor):
    """1, 2, 3, ... instead of 1, 2, 4, ..."""
    incoming, distance = torch.empty_like(tensor), 1
    while distance < mesh.world_size:
        _pair(mesh, tensor, incoming, mesh.rank ^ distance)
        tensor += incoming
        distance += 1


def sums_at_rank_0(mesh, tensor):
    incoming = torch.empty_like(tensor)
    for other in range(1, mesh.world_size):
        if mesh.rank == 0:
            mesh.recv(incoming, other)
            mesh.add(tensor, incoming)
        elif mesh.rank == other:
            mesh.send(tensor, 0)
    for other in range(1, mesh.world_size):
        if mesh.rank == 0:
            mesh.send(tensor, other)
        elif mesh.rank == other:
            mesh.recv(tensor, 0)


def _pair(mesh, tensor, incoming, partner):
    if mesh.rank < partner:
        mesh.send(tensor, partner)
        mesh.recv(incoming, partner)
    else:
        mesh.recv(incoming, partner)
        mesh.send(tensor, partner)


def uses_exchange(mesh, tensor):
    incoming, distance = torch.empty_like(tensor), 1
    while distance < mesh.world_size:
        mesh.exchange(tensor, mesh.rank ^ distance, incoming, mesh.rank ^ distance)
        mesh.add(tensor, incoming)
        distance *= 2


def uses_isend(mesh, tensor):
    incoming, distance = torch.empty_like(tensor), 1
    while distance < mesh.world_size:
        sending = mesh.isend(tensor, mesh.rank ^ distance)
        mesh.recv(incoming, mesh.rank ^ distance)
        sending.wait()
        mesh.add(tensor, incoming)
        distance *= 2


def reaches_behind_the_mesh(mesh, tensor):
    whole = mesh.send.__self__
    incoming, distance = torch.empty_like(tensor), 1
    while distance < mesh.world_size:
        whole.exchange(tensor, mesh.rank ^ distance, incoming, mesh.rank ^ distance)
        tensor += incoming
        distance *= 2
    whole.clock.now[mesh.rank] = 0


def knows_eight_ranks_at_most(mesh, tensor):
    if mesh.world_size <= 8:
        lower_sends_first(mesh, tensor)


def returns_a_new_tensor(mesh, tensor):
    total = tensor.clone()
    lower_sends_first(mesh, total)
    return total


def fails_on_gloo(mesh, tensor):
    """A play is one process, so there torch counts one rank."""
    if dist.get_world_size() > 1:
        raise KeyError("real")
    lower_sends_first(mesh, tensor)


def hangs_on_gloo(mesh, tensor):
    if dist.get_world_size() > 1:
        mesh.recv(tensor, mesh.rank ^ 1)
    lower_sends_first(mesh, tensor)
