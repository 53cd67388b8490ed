"""`all_gather` as learners might write it, right and wrong; no pytest here, so that ranks need not import it."""
import torch

SHARED = {}


# right ----------------------------------------------------------------------------------------------------------------
def goes_round_downwards(mesh, tensor):
    rank, n, chunks = mesh.rank, mesh.world_size, tensor.chunk(mesh.world_size)
    for step in range(n - 1):
        mesh.exchange(chunks[(rank + step) % n], (rank - 1) % n, chunks[(rank + step + 1) % n], (rank + 1) % n)


def starts_both_and_waits(mesh, tensor):
    rank, n = mesh.rank, mesh.world_size
    rows = tensor.view(n, -1)
    for step in range(n - 1):
        arriving = mesh.irecv(rows[(rank + step + 1) % n], (rank + 1) % n)
        mesh.isend(rows[(rank + step) % n], (rank - 1) % n).wait()
        arriving.wait()


def expects_all_chunks_at_once(mesh, tensor):
    rank, n, chunks = mesh.rank, mesh.world_size, tensor.chunk(mesh.world_size)
    arriving = [mesh.irecv(chunks[(rank + step) % n], (rank + 1) % n) for step in range(1, n)]
    sending = []
    for step in range(n - 1):
        sending.append(mesh.isend(chunks[(rank + step) % n], (rank - 1) % n))
        arriving[step].wait()
    for one in sending:
        one.wait()


def copies_into_a_buffer(mesh, tensor):
    """What travels is a matrix of one row, and a copy."""
    rank, n = mesh.rank, mesh.world_size
    rows = tensor.view(n, 1, -1)
    travelling = rows[rank].clone()
    for step in range(1, n):
        incoming = torch.empty_like(travelling)
        mesh.exchange(travelling, (rank - 1) % n, incoming, (rank + 1) % n)
        rows[(rank + step) % n] = travelling = incoming
    return tensor


# wrong ----------------------------------------------------------------------------------------------------------------
def forgets_the_last_chunk(mesh, tensor):
    rank, n, chunks = mesh.rank, mesh.world_size, tensor.chunk(mesh.world_size)
    for step in range(n - 2):
        mesh.exchange(chunks[(rank + step) % n], (rank - 1) % n, chunks[(rank + step + 1) % n], (rank + 1) % n)


def sends_up_instead_of_down(mesh, tensor):
    rank, n, chunks = mesh.rank, mesh.world_size, tensor.chunk(mesh.world_size)
    for step in range(n - 1):
        mesh.exchange(chunks[(rank - step) % n], (rank + 1) % n, chunks[(rank - step - 1) % n], (rank - 1) % n)


def gathers_at_rank_0_first(mesh, tensor):
    chunks = tensor.chunk(mesh.world_size)
    for other in range(1, mesh.world_size):
        if mesh.rank == 0:
            mesh.recv(chunks[other], other)
        elif mesh.rank == other:
            mesh.send(chunks[other], 0)
    for other in range(1, mesh.world_size):
        if mesh.rank == 0:
            mesh.send(tensor, other)
        elif mesh.rank == other:
            mesh.recv(tensor, 0)


def sends_the_whole_tensor_every_step(mesh, tensor):
    rank, n = mesh.rank, mesh.world_size
    for _ in range(n - 1):
        incoming = torch.empty_like(tensor)
        mesh.exchange(tensor, (rank - 1) % n, incoming, (rank + 1) % n)
        tensor.copy_(torch.maximum(tensor, incoming))


def all_send_first(mesh, tensor):
    rank, n, chunks = mesh.rank, mesh.world_size, tensor.chunk(mesh.world_size)
    for step in range(n - 1):
        mesh.send(chunks[(rank + step) % n], (rank - 1) % n)
        mesh.recv(chunks[(rank + step + 1) % n], (rank + 1) % n)


def takes_turns_by_parity(mesh, tensor):
    rank, n, chunks = mesh.rank, mesh.world_size, tensor.chunk(mesh.world_size)
    for step in range(n - 1):
        if rank % 2:
            mesh.recv(chunks[(rank + step + 1) % n], (rank + 1) % n)
        mesh.send(chunks[(rank + step) % n], (rank - 1) % n)
        if rank % 2 == 0:
            mesh.recv(chunks[(rank + step + 1) % n], (rank + 1) % n)


def keeps_the_chunk_numbers_of_the_other_direction(mesh, tensor):
    rank, n, chunks = mesh.rank, mesh.world_size, tensor.chunk(mesh.world_size)
    for step in range(n - 1):
        mesh.exchange(chunks[(rank - step) % n], (rank - 1) % n, chunks[(rank - step - 1) % n], (rank + 1) % n)


def forwards_its_own_chunk_only(mesh, tensor):
    rank, n, chunks = mesh.rank, mesh.world_size, tensor.chunk(mesh.world_size)
    for step in range(n - 1):
        mesh.exchange(chunks[rank], (rank - 1) % n, chunks[(rank + step + 1) % n], (rank + 1) % n)


def sends_its_chunk_to_everybody(mesh, tensor):
    rank, n, chunks = mesh.rank, mesh.world_size, tensor.chunk(mesh.world_size)
    for step in range(1, n):
        mesh.exchange(chunks[rank], (rank - step) % n, chunks[(rank + step) % n], (rank + step) % n)


def returns_a_new_tensor(mesh, tensor):
    whole = tensor.clone()
    goes_round_downwards(mesh, whole)
    return whole


def knows_four_ranks_at_most(mesh, tensor):
    if mesh.world_size <= 4:
        goes_round_downwards(mesh, tensor)


def imports_the_courses_ring(mesh, tensor):
    from helpers.run.collectives import ring
    ring.ring_all_gather(mesh, tensor)


def shares_data_through_a_global(mesh, tensor):
    """All virtual ranks are one process; messages without elements have them wait for one another."""
    rank, n, nothing = mesh.rank, mesh.world_size, torch.empty(0, dtype=tensor.dtype)
    SHARED[rank] = tensor.chunk(n)[rank].clone()
    for _ in range(n - 1):
        mesh.exchange(nothing, (rank - 1) % n, nothing, (rank + 1) % n)
    tensor.copy_(torch.cat([SHARED.get(r, torch.zeros_like(SHARED[rank])) for r in range(n)]))


def shares_data_and_sends_what_nobody_needs(mesh, tensor):
    """The right number of bytes, but not the right ones: real ranks share nothing."""
    goes_round_downwards(mesh, torch.zeros_like(tensor))
    shares_data_through_a_global(mesh, tensor)
