"""`broadcast` as learners might write it, right and wrong; no pytest here, so that ranks need not import it."""

# right ----------------------------------------------------------------------------------------------------------------
def doubles_who_has_it(mesh, tensor, source):
    n, have = mesh.world_size, 1
    place = (mesh.rank - source) % n
    while have < n:
        if place < have and place + have < n:
            mesh.send(tensor, (mesh.rank + have) % n)
        elif have <= place < 2 * have:
            mesh.recv(tensor, (mesh.rank - have) % n)
        have *= 2


def halves_the_distance(mesh, tensor, source):
    """The farthest first."""
    n = mesh.world_size
    place, distance = (mesh.rank - source) % n, 1 << (n - 1).bit_length()
    while distance > 1:
        distance //= 2
        if place % (2 * distance) == 0 and place + distance < n:
            mesh.send(tensor, (place + distance + source) % n)
        elif place % (2 * distance) == distance:
            mesh.recv(tensor, (place - distance + source) % n)


def splits_the_ranks_in_two(mesh, tensor, source):
    _split(mesh, tensor, 0, mesh.world_size, source)


def _split(mesh, tensor, first, end, has):
    """Ranks from first up to end; `has` is the one that has it."""
    if end - first < 2:
        return
    middle = (first + end) // 2
    gets = middle if has < middle else first
    if mesh.rank == has:
        mesh.send(tensor, gets)
    elif mesh.rank == gets:
        mesh.recv(tensor, has)
    if mesh.rank < middle:
        _split(mesh, tensor, first, middle, min(has, gets))
    else:
        _split(mesh, tensor, middle, end, max(has, gets))


def asks_its_parent_and_tells_its_children(mesh, tensor, source):
    n = mesh.world_size
    place = (mesh.rank - source) % n
    if place:
        above = 1 << (place.bit_length() - 1)
        mesh.irecv(tensor, (mesh.rank - above) % n).wait()
    step = 1 << place.bit_length()
    while place + step < n:
        mesh.isend(tensor, (mesh.rank + step) % n).wait()
        step *= 2


# wrong ----------------------------------------------------------------------------------------------------------------
def ignores_the_source(mesh, tensor, source):
    doubles_who_has_it(mesh, tensor, 0)


def sends_to_one_after_the_other(mesh, tensor, source):
    if mesh.rank != source:
        mesh.recv(tensor, source)
        return
    for to in range(mesh.world_size):
        if to != source:
            mesh.send(tensor, to)


def sends_to_all_at_once(mesh, tensor, source):
    if mesh.rank != source:
        mesh.recv(tensor, source)
        return
    for work in [mesh.isend(tensor, to) for to in range(mesh.world_size) if to != source]:
        work.wait()


def passes_it_round(mesh, tensor, source):
    n = mesh.world_size
    place = (mesh.rank - source) % n
    if place:
        mesh.recv(tensor, (mesh.rank - 1) % n)
    if place < n - 1:
        mesh.send(tensor, (mesh.rank + 1) % n)


def assumes_a_power_of_two(mesh, tensor, source):
    n, have = mesh.world_size, 1
    place = (mesh.rank - source) % n
    while have < n:
        if place < have:
            mesh.send(tensor, (mesh.rank + have) % n)
        elif place < 2 * have:
            mesh.recv(tensor, (mesh.rank - have) % n)
        have *= 2


def counts_from_rank_0_again(mesh, tensor, source):
    """Distances from the source, but partners as if it were rank 0."""
    n, have = mesh.world_size, 1
    place = (mesh.rank - source) % n
    while have < n:
        if place < have and place + have < n:
            mesh.send(tensor, place + have)
        elif have <= place < 2 * have:
            mesh.recv(tensor, place - have)
        have *= 2


def stops_a_step_early(mesh, tensor, source):
    n, have = mesh.world_size, 1
    place = (mesh.rank - source) % n
    while 2 * have < n:
        if place < have:
            mesh.send(tensor, (mesh.rank + have) % n)
        elif place < 2 * have:
            mesh.recv(tensor, (mesh.rank - have) % n)
        have *= 2


def does_not_count_round_the_end(mesh, tensor, source):
    n, have = mesh.world_size, 1
    place = (mesh.rank - source) % n
    while have < n:
        if place < have and place + have < n:
            mesh.send(tensor, mesh.rank + have)
        elif have <= place < 2 * have:
            mesh.recv(tensor, mesh.rank - have)
        have *= 2


def knows_eight_ranks_at_most(mesh, tensor, source):
    (doubles_who_has_it if mesh.world_size <= 8 else passes_it_round)(mesh, tensor, source)


def tells_everybody_and_waits_for_nobody(mesh, tensor, source):
    """Only messages of nothing are waited for, on other links, so that the large ones seem to cost no time."""
    n, nothing = mesh.world_size, tensor[:0]
    others = [to for to in range(n) if to != source]
    if mesh.rank == source:
        for to in others:
            mesh.isend(tensor, to)
    else:
        mesh.irecv(tensor, source)
    for _ in range(n):
        mesh.exchange(nothing, (mesh.rank - 1) % n, nothing, (mesh.rank + 1) % n)


def is_dear_when_called_first_only(mesh, tensor, source, kept={}):     # noqa: B006  the mistake
    """What it has received is kept for the next call, which then sends nothing."""
    call = (mesh.rank, mesh.world_size, source)
    if call in kept:
        tensor.copy_(kept[call])
        return
    sends_to_one_after_the_other(mesh, tensor, source)
    kept[call] = tensor.clone()
