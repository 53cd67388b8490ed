"""`reduce_scatter` as learners might write it, right and wrong; no pytest here, so that ranks need not import it."""
import torch


# right ----------------------------------------------------------------------------------------------------------------
def goes_round_upwards(mesh, tensor):
    return _round(mesh, tensor, 1)


def goes_round_downwards(mesh, tensor):
    return _round(mesh, tensor, -1)


def _round(mesh, tensor, way, owned=0):
    """`owned` is how far the chunk that is returned is from the rank."""
    rank, n, chunks = mesh.rank, mesh.world_size, tensor.tensor_split(mesh.world_size)
    for step in range(n - 1):
        arriving = chunks[(rank - way * (step + 2) + owned) % n]
        incoming = torch.empty_like(arriving)
        mesh.exchange(chunks[(rank - way * (step + 1) + owned) % n], (rank + way) % n, incoming, (rank - way) % n)
        arriving += incoming
    return chunks[(rank + owned) % n]


def sends_each_chunk_to_its_owner(mesh, tensor):
    """Pairwise: the one k above gets its chunk from me, the one k below has mine."""
    rank, n, chunks = mesh.rank, mesh.world_size, tensor.tensor_split(mesh.world_size)
    for k in range(1, n):
        incoming = torch.empty_like(chunks[rank])
        mesh.exchange(chunks[(rank + k) % n], (rank + k) % n, incoming, (rank - k) % n)
        mesh.add(chunks[rank], incoming)
    return chunks[rank].clone()


def posts_everything_at_once(mesh, tensor):
    rank, n, chunks = mesh.rank, mesh.world_size, tensor.tensor_split(mesh.world_size)
    others = [r for r in range(n) if r != rank]
    incoming = [torch.empty_like(chunks[rank]) for _ in others]
    works = [mesh.irecv(buffer, source) for buffer, source in zip(incoming, others, strict=True)]
    works += [mesh.isend(chunks[to], to) for to in others]
    for work in works:
        work.wait()
    return sum(incoming, chunks[rank])


def pads_every_chunk(mesh, tensor):
    rank, n = mesh.rank, mesh.world_size
    chunks, most = tensor.tensor_split(n), -(-len(tensor) // n)
    padded = torch.stack([torch.nn.functional.pad(chunk, (0, most - len(chunk))) for chunk in chunks])
    return _round(mesh, padded.view(-1), 1)[:len(chunks[rank])]


def leaves_out_what_is_empty(mesh, tensor):
    rank, n, chunks = mesh.rank, mesh.world_size, tensor.tensor_split(mesh.world_size)
    for k in range(1, n):
        to, source, incoming = (rank + k) % n, (rank - k) % n, torch.empty_like(chunks[rank])
        works = [mesh.isend(chunks[to], to)] if len(chunks[to]) else []
        works += [mesh.irecv(incoming, source)] if len(incoming) else []
        for work in works:
            work.wait()
        mesh.add(chunks[rank], incoming)
    return chunks[rank]


# wrong ----------------------------------------------------------------------------------------------------------------
def assumes_chunks_of_one_length(mesh, tensor):
    n = mesh.world_size
    return _round(mesh, tensor[:len(tensor) // n * n], 1)


def receives_the_size_that_it_sends(mesh, tensor):
    rank, n, chunks = mesh.rank, mesh.world_size, tensor.tensor_split(mesh.world_size)
    for step in range(n - 1):
        leaving = chunks[(rank - step - 1) % n]
        incoming = torch.empty_like(leaving)
        mesh.exchange(leaving, (rank + 1) % n, incoming, (rank - 1) % n)
        mesh.add(chunks[(rank - step - 2) % n], incoming)
    return chunks[rank]


def cuts_with_chunk(mesh, tensor):
    """7 elements for 4 ranks are 2, 2, 2 and 1 either way; 3 for 4 are three chunks only."""
    rank, n, chunks = mesh.rank, mesh.world_size, tensor.chunk(mesh.world_size)
    for k in range(1, n):
        incoming = torch.empty_like(chunks[rank])
        mesh.exchange(chunks[(rank + k) % n], (rank + k) % n, incoming, (rank - k) % n)
        mesh.add(chunks[rank], incoming)
    return chunks[rank]


def owns_the_chunk_of_the_next_rank(mesh, tensor):
    return _round(mesh, tensor, 1, owned=1)


def adds_twice(mesh, tensor):
    rank, n, chunks = mesh.rank, mesh.world_size, tensor.tensor_split(mesh.world_size)
    for k in range(1, n):
        incoming = torch.empty_like(chunks[rank])
        mesh.exchange(chunks[(rank + k) % n], (rank + k) % n, incoming, (rank - k) % n)
        mesh.add(chunks[rank], incoming)
        chunks[rank].add_(incoming)
    return chunks[rank]


def overwrites_instead_of_adding(mesh, tensor):
    rank, n, chunks = mesh.rank, mesh.world_size, tensor.tensor_split(mesh.world_size)
    for step in range(n - 1):
        mesh.exchange(chunks[(rank - step - 1) % n], (rank + 1) % n, chunks[(rank - step - 2) % n], (rank - 1) % n)
    return chunks[rank]


def forgets_the_last_step(mesh, tensor):
    rank, n, chunks = mesh.rank, mesh.world_size, tensor.tensor_split(mesh.world_size)
    for k in range(1, n - 1):
        incoming = torch.empty_like(chunks[rank])
        mesh.exchange(chunks[(rank + k) % n], (rank + k) % n, incoming, (rank - k) % n)
        mesh.add(chunks[rank], incoming)
    return chunks[rank]


def sends_the_whole_tensor_every_step(mesh, tensor):
    rank, n, mine = mesh.rank, mesh.world_size, tensor.clone()
    for k in range(1, n):
        incoming = torch.empty_like(tensor)
        mesh.exchange(mine, (rank + k) % n, incoming, (rank - k) % n)
        tensor += incoming
    return tensor.tensor_split(n)[rank]


def sums_all_at_rank_0(mesh, tensor):
    chunks = tensor.tensor_split(mesh.world_size)
    if mesh.rank:
        mesh.send(tensor, 0)
        mesh.recv(chunks[mesh.rank], 0)
        return chunks[mesh.rank]
    for source in range(1, mesh.world_size):
        incoming = torch.empty_like(tensor)
        mesh.recv(incoming, source)
        tensor += incoming
    for to in range(1, mesh.world_size):
        mesh.send(chunks[to], to)
    return chunks[0]


def has_buffers_of_float32(mesh, tensor):
    rank, n, chunks = mesh.rank, mesh.world_size, tensor.tensor_split(mesh.world_size)
    for k in range(1, n):
        incoming = torch.zeros(len(chunks[rank]))
        mesh.exchange(chunks[(rank + k) % n], (rank + k) % n, incoming, (rank - k) % n)
        chunks[rank].add_(incoming)
    return chunks[rank]


def forgets_to_return(mesh, tensor):
    goes_round_upwards(mesh, tensor)


def returns_the_whole_tensor(mesh, tensor):
    goes_round_upwards(mesh, tensor)
    return tensor


def returns_a_numpy_array(mesh, tensor):
    return goes_round_upwards(mesh, tensor).numpy()


def returns_a_list(mesh, tensor):
    return goes_round_upwards(mesh, tensor).tolist()


def returns_a_matrix(mesh, tensor):
    return goes_round_upwards(mesh, tensor).view(1, -1)


def knows_four_ranks_at_most(mesh, tensor):
    return goes_round_upwards(mesh, tensor) if mesh.world_size <= 4 else tensor
