# %% [markdown]
# # 02 Collectives
#
# You will be able to build collectives from send and receive, say what each costs in bytes and in messages, choose one for a network, and mend a deadlock.
#
# **60 minutes.** Needs lesson 00.
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

from helpers.compare.crossover import SIZES, curves
from helpers.compare.frames import ring_frames
from helpers.compare.plots import ring_strip, times
from helpers.compare.table import Table, predicted_vs_measured
from helpers.facts.network import Link, Network, network
from helpers.facts.units import GB, MB, in_unit
from helpers.predict.algorithms import cost, crossover_bytes
from helpers.predict.bandwidth import algorithm_bandwidth, bus_bandwidth, fit_link
from helpers.predict.comm import bytes_sent
from helpers.run import collectives, doubling, trees
from helpers.run.launch import launch, warm_up
from helpers.run.links import message_seconds
from helpers.run.mesh import run_on_gloo
from helpers.run.meters import wire
from helpers.run.queue_mesh import run_on_queues
from helpers.run.virtual import play

warm_up()

# %% [markdown]
# ## Question
#
# 64 ranks must add up their gradients, 14 GB on each, in every step, over links of 25 GB/s.
#
# The obvious way: rank 0 receives everything, adds it up and sends it back, to one rank after another.
# That moves 126 times 14 GB through one link, and takes 71 seconds.
# With the same links, and the same result, it can be done in 1.1 seconds.
# How, and is that way always the best?

# %% [markdown]
# ## Idea
#
# First the words: what the collectives do.
# Rank $r$ holds $10^r$ everywhere, so digit $r$ of a sum says how often rank $r$ was added.

# %%
def vocabulary(rank, world_size):
    mine, full = torch.full((4,), 10**rank), torch.zeros(4, dtype=torch.int64)
    chunks, part = list(mine.chunk(world_size)), torch.zeros(1, dtype=torch.int64)
    seen = {"holds": mine.tolist()}
    dist.broadcast(one := mine.clone(), src=2)
    dist.all_reduce(total := mine.clone())
    dist.reduce_scatter(part, chunks)
    dist.all_gather(list(full.chunk(world_size)), chunks[rank])
    dist.all_to_all_single(swapped := torch.zeros_like(mine), mine)
    return seen | {"broadcast from 2": one.tolist(), "all_reduce": total.tolist(), "reduce_scatter": part.tolist(),
                   "all_gather of one each": full.tolist(), "all_to_all": swapped.tolist()}


seen = launch(vocabulary, 4).results
Table(("", *(f"rank {rank}" for rank in range(4))), tuple((name, *(str(s[name]) for s in seen)) for name in seen[0]))

# %% [markdown]
# An `all_reduce` is a `reduce_scatter`, after which each rank owns the sum of one chunk, and an `all_gather` of those sums.
# That split is the whole trick.
#
# Four ranks stand in a ring, and each has one queue to its neighbour.
# Every rank cuts its tensor in four chunks, and sends one chunk in each step.

# %% tags=["nbval-ignore-output"]
from helpers.compare.widgets import ring_explorer

axes = ring_strip(ring_frames(4))
ring_explorer()

# %% [markdown]
# The picture in words: each box is a chunk, each coloured stripe in it a rank that has been added.
# In steps 1 to 3 every arrow carries a partial sum, and whoever receives it adds its own part: the sum of chunk 0 starts at rank 1, goes to 2 and 3, and is complete at rank 0.
# A complete chunk has a thick frame; after step 3 rank $r$ owns chunk $r$.
# In steps 4 to 6 complete chunks go round once more, and are kept.
#
# All four queues are busy in all six steps, and no rank is the bottleneck.
# Step through it, also on other numbers of ranks: the arrow keys move the slider.

# %% [markdown]
# (Some texts start each sum at another rank; then rank $r$ ends with chunk $r+1$. Always ask who owns what.)
#
# | symbol | is | unit |
# |---|---|---|
# | $N$, $r$ | number of ranks, rank | |
# | $T$ | size of the **full** tensor, also for all-gather and reduce-scatter | bytes |
# | $\alpha$ | latency: what a message costs however small it is | s |
# | $\beta$ | seconds a byte, 1 / bandwidth | s |
# | $\gamma$ | seconds to add a byte to another | s |
#
# Each rank sends a chunk of $T/N$ in each of $N-1$ steps, twice:
#
# $$ \text{bytes} = 2\,T\,\frac{N-1}{N} \qquad \text{time} = 2(N-1)\Bigl(\alpha + \frac{T}{N}\beta\Bigr) + (N-1)\frac{T}{N}\gamma $$
#
# Bytes hardly grow with $N$. The number of messages does.
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
# A **mesh** is what a collective needs of a network: `rank`, `world_size`, and `exchange`, which sends and receives at once.
# This is all of a ring all-reduce, and it runs on three transports: on processes and queues, without any library for distributed computing; on gloo; and on a virtual clock.

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
#
# A queue takes a message at once and keeps it; gloo's `send` waits until the other side receives.
# You will see below what that changes.

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
# Gloo's `reduce_scatter` sends $1.5\,T$, twice what it must: it does an all-reduce inside and throws the rest away.
# Our ring, on the same gloo, sends $0.75\,T$.
# A library's name for a call says what it does, not what it costs: count.
# Both all-reduces keep to their formula.

# %% [markdown]
# ## Scale it
#
# **Other algorithms.**
# The ring is sparing with bytes and lavish with messages: $2(N-1)$, one after another.
# Partners at distances 1, 2, 4, ... need only $\log_2 N$.
#
# | $N$ a power of two | messages | bytes sent by the busiest rank | used when |
# |---|---|---|---|
# | naive | $2(N-1)$ | $T(N-1)$ | never |
# | ring | $2(N-1)$ | $2T(N-1)/N$ | $T$ is large |
# | recursive doubling: swap all with each partner | $\log_2 N$ | $T\log_2 N$ | $T$ is small |
# | halving-doubling: swap halves, quarters, ... and back | $2\log_2 N$ | $2T(N-1)/N$ | all links are alike |
# | double binary tree, half of $T$ up and down each | $2\log_2 N$ | at most $2T$ | many ranks |
#
# "A tree moves $T\log_2 N$" is often read; that is recursive doubling.
# For other $N$ the two doublings need two more messages of $T$: ranks beyond a power of two hand their tensor to a neighbour first and get the sum back last.

# %%
algorithms = {"ring": collectives.ring_all_reduce, "doubling": doubling.recursive_doubling_all_reduce,
             "halving-doubling": doubling.halving_doubling_all_reduce, "double tree": trees.double_tree_all_reduce}
rows = []
for name, algorithm in algorithms.items():
    run = play(lambda mesh: algorithm(mesh, torch.ones(64)), 8)          # every message takes 1 s, however long
    rows.append((name, f"{run.time_s:g}", f"{max(wire.sent for wire in run.wire) / 256:g} T"))
Table(("8 ranks, 64 floats, played", "messages one after another", "sent by the busiest rank"), tuple(rows))

# %% [markdown]
# **Where is the crossover?**
# One rule of thumb says "ring above 1 MB, tree below", and names no network.
# The size depends on $\alpha$, $\beta$ and $N$: here are 16 ranks, 5 µs and 25 GB/s, played on the virtual clock.

# %%
links = network(alpha_s=5e-6, beta_s=1 / (25 * GB))
axes = times(curves(16, links), SIZES)
pair = "recursive_doubling_all_reduce", "ring_all_reduce"
Table(("doubling = ring at", "alpha 0.5 us", "alpha 5 us", "alpha 50 us"), tuple(
    (f"{n} ranks", *(in_unit(crossover_bytes(*pair, n, network(alpha, 1 / (25 * GB))), "KB", 3)
                     for alpha in (0.5e-6, 5e-6, 50e-6))) for n in (4, 8, 16, 64)))

# %% [markdown]
# The picture in words: marks are played, lines are formulas, and every mark lies on its line.
# On the left all curves are flat: only latency counts, and recursive doubling with its 4 messages wins.
# On the right all are straight: only bytes count, ring and halving-doubling are lowest, and naive takes 16 times as long.
# Doubling and ring cross at 1,529 KB, the dashed line.
# In the table that crossing moves from 100 KB to 37 MB.
#
# By hand: change latency, bandwidth, ranks, and all is played again.
# With "nodes of 4", four ranks share one slow port to the other nodes: which algorithm loses most?

# %% tags=["nbval-ignore-output"]
from helpers.compare.widgets import crossover_explorer

crossover_explorer()

# %% [markdown]
# **Why rings, then, if halving-doubling has as few bytes and fewer messages?**
# Because its partners are far away.
# Take 4 nodes of 4 ranks: 300 GB/s inside a node, one port of 25 GB/s for all four ranks between nodes; 1 GB.

# %%
nodes = Network(Link(2e-6, 1 / (300 * GB)), ranks_per_node=4, between=Link(5e-6, 1 / (25 * GB)))
Table(("1 GB on 16 ranks, ms", "25 GB/s everywhere", "nodes of 4"), tuple(
    (name, *(f"{1e3 * play(lambda mesh: algorithm(mesh, torch.ones(1024)), 16, network=net, bytes_per_element=GB / 1024).time_s:.1f}"
             for net in (links, nodes))) for name, algorithm in algorithms.items()))

# %% [markdown]
# In the ring only one rank of a node talks to the next node: it takes what it took with slow links everywhere.
# Halving-doubling sends from all four ranks at once through one port, and takes three times as long.
#
# **Algorithm bandwidth and bus bandwidth.**
# Benchmarks such as nccl-tests print two figures: $T$ / time, and that times a factor, $2(N-1)/N$ for an all-reduce.
# 1 GB on a ring of 25 GB/s:

# %%
ring_s = {n: cost("ring_all_reduce", 250_000_000, n).seconds(links) for n in (2, 8, 64)}
Table(("1 GB, ring all-reduce", "ms", "algorithm bandwidth, GB/s", "bus bandwidth, GB/s"), tuple(
    (f"{n} ranks", f"{1e3 * s:.1f}", f"{algorithm_bandwidth(GB, s) / GB:.1f}",
     f"{bus_bandwidth('all_reduce', GB, s, n) / GB:.1f}") for n, s in ring_s.items()))

# %% [markdown]
# Algorithm bandwidth falls with $N$ though the links are the same; bus bandwidth stays near the link's own 25, and shows what latency costs.
# So compare bus bandwidths, and time a job by algorithm bandwidth.
#
# **This machine.**
# Two real ranks hand messages of four sizes back and forth; a line through three of them gives $\alpha$ and $\beta$, and the fourth is a prediction.

# %% tags=["nbval-ignore-output"]
measured = message_seconds((4_000, 100_000, 1_000_000, 4_000_000))
link = fit_link({size: s for size, s in measured.items() if size != 1_000_000})
predicted_vs_measured({"1 MB, microseconds": (1e6 * (link.alpha_s + 1_000_000 * link.beta_s), 1e6 * measured[1_000_000])},
                      notes=(f"alpha = {1e6 * link.alpha_s:.0f} us, bandwidth 1 / beta = {1 / link.beta_s / GB:.1f} GB/s",))

# %% [markdown]
# The ratio is rarely 1.00: memory, caches and other programs are no straight line.
# Within a factor of two it serves, since algorithms differ by more.
# CPU and gloo do not show a GPU's links, nor NCCL's choice of algorithms; bytes and messages are the same there.
#
# ## Break it
#
# A ring in which every rank sends first, then receives.
# One number is enough.
# First on queues, which keep what is sent, then on gloo:

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
# So a program that works on one transport may hang on another, or from some message size on where small messages are kept and large ones are not.
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
# All three are right; sending in turns takes twice as long.
# In plain `torch.distributed`, `exchange` is `dist.batch_isend_irecv`, or `isend` and `irecv` with a `wait` for both.
#
# ## Read the helper
#
# Open `helpers/run/collectives.py`, and beside it `helpers/run/pipelined_ring.py`.
#
# 1. In `ring_reduce_scatter`, what would rank $r$ own if the two index expressions had $+1$ added?
# 2. In `pipelined_ring.py`, between which two lines does a piece arrive while another one is added?
#
# <details><summary>Answers</summary>
# 1. Chunk r+1: every sum would start, and end, one rank earlier. 2. Between <code>arriving = mesh.irecv(...)</code> for the next piece and <code>mesh.add</code>: the message is asked for before the adding begins. That, and pieces instead of whole chunks, makes it about as fast as gloo's own all_reduce for large tensors: <code>make bench</code>.
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
# No, a common misconception. T log N is recursive doubling. A double binary tree moves at most 2T, hardly more than the ring's 2T(N-1)/N, with far fewer messages one after another.
# </details>
# <br>
#
# **3.** From 8 to 64 ranks the algorithm bandwidth of a 1 GB all-reduce falls by an eighth. Is the network worse?
#
# <details><summary>Answer</summary>
# No: 7/4 becomes 63/32, and 1.75 / 1.97 = 0.89. The bus bandwidth, which takes that factor out, is the same.
# </details>

# %% [markdown]
# ## Recap
#
# An all-reduce is a reduce-scatter and an all-gather, and a ring does each in $N-1$ steps of $T/N$: as few bytes as possible, but a number of messages that grows with $N$.
# Small tensors want few messages, large ones few bytes, and where they cross is computed from $\alpha$, $\beta$ and $N$, not remembered.
# Everything that sends first waits for someone who receives.
#
# **Pitfalls.** $T$ meant as one rank's part. Rank $r$'s chunk taken for granted. A call's name taken for its cost. Algorithm bandwidth compared across numbers of ranks. A program that works while messages are small.
#
# **Sources.** Thakur, Rabenseifner, Gropp, "Optimization of collective communication operations in MPICH", 2005. Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", 2009. Sanders, Speck, Träff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan", 2009. Jeaugey, "Massively scale your deep learning training with NCCL 2.4", 2019. nccl-tests, `doc/PERFORMANCE.md`.
#
# **Exercises:** `exercises/02_collectives/02_collectives.ipynb`.
