# %% [markdown]
# # 02 Collectives
#
# You will be able to build collectives from send and receive, say what each costs in bytes and in messages, choose one for a network, and mend a deadlock.
#
# **75 minutes.** Needs lesson 00. A good place for a break is before "Scale it".
#
# [Open in Binder](https://mybinder.org/v2/gh/your-name/training-parallelism/HEAD?urlpath=lab/tree/notebooks/02_collectives.ipynb) ·
# [Open in Colab](https://colab.research.google.com/github/your-name/training-parallelism/blob/main/notebooks/02_collectives.ipynb)

# %% [markdown]
# ## Setup

# %%
import importlib.util

if not importlib.util.find_spec("helpers"):  # on Colab
    get_ipython().run_line_magic(
        "pip", "install -q --no-deps git+https://github.com/your-name/training-parallelism")

import torch
import torch.distributed as dist

from helpers.compare.crossover import ALL_REDUCES, SIZES, curves, seconds
from helpers.compare.plots import ring_strip, times
from helpers.compare.ring_frames import ring_frames
from helpers.compare.table import Table, predicted_vs_measured
from helpers.compare.words.collectives import link_in_words
from helpers.facts.network import Link, Network, network
from helpers.facts.units import GB, MB, in_unit
from helpers.predict.collectives import algorithm_bandwidth, bus_bandwidth, bytes_sent, cost, crossover_bytes, fit_link
from helpers.run import collectives
from helpers.run.collectives import halving_doubling_all_reduce, message_seconds, play, run_on_gloo, run_on_queues
from helpers.run.launch import launch, warm_up
from helpers.run.measure.meters import wire

warm_up()


# %% [markdown]
# ## Question
#
# 64 ranks must add up their gradients, 14 GB on each, in every step, over links of 25 GB/s.
#
# The obvious way: rank 0 receives 63 tensors, adds them up, and sends the sum to 63 ranks.
# That takes 126 times 14 GB through one link, 71 seconds.
# With the same links, and the same result, it can be done in 1.1 seconds.
# How, and is that way always the best?

# %% [markdown]
# ## Idea
#
# First the words. Each rank holds a tensor, which is cut in $N$ chunks.
#
# - `broadcast`: one rank's tensor goes to all.
# - `all_reduce`: all get the sum of all tensors.
# - `reduce_scatter`: rank $r$ gets chunk $r$ of the sum.
# - `all_gather`: each gives one chunk, all get all of them.
# - `all_to_all`: rank $r$ gets chunk $r$ of every rank. (Mixtures of experts live on it.)
#
# In the table, element $c$ of rank $r$ is $(c+1)\,10^r$, so digit $r$ of a number, from the right, says what rank $r$ gave.

# %%
def vocabulary(rank, world_size):
    mine = torch.arange(1, 5) * 10**rank
    chunks = list(mine.chunk(world_size))
    one, total, gathered, swapped = mine.clone(), mine.clone(), torch.zeros_like(mine), torch.zeros_like(mine)
    part = torch.zeros_like(chunks[0])
    dist.broadcast(one, src=2)
    dist.all_reduce(total)
    dist.reduce_scatter(part, chunks)
    dist.all_gather(list(gathered.chunk(world_size)), chunks[rank])     # fills gathered, chunk by chunk
    dist.all_to_all_single(swapped, mine)
    return [str(tensor.tolist()) for tensor in (mine, one, total, part, gathered, swapped)]


names = "holds", "broadcast from rank 2", "all_reduce", "reduce_scatter", "all_gather", "all_to_all"
Table(("", "rank 0", "rank 1", "rank 2", "rank 3"), tuple(zip(names, *launch(vocabulary, 4).results)))

# %% [markdown]
# An `all_reduce` is a `reduce_scatter`, after which each rank owns the sum of one chunk, and an `all_gather` of those sums.
# That split is the whole trick.
# (For the mean of gradients, sum and divide: `total.div_(world_size)`.)
#
# Four ranks stand in a ring, and each has one queue to its neighbour.
# Every rank cuts its tensor in four chunks, and sends one chunk in each step.

# %% tags=["nbval-ignore-output"]
from helpers.compare.widgets import ring_explorer

axes = ring_strip(ring_frames(4))
ring_explorer()

# %% [markdown]
# The picture in words: each box is a chunk, each coloured stripe in it a rank that has been added, each arrow a queue with what it carries next.
# In steps 1 to 3 an arrow carries a partial sum, and who receives it adds its own part: the sum of chunk 0 starts at rank 1, goes to 2 and 3, and is complete at rank 0.
# A complete chunk has a thick frame; after step 3 rank $r$ owns chunk $r$.
# In steps 4 to 6 complete chunks go round once more, and are kept.
#
# All queues are busy in all steps, so no rank is the bottleneck.
# Step through it: the arrow keys move the slider.

# %% [markdown]
# Some texts start each sum one rank earlier; then rank $r$ ends with chunk $r+1$. Always ask who owns what.
#
# | symbol | is | unit |
# |---|---|---|
# | $N$, $r$ | number of ranks, rank | |
# | $T$ | size of the **full** tensor, also for all-gather and reduce-scatter | bytes |
# | $\alpha$ | latency: what a message costs however small it is | s |
# | $\beta$ | seconds a byte, 1 / bandwidth | s |
# | $\gamma$ | seconds to add a byte to another; 0 in this lesson | s |
#
# Each rank sends a chunk of $T/N$ in each of $N-1$ steps, twice:
#
# $$ \text{bytes} = 2\,T\,\frac{N-1}{N} \qquad \text{time} = 2(N-1)\Bigl(\alpha + \frac{T}{N}\beta\Bigr) + (N-1)\frac{T}{N}\gamma $$
#
# For the 64 ranks of the question: $2 \cdot 14\ \text{GB} \cdot 63/64 \cdot \beta = 1.1$ s.
# Bytes stay below $2T$ however many ranks there are. The number of messages grows.
#
# ## Predict
#
# Four ranks sum 64 float32 numbers on such a ring.
# How many bytes does each rank put on its queue?

# %%
guess = None  # B


# %% [markdown]
# ## Run
#
# A **mesh** is what a collective needs of a network: `rank`, `world_size`, `send(tensor, to)`, `recv(tensor, source)`, and `exchange(outgoing, to, incoming, source)`, which does both at once; `add(into, tensor)` adds in place.
# Over it, this is all of a ring all-reduce. In the picture's step 1, `step = 0` in the code, rank 0 sends chunk $-1 \bmod 4 = 3$ and adds what arrives to its chunk 2.
#
# It runs on three transports: on processes and queues, without any library for distributed computing; on gloo; and on a **virtual clock**.
# There, all ranks run in one process; data is really copied, and times are computed from $\alpha$ and $\beta$. That is called *playing* a program.

# %%
def program(mesh):
    rank, n, tensor = mesh.rank, mesh.world_size, torch.full((64,), 10.0**mesh.rank)
    chunks = list(tensor.chunk(n))
    incoming = torch.empty_like(chunks[0])
    for step in range(n - 1):                       # reduce-scatter
        mesh.exchange(chunks[(rank - step - 1) % n], (rank + 1) % n, incoming, (rank - 1) % n)
        mesh.add(chunks[(rank - step - 2) % n], incoming)
    for step in range(n - 1):                       # all-gather
        mesh.exchange(chunks[(rank - step) % n], (rank + 1) % n, chunks[(rank - step - 1) % n], (rank - 1) % n)
    return set(tensor.tolist())


on_queues, on_gloo, on_clock = run_on_queues(program, 4), run_on_gloo(program, 4), play(program, 4)
[run.results for run in (on_queues, on_gloo, on_clock)]

# %% [markdown]
# ## Compare

# %%
T = 64 * 4
predicted_vs_measured({"queues, rank 0": (bytes_sent("all_reduce", T, 4), on_queues.wire[0].sent),
                       "virtual clock, rank 0": (bytes_sent("all_reduce", T, 4), on_clock.wire[0].sent),
                       "gloo, rank 0, by the kernel": (bytes_sent("all_reduce", T, 4), on_gloo.wire[0].sent)},
                      guess=guess, unit="B")

# %% [markdown]
# 384 bytes: six chunks of 64.
# On gloo the kernel counts the headers of messages as well, which for so small a tensor are more than the data.
# From 1 MB on they are below 1 %.

# %% [markdown]
# ## Predict
#
# A `reduce_scatter` is half of an all-reduce: of 4 MB on 4 ranks, each should send $T(N-1)/N = 3$ MB.
# How many MB does each rank send in **gloo's** `reduce_scatter`?

# %%
guess = None  # MB


# %% [markdown]
# ## Run

# %%
def counted(rank, world_size, what):
    full = torch.ones(1_000_000)
    chunks = list(full.chunk(world_size))
    calls = {"all_reduce": lambda: dist.all_reduce(full),
             "reduce_scatter": lambda: dist.reduce_scatter(chunks[rank].clone(), chunks),
             "all_gather": lambda: dist.all_gather([torch.empty_like(chunk) for chunk in chunks], chunks[rank])}
    with wire() as moved:
        calls[what]()
    return moved.sent


def ours(mesh, algorithm):
    algorithm(mesh, torch.ones(1_000_000))


kernels = {what: launch(counted, 4, what).results[0] for what in ("reduce_scatter", "all_gather")}

# %% [markdown]
# ## Compare

# %%
must = bytes_sent("reduce_scatter", 4 * MB, 4)
rows = {f"gloo's {what}, N = 4": (must, sent) for what, sent in kernels.items()}
rows["our ring reduce_scatter, N = 4"] = (
    must, run_on_gloo(ours, 4, collectives.ring_reduce_scatter).wire[0].sent)
for n in (2, 3, 4):
    must = bytes_sent("all_reduce", 4 * MB, n)
    rows[f"gloo's all_reduce, N = {n}"] = (must, launch(counted, n, "all_reduce").results[0])
    rows[f"our ring all_reduce, N = {n}"] = (
        must, run_on_gloo(ours, n, collectives.ring_all_reduce).wire[0].sent)
predicted_vs_measured(rows, guess=guess, unit="MB")

# %% [markdown]
# Gloo's `reduce_scatter`, in torch 2.13, sends $1.5\,T$, twice what it must and just what its `all_reduce` sends.
# Our ring, on the same gloo, sends $0.75\,T$.
# A library's name for a call says what it does, not what it costs: count.
# Both all-reduces keep to their formula.

# %% [markdown]
# ## Scale it
#
# **Other algorithms.**
# The ring is sparing with bytes and lavish with messages, $2(N-1)$ one after another.
# If ranks pair up with a new partner in each step, $\log_2 N$ steps are enough: of four, 0 swaps with 1 and 2 with 3, then 0 with 2 and 1 with 3.
#
# | $N$ a power of two | messages one after another | bytes sent by the busiest rank |
# |---|---|---|
# | naive: all to rank 0, and back | $2(N-1)$ | $T(N-1)$ |
# | ring | $2(N-1)$ | $2T(N-1)/N$ |
# | recursive doubling: partners swap all they have | $\log_2 N$ | $T\log_2 N$ |
# | halving-doubling: they swap halves, quarters, ... and back | $2\log_2 N$ | $2T(N-1)/N$ |
# | double binary tree: half of $T$ up and down each of two trees | $2\log_2 N$ | at most $2T$ |
#
# "A tree moves $T\log_2 N$" is a common mistake: that is recursive doubling.
# For other $N$ both doublings need two more messages of $T$: ranks beyond a power of two give all to a neighbour first, and get the sum back last.

# %%
rows = []
for name, all_reduce in ALL_REDUCES.items():
    run = play(all_reduce, 8, torch.ones(64))           # here every message takes 1 s, however long
    most = max(rank.sent for rank in run.wire)
    rows.append((name, f"{run.time_s:g}", f"{most / (64 * 4):g} T"))
Table(("8 ranks, 64 floats, played", "messages one after another", "sent by the busiest rank"), tuple(rows))

# %% [markdown]
# **Where do they cross?**
# "Ring above 1 MB, tree below" is a rule of thumb that names no network.
# Here are 16 ranks with 5 µs and 25 GB/s, and in the table other numbers of ranks.

# %%
links = network(alpha_s=5e-6, beta_s=1 / (25 * GB))
axes = times(curves(16, links), SIZES)
doubling, halving, ring = "recursive_doubling_all_reduce", "halving_doubling_all_reduce", "ring_all_reduce"
pairs = {"doubling = ring": (doubling, ring), "doubling = halving-doubling": (doubling, halving)}
Table(("equally fast at", *pairs), tuple(
    (f"{n} ranks", *(in_unit(crossover_bytes(*pair, n, links), "KB", 3) for pair in pairs.values()))
    for n in (4, 8, 16, 64)))

# %% [markdown]
# The picture in words: marks are played, solid lines are formulas, and each mark lies on its line; the double tree has none here.
# On the left only latency counts, and doubling with its 4 messages wins; on the right only bytes, and ring and halving-doubling are lowest.
# Doubling and ring cross at 1,529 KB, the dashed line; halving-doubling is best from 235 KB on.
# Ten times $\alpha$, or a tenth of $\beta$, moves each crossing to ten times the size.
#
# The double tree is slower here: links rest until the first of its 8 segments has gone up and down, and in this simple version its two trees wait for each other.
#
# By hand: each change is played.

# %% tags=["nbval-ignore-output"]
from helpers.compare.widgets import crossover_explorer

crossover_explorer()

# %% [markdown]
# On equal links and a power of two, halving-doubling is never worse than the ring.
# On 12 or 24 ranks the ring is best for large tensors, doubling for small ones, and in between the double tree.
#
# **The order of ranks.**
# Now nodes of 4 ranks: 300 GB/s inside, and one port of 25 GB/s, shared by the four, to other nodes; 1 GB on 16 ranks.
# In order, ranks 0 to 3 are one node; dealt in turn, ranks 0, 4, 8 and 12 are.

# %%
fast, slow = Link(2e-6, 1 / (300 * GB)), Link(5e-6, 1 / (25 * GB))
networks = [links, Network(fast, ranks_per_node=4, between=slow),
            Network(fast, ranks_per_node=4, between=slow, in_turn=True)]
farthest_first = {"halving-doubling, farthest first":
                  lambda mesh, tensor: halving_doubling_all_reduce(mesh, tensor, nearest_first=False)}
Table(("1 GB on 16 ranks, ms", "25 GB/s everywhere", "nodes, in order", "nodes, dealt in turn"), tuple(
    (name, *(f"{1e3 * seconds(all_reduce, 16, GB, net):.1f}" for net in networks))
    for name, all_reduce in (ALL_REDUCES | farthest_first).items()))

# %% [markdown]
# In order, one rank of a node talks to the next node, and the ring takes what it took with slow links everywhere.
# Dealt in turn, all four do, through one port: four times as long.
# Halving-doubling swaps its largest halves with its first partner, the nearest rank: in the same node that takes 65 ms, in another one 241.
# The last row begins with the farthest rank, which turns the two columns round.
# So what counts is how many bytes cross the slow port, and dealing ranks otherwise can cost more than the wrong algorithm.
#
# **Algorithm bandwidth and bus bandwidth.**
# Benchmarks such as nccl-tests print $T$ / time, and that times a factor, $2(N-1)/N$ for an all-reduce.

# %%
ring_s = {n: cost("ring_all_reduce", 250_000_000, n).seconds(links) for n in (2, 8, 64)}
Table(("1 GB, ring, 25 GB/s", "ms", "algorithm bandwidth, GB/s", "bus bandwidth, GB/s"), tuple(
    (f"{n} ranks", f"{1e3 * s:.1f}", f"{algorithm_bandwidth(GB, s) / GB:.1f}",
     f"{bus_bandwidth('all_reduce', GB, s, n) / GB:.1f}") for n, s in ring_s.items()))

# %% [markdown]
# Algorithm bandwidth falls with $N$ though the links are the same; bus bandwidth stays near the link's own 25, and what is missing is latency.
# Compare networks by bus bandwidth; from a bus bandwidth $B$, your all-reduce takes about $\frac{2T(N-1)}{N\,B}$.
#
# **This machine.**
# Two real ranks hand messages of four sizes back and forth; a line through three of them gives $\alpha$ and $\beta$, and the fourth is a prediction.

# %% tags=["nbval-ignore-output"]
measured = message_seconds((4_000, 100_000, 1_000_000, 4_000_000))
link = fit_link({size: s for size, s in measured.items() if size != 1_000_000})
predicted_vs_measured({"1 MB, microseconds": (1e6 * (link.alpha_s + 1_000_000 * link.beta_s), 1e6 * measured[1_000_000])},
                      notes=(link_in_words(link),))


# %% [markdown]
# Mostly the line is right within a factor of two: caches and other programs bend it.
# If it is far off, run the cell again: another program was in the way.
# That is enough to tell 71 seconds from 1.1, not to choose between two good algorithms.
#
# CPU and gloo do not show a GPU's links.
# The bytes and messages of an algorithm are the same there; which algorithm NCCL takes, you measure.
#
# ## Break it
#
# A ring in which every rank sends first, then receives.
# One number is enough.
# First on queues, then on gloo:

# %% tags=["raises-exception"]
def pass_on(mesh):
    mine, theirs = torch.tensor([10.0**mesh.rank]), torch.empty(1)
    mesh.send(mine, (mesh.rank + 1) % mesh.world_size)
    mesh.recv(theirs, (mesh.rank - 1) % mesh.world_size)
    return theirs.item()


print("on queues:", run_on_queues(pass_on, 4).results)
run_on_gloo(pass_on, 4, timeout_s=1)

# %% [markdown]
# All four wait in `send` for a receive that no one has reached.
# On the virtual clock this is found without waiting:

# %% tags=["raises-exception"]
play(pass_on, 4)


# %% [markdown]
# Queues keep what is sent, so there it worked.
# Other transports keep small messages and make large ones wait: the same program passes a small test and hangs on a large tensor.
# (Gloo waits at any size.)
#
# Three cures: even ranks send first and odd ones receive first; or both at once with `exchange`; or begin with `isend`, receive, and wait.

# %%
def cured(mesh, how):
    mine, theirs = torch.tensor([10.0**mesh.rank]), torch.empty(1)
    right, left = (mesh.rank + 1) % mesh.world_size, (mesh.rank - 1) % mesh.world_size
    if how == "exchange":
        mesh.exchange(mine, right, theirs, left)
    elif how == "isend":
        sending = mesh.isend(mine, right)
        mesh.recv(theirs, left)
        sending.wait()
    elif mesh.rank % 2 == 0:
        mesh.send(mine, right)
        mesh.recv(theirs, left)
    else:
        mesh.recv(theirs, left)
        mesh.send(mine, right)
    return theirs.item()


# %%
{how: (run_on_gloo(cured, 4, how).results, f"messages one after another: {play(cured, 4, how).time_s:g}")
 for how in ("in turns", "exchange", "isend")}

# %% [markdown]
# All three are right; sending in turns takes twice as long, and three times on an odd number of ranks, where the last one and rank 0 are both even.
# In plain `torch.distributed`, `exchange` is `dist.batch_isend_irecv`, or `isend` and `irecv` with a `wait` for both.
#
# ## Read the helper
#
# Open `helpers/run/collectives/ring.py`, and beside it `pipelined_ring.py`.
#
# 1. In `ring_reduce_scatter`, what would rank $r$ own if the two index expressions had $+1$ added?
# 2. In `pipelined_ring.py`, between which two lines can a piece arrive while another one is added?
#
# <details><summary>Answers</summary>
# 1. Chunk r+1: every sum would start, and end, one rank earlier; and <code>return mine[rank]</code> would give an unfinished one. 2. Between <code>arriving = mesh.irecv(targets[k + 1], left)</code> and <code>arriving.wait()</code> of the next turn, and <code>mesh.add</code> stands between them. That, and pieces instead of whole chunks, makes it about as fast as gloo's own all_reduce for large tensors: <code>make bench</code>.
# </details>

# %% [markdown]
# ## Check yourself
#
# **1.** 8 ranks, a ring all-gather; in the end each rank holds 80 MB. How much has each rank sent, in how many messages?
#
# <details><summary>Answer</summary>
# T is the full tensor, 80 MB: 80 · 7/8 = 70 MB, in 7 messages of 10 MB.
# </details>
# <br>
#
# **2.** "A tree all-reduce moves $T\log_2 N$ bytes a rank, so for large tensors the ring always moves less." Right?
#
# <details><summary>Answer</summary>
# No, a common misconception. T log N is recursive doubling. A double binary tree moves at most 2T, hardly more than the ring's 2T(N-1)/N, in far fewer messages one after another.
# </details>
# <br>
#
# **3.** A program in which all ranks send first passed its test on two ranks with 10 numbers. Is it safe?
#
# <details><summary>Answer</summary>
# Only on a transport that keeps messages of any size. Elsewhere it hangs, at once or when tensors grow.
# </details>

# %% [markdown]
# ## Recap
#
# An all-reduce is a reduce-scatter and an all-gather, and a ring does each in $N-1$ steps of $T/N$: as few bytes as possible, but a number of messages that grows with $N$.
# Small tensors want few messages, large ones few bytes, and where they cross is computed from $\alpha$, $\beta$ and $N$, not remembered.
# If all send first, it depends on the transport whether anybody goes on, so never rely on it.
#
# **Pitfalls.** $T$ meant as one rank's part. Rank $r$'s chunk taken for granted. A call's name taken for its cost. Algorithm bandwidth compared across numbers of ranks. Ranks in an order that crosses nodes at every step. A program that works while messages are small.
#
# **Sources.** Thakur, Rabenseifner, Gropp, "Optimization of collective communication operations in MPICH", 2005. Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", 2009. Sanders, Speck, Träff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan", 2009. Jeaugey, "Massively scale your deep learning training with NCCL 2.4", 2019. nccl-tests, `doc/PERFORMANCE.md`.
#
# **Exercises:** `exercises/02_collectives/02_collectives.ipynb`.
