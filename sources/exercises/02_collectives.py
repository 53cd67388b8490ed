# %% [markdown] nbgrader={"grade": false, "grade_id": "title", "locked": true, "schema_version": 3, "solution": false, "task": false}
# # Exercises 02: collectives
#
# Seven exercises, 22 points, about an hour and a half; lesson 02 has all that you need.
#
# You write collectives over a **mesh**: `mesh.rank`, `mesh.world_size`, and
#
# | call | does |
# |---|---|
# | `mesh.send(tensor, to)` | returns when rank `to` has received |
# | `mesh.recv(tensor, source)` | fills `tensor` |
# | `mesh.exchange(outgoing, to, incoming, source)` | both at once |
# | `mesh.isend(tensor, to)`, `mesh.irecv(tensor, source)` | begin; each returns something to `.wait()` for, once |
# | `mesh.add(into, tensor)` | `into += tensor` |
#
# `play(program, N)` runs `program(mesh)` on $N$ virtual ranks; each message takes one second there, so `.time_s` is the number of messages that follow one another, and `.wire[rank].sent` has the bytes.
# `run_on_gloo(program, N)` runs it on real ranks.
#
# Each check gives points for right values, and more for the target cost, which is judged once the values are right.
# Its tensors are flat and float64, 8 bytes an element, so make buffers with `torch.empty_like`.
# The grader also runs hidden cases and real ranks.
#
# To look inside, print in the cells where you try: checks hide what virtual ranks print.
# If such a cell does not end, press stop: a loop in it does not.
# The course's own collectives (`helpers.run.collectives`), `helpers.predict` and `helpers.compare` are not allowed here.

# %% nbgrader={"grade": false, "grade_id": "setup", "locked": true, "schema_version": 3, "solution": false, "task": false}
import torch

from helpers.facts.network import network
from helpers.run.collectives import play, run_on_gloo
from helpers.run.launch import warm_up

warm_up("helpers.checks.collectives")


# %% [markdown] nbgrader={"grade": false, "grade_id": "gather-statement", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## 1. A ring in the other direction (4 points)
#
# Write `all_gather(mesh, tensor)`: at first rank $r$ has its own chunk only, the $r$-th of $N$ equal ones; at the end every rank has all chunks, in place.
#
# Each rank sends to rank $r-1$ **only** (rank 0 to rank $N-1$).
# Target: $N-1$ messages one after another, and $T(N-1)/N$ bytes sent by each rank.
# `tensor` is flat, and $N$ divides its length.
#
# You see 2, 3 and 4 ranks (3 points); the grader runs other numbers, and gloo (1 point).

# %% nbgrader={"grade": false, "grade_id": "gather", "locked": false, "schema_version": 3, "solution": true, "task": false}
def all_gather(mesh, tensor):
    """Fill `tensor` [T] on every rank with the chunks of all ranks; rank r brings chunk r."""
    ### BEGIN SOLUTION
    rank, n = mesh.rank, mesh.world_size
    chunks = tensor.chunk(n)
    for step in range(n - 1):
        mesh.exchange(chunks[(rank + step) % n], (rank - 1) % n, chunks[(rank + step + 1) % n], (rank + 1) % n)
    ### END SOLUTION


# %% id="gather-try"
# Try it: what each of four ranks holds at the end, and what it cost.
def gathered(mesh):
    tensor = torch.zeros(8)
    tensor.chunk(mesh.world_size)[mesh.rank].fill_(mesh.rank + 1)
    all_gather(mesh, tensor)
    return tensor.tolist()


run = play(gathered, 4)
run.results, f"{run.time_s:g} messages, {run.wire[0].sent} bytes of 32"

# %% nbgrader={"grade": true, "grade_id": "gather-check", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
from helpers.checks.collectives import building

points = building.check_all_gather(all_gather)
### BEGIN HIDDEN TESTS
points += building.check_all_gather_unseen(all_gather)
### END HIDDEN TESTS
points


# %% [markdown] nbgrader={"grade": false, "grade_id": "gather-hints", "locked": true, "schema_version": 3, "solution": false, "task": false}
# <details><summary>Hint 1</summary>In step 0 each rank sends its own chunk down. Which chunk arrives, from whom?</details>
# <details><summary>Hint 2</summary>What arrived in one step is what is sent in the next.</details>
# <details><summary>Hint 3</summary>In the lesson's ring everything moves up, and chunk numbers go down by one each step. Here it is the other way round.</details>

# %% [markdown] nbgrader={"grade": false, "grade_id": "scatter-statement", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## 2. Reduce-scatter with ragged chunks (4 points)
#
# Write `reduce_scatter(mesh, tensor)`: it returns chunk $r$ of the sum over all ranks, on rank $r$.
#
# Chunks are those of `tensor.tensor_split(N)`: if $N$ does not divide the length $S$, the first $S \bmod N$ chunks are one element longer, and if $S < N$ some are empty.
# Return a flat tensor; what `tensor` holds afterwards is up to you.
# Target: at most $N-1$ messages one after another, and at most $(N-1)\lceil S/N\rceil$ elements sent by each rank.
#
# You see even and ragged sizes (3 points); the grader runs others, and gloo (1 point).

# %% nbgrader={"grade": false, "grade_id": "scatter", "locked": false, "schema_version": 3, "solution": true, "task": false}
def reduce_scatter(mesh, tensor):
    """Return chunk `rank` of the sum of all `tensor` [S]: S // N elements, or one more."""
    ### BEGIN SOLUTION
    rank, n = mesh.rank, mesh.world_size
    chunks = tensor.tensor_split(n)
    for step in range(n - 1):
        arriving = chunks[(rank - step - 2) % n]
        incoming = torch.empty_like(arriving)
        mesh.exchange(chunks[(rank - step - 1) % n], (rank + 1) % n, incoming, (rank - 1) % n)
        mesh.add(arriving, incoming)
    return chunks[rank]
    ### END SOLUTION


# %% id="scatter-try"
# Try it: 7 and 3 elements on 4 ranks. Digit r of a sum says what rank r gave.
def scattered(mesh, num_elements):
    return reduce_scatter(mesh, torch.arange(1, num_elements + 1) * 10**mesh.rank).tolist()


for num_elements in (7, 3):
    run = play(scattered, 4, num_elements)
    print(run.results, f"{run.time_s:g} messages, {[wire.sent // 8 for wire in run.wire]} elements")

# %% nbgrader={"grade": true, "grade_id": "scatter-check", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
from helpers.checks.collectives import building

points = building.check_reduce_scatter(reduce_scatter)
### BEGIN HIDDEN TESTS
points += building.check_reduce_scatter_unseen(reduce_scatter)
### END HIDDEN TESTS
points


# %% [markdown] nbgrader={"grade": false, "grade_id": "scatter-hints", "locked": true, "schema_version": 3, "solution": false, "task": false}
# <details><summary>Hint 1</summary>Get chunks of one length right first, then look at which sizes meet in an exchange. (tensor.chunk(N) may give fewer than N chunks.)</details>
# <details><summary>Hint 2</summary>What you receive must have the size of the chunk that you add it to, not of the one that you send.</details>
# <details><summary>Hint 3</summary>Which chunk must arrive last at rank r, and so, which one must it send first?</details>

# %% [markdown] nbgrader={"grade": false, "grade_id": "broadcast-statement", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## 3. A broadcast from any source (3 points)
#
# Write `broadcast(mesh, tensor, source)`: every rank ends with the tensor of rank `source`, in place.
#
# Target: $\lceil\log_2 N\rceil$ sends of the tensor one after another, for any number of ranks.
# In this exercise a message costs no latency and a second for its bytes, so a rank that begins three sends at once still takes three seconds.
#
# You see up to 8 ranks (2 points); the grader runs more, and gloo (1 point).

# %% nbgrader={"grade": false, "grade_id": "broadcast", "locked": false, "schema_version": 3, "solution": true, "task": false}
def broadcast(mesh, tensor, source):
    """Fill `tensor` on every rank with that of rank `source`."""
    ### BEGIN SOLUTION
    n = mesh.world_size
    place, have = (mesh.rank - source) % n, 1
    while have < n:
        if place < have and place + have < n:
            mesh.send(tensor, (mesh.rank + have) % n)
        elif have <= place < 2 * have:
            mesh.recv(tensor, (mesh.rank - have) % n)
        have *= 2
    ### END SOLUTION


# %% id="broadcast-try"
# Try it: five ranks, from rank 3.
def spread(mesh):
    tensor = torch.tensor([10.0 + mesh.rank])
    broadcast(mesh, tensor, 3)
    return tensor.item()


run = play(spread, 5, network=network(alpha_s=0, beta_s=1), bytes_per_element=1)
run.results, f"{run.time_s:g} sends one after another"

# %% nbgrader={"grade": true, "grade_id": "broadcast-check", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
from helpers.checks.collectives import building

points = building.check_broadcast(broadcast)
### BEGIN HIDDEN TESTS
points += building.check_broadcast_unseen(broadcast)
### END HIDDEN TESTS
points


# %% [markdown] nbgrader={"grade": false, "grade_id": "broadcast-hints", "locked": true, "schema_version": 3, "solution": false, "task": false}
# <details><summary>Hint 1</summary>Solve it for source 0 first: after step k, ranks 0 to 2<sup>k</sup>-1 have it.</details>
# <details><summary>Hint 2</summary>In step k, who has it sends to the rank 2<sup>k</sup> above, if there is one.</details>
# <details><summary>Hint 3</summary>For another source, count ranks from there: (rank - source) % N is the distance.</details>

# %% [markdown] nbgrader={"grade": false, "grade_id": "predict-statement", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## 4. Predict, then measure (3 points)
#
# The next cell has an all-reduce that nobody should use.
#
# 1. **Predict** for 6 ranks with 600 float32 each: how many **bytes** does each rank send, and how many **messages** follow one another?
# 2. **Measure** on 3 real ranks with 1,000,000 float32 each: `measured` is the list of bytes that each rank has sent, as the kernel counted them, a little above the formula. Leave `gather_and_add` as it is.

# %% nbgrader={"grade": false, "grade_id": "given", "locked": true, "schema_version": 3, "solution": false, "task": false}
def gather_and_add(mesh, tensor):
    """Everybody's whole tensor travels round the ring, and everybody adds up all of them."""
    rank, n = mesh.rank, mesh.world_size
    travelling, incoming = tensor.clone(), torch.empty_like(tensor)
    for _ in range(n - 1):
        mesh.exchange(travelling, (rank + 1) % n, incoming, (rank - 1) % n)
        mesh.add(tensor, incoming)
        travelling, incoming = incoming, travelling


# %% nbgrader={"grade": false, "grade_id": "predict", "locked": false, "schema_version": 3, "solution": true, "task": false}
predicted_bytes = None     # sent by each of 6 ranks, 600 float32
predicted_messages = None  # one after another
measured = None            # bytes sent by each of 3 ranks, 1,000,000 float32: a list
### BEGIN SOLUTION
predicted_bytes = 5 * 600 * 4
predicted_messages = 5
measured = [wire.sent for wire in run_on_gloo(lambda mesh: gather_and_add(mesh, torch.ones(1_000_000)), 3).wire]
### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "predict-check", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
from helpers.checks.collectives import choosing

choosing.check_predicted(gather_and_add, predicted_bytes, predicted_messages, measured)


# %% [markdown] nbgrader={"grade": false, "grade_id": "predict-hints", "locked": true, "schema_version": 3, "solution": false, "task": false}
# <details><summary>Hint 1</summary>How large is each message, and how many does one rank send?</details>
# <details><summary>Hint 2</summary>Ranks send at the same time, so count the messages of one rank.</details>
# <details><summary>Hint 3</summary>run_on_gloo(program, 3, tensor) passes the tensor on; what it returns has .wire[rank].sent.</details>

# %% [markdown] nbgrader={"grade": false, "grade_id": "choose-statement", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## 5. Choose the algorithm (3 points)
#
# Write `choose(num_bytes, world_size, alpha_s, beta_s)`: which all-reduce is fastest on a network whose links are all alike?
# Return `"ring"`, `"recursive doubling"` or `"halving-doubling"`.
#
# The number of ranks $N$ is 2 or more, not always a power of two.
# Let $p$ be the largest power of two with $p \le N$: the two doublings run on $p$ ranks, and if $p < N$, two more messages of $T$ are needed.
# Adding takes no time.
#
# You see five networks (1 point); the grader has ten more (2 points). A choice within 1 % of the fastest is right, too.

# %% nbgrader={"grade": false, "grade_id": "choose", "locked": false, "schema_version": 3, "solution": true, "task": false}
def choose(num_bytes, world_size, alpha_s, beta_s):
    """The name of the fastest all-reduce.

    num_bytes   T, of the tensor on each rank
    alpha_s     latency of a message, s
    beta_s      seconds per byte
    """
    ### BEGIN SOLUTION
    p = 2 ** (world_size.bit_length() - 1)
    steps, more = p.bit_length() - 1, 0 if p == world_size else 2 * (alpha_s + num_bytes * beta_s)
    seconds = {
        "ring": 2 * (world_size - 1) * (alpha_s + num_bytes / world_size * beta_s),
        "recursive doubling": steps * (alpha_s + num_bytes * beta_s) + more,
        "halving-doubling": 2 * steps * alpha_s + 2 * num_bytes * (p - 1) / p * beta_s + more,
    }
    return min(seconds, key=seconds.get)
    ### END SOLUTION


# %% id="choose-try"
# Try it: 1 kB and 1 GB on 8 ranks, 5 us and 25 GB/s.
choose(1e3, 8, 5e-6, 1 / 25e9), choose(1e9, 8, 5e-6, 1 / 25e9)

# %% nbgrader={"grade": true, "grade_id": "choose-check", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
from helpers.checks.collectives import choosing

points = choosing.check_algorithm_choice(choose)
### BEGIN HIDDEN TESTS
points += choosing.check_choice_unseen(choose)
### END HIDDEN TESTS
points


# %% [markdown] nbgrader={"grade": false, "grade_id": "choose-hints", "locked": true, "schema_version": 3, "solution": false, "task": false}
# <details><summary>Hint 1</summary>Write the time of each as messages times alpha plus bytes one after another times beta, then take the smallest.</details>
# <details><summary>Hint 2</summary>The lesson's table has messages and bytes for powers of two. Which of the three does not care whether N is one?</details>
# <details><summary>Hint 3</summary>Python: world_size.bit_length() - 1 is the whole part of log2.</details>

# %% [markdown] nbgrader={"grade": false, "grade_id": "mend-statement", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## 6. Mend a deadlock (3 points)
#
# `broken` is recursive doubling for a power of two of ranks. It hangs.
#
# Write `mended(mesh, tensor)`, which ends, with the sum on all ranks, by `mesh.send`, `mesh.recv` and `mesh.add` alone, without `exchange`, `isend` and `irecv`.
# Target: at most $2\log_2 N$ messages one after another, and $T\log_2 N$ bytes sent by each rank.
#
# You see up to 8 ranks (2 points); the grader runs more, and gloo (1 point).

# %% nbgrader={"grade": false, "grade_id": "broken", "locked": true, "schema_version": 3, "solution": false, "task": false}
def broken(mesh, tensor):
    incoming, distance = torch.empty_like(tensor), 1
    while distance < mesh.world_size:
        partner = mesh.rank ^ distance  # 1: 0 with 1, 2 with 3; 2: 0 with 2, 1 with 3
        mesh.send(tensor, partner)
        mesh.recv(incoming, partner)
        mesh.add(tensor, incoming)
        distance *= 2


# %% nbgrader={"grade": false, "grade_id": "mend", "locked": false, "schema_version": 3, "solution": true, "task": false}
def mended(mesh, tensor):
    """Leave the sum over all ranks in `tensor`; N is a power of two."""
    ### BEGIN SOLUTION
    incoming, distance = torch.empty_like(tensor), 1
    while distance < mesh.world_size:
        partner = mesh.rank ^ distance
        if mesh.rank < partner:
            mesh.send(tensor, partner)
            mesh.recv(incoming, partner)
        else:
            mesh.recv(incoming, partner)
            mesh.send(tensor, partner)
        mesh.add(tensor, incoming)
        distance *= 2
    ### END SOLUTION


# %% id="mend-try"
# Try it on four ranks; replace mended by broken to see who waits for whom.
def summed(mesh):
    tensor = torch.tensor([10.0**mesh.rank])
    mended(mesh, tensor)
    return tensor.item()


run = play(summed, 4)
run.results, f"{run.time_s:g} messages"

# %% nbgrader={"grade": true, "grade_id": "mend-check", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
from helpers.checks.collectives import building

points = building.check_mended_all_reduce(mended)
### BEGIN HIDDEN TESTS
points += building.check_mended_all_reduce_unseen(mended)
### END HIDDEN TESTS
points

# %% [markdown] nbgrader={"grade": false, "grade_id": "mend-hints", "locked": true, "schema_version": 3, "solution": false, "task": false}
# <details><summary>Hint 1</summary>In each pair one must send while the other receives. What tells the two apart?</details>
# <details><summary>Hint 2</summary>Even and odd is not enough: at distance 2, partners are both even or both odd.</details>
# <details><summary>Hint 3</summary>Either both add only after they have sent, or one adds and sends the finished sum back.</details>

# %% [markdown] nbgrader={"grade": false, "grade_id": "bandwidth-statement", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## 7. Is the network slower? (2 points)
#
# An all-reduce of 1 GB takes 70 ms on 8 GPUs and 105 ms on 64. A colleague says: "It is a third slower, so with 64 GPUs each link runs at two thirds of its speed."
#
# In three or four sentences: work out algorithm bandwidth and bus bandwidth for both, and say how much of the loss is the links', where it may come from, and which figure to use for what.
# This answer is read and graded by a person.

# %% [markdown] nbgrader={"grade": true, "grade_id": "bandwidth", "locked": false, "points": 2, "schema_version": 3, "solution": true, "task": false}
# 8 GPUs: algorithm bandwidth 1 GB / 70 ms = 14.3 GB/s, bus bandwidth 14.3 · 2 · 7/8 = 25.0 GB/s.
# 64 GPUs: 1 GB / 105 ms = 9.5 GB/s, bus bandwidth 9.5 · 2 · 63/64 = 18.8 GB/s.
# Algorithm bandwidth has fallen by 33 %, but each rank also has more to send, 1.97 GB instead of 1.75; the links carry 25 % less, three quarters and not two thirds.
# That may be latency, which grows with the messages one after another, or slower links and shared ports between nodes.
# Bus bandwidth compares networks across numbers of ranks; algorithm bandwidth tells how long a step of mine will wait.
#
# *One point for both bandwidths of both, one for 25 % with a possible cause.*
