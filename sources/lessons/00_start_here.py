# %% [markdown]
# # 00 Start here
#
# You will be able to run one program as several processes, let them add up their numbers, count the bytes that this costs, and read how such a run fails.
#
# **40 minutes.** Needs Python and a little PyTorch; no GPU.
#
# [Open in Binder](https://mybinder.org/v2/gh/your-name/training-parallelism/HEAD?urlpath=lab/tree/notebooks/00_start_here.ipynb) ·
# [Open in Colab](https://colab.research.google.com/github/your-name/training-parallelism/blob/main/notebooks/00_start_here.ipynb)

# %% [markdown]
# ## Setup
#
# Run each cell with Shift+Enter, from top to bottom.
# The first one takes two seconds: it imports torch into a server process, of which every later process is a copy.

# %%
import importlib.util

if not importlib.util.find_spec("helpers"):  # on Colab
    get_ipython().run_line_magic(
        "pip", "install -q --no-deps git+https://github.com/your-name/training-parallelism")

import torch
import torch.distributed as dist

from helpers.compare.table import Table, predicted_vs_measured
from helpers.run.launch import launch, warm_up

warm_up()

# %% [markdown]
# Is everything there that the course needs?
# Lines marked `MEND` say what to do.

# %%
from helpers.run.commands.doctor import check_environment

check_environment()

# %% [markdown]
# ## Question
#
# To train 70 billion parameters with Adam takes 1,120 GB of memory, and no accelerator has that.
# So training is spread over many devices, and one program must run on all of them at once.
#
# How does a program know which of them it is, what can it see of the others, and what does it cost to add up a number that every one of them holds a part of?

# %% [markdown]
# ## Idea
#
# ![One program runs as four processes, ranks 0 to 3. Each has its own memory, and messages carry data from one to another.](images/spmd.svg)
#
# All processes run the **same program** on different data: SPMD, single program, multiple data.
# Each gets a number, its **rank**, and is told how many there are, the **world size**.
# They find each other at a **rendezvous**: a place that all know, where each leaves its address and waits until all have.
# After that they exchange tensors by **collectives**, calls that every rank makes together, or between two ranks by `send` and `recv`.
# The messages are carried by a **backend**: gloo between CPUs, NCCL between GPUs.

# %% [markdown]
# | symbol | is | unit |
# |---|---|---|
# | $N$ | world size, the number of ranks | |
# | $r$ | rank, from 0 to $N-1$ | |
# | $T$ | size of the tensor that each rank holds | bytes |
#
# The collective of this lesson is `all_reduce`: afterwards every rank holds the sum over all ranks.
# Done well, it makes each rank send
#
# $$ 2\,T\,\frac{N-1}{N}\ \text{bytes}, $$
#
# so less than $2T$ however many ranks there are.
# Why: cut the tensor into $N$ pieces of $T/N$ bytes.
# In the first half each rank sends $N-1$ pieces and ends with one finished sum; in the second half it sends $N-1$ pieces again, to hand the sums around.
#
# Every lesson does the same three things with such a formula: **predict** a number, **run** real processes, **compare**.

# %% [markdown]
# ## Predict
#
# Four ranks each hold a tensor of 4 MB (a million float32) and sum it with `all_reduce`.
# How many MB does each rank send?
# Write your guess instead of `None`, before you read on: a guess that was wrong is remembered best.

# %%
guess = None  # MB


# %% [markdown]
# ## Run
#
# A **rank program** is a plain function that takes its rank and the world size.
# `launch` starts the processes, waits for all, and shows what each printed.
# Here is the same cell on 1, 2 and 4 ranks.

# %%
def hello(rank, world_size):
    print(f"I am {rank} of {world_size}")


for world_size in (1, 2, 4):
    launch(hello, world_size)

# %% [markdown]
# What can a rank see?
# It starts with a copy of whatever the program uses, and from then on its memory is its own.

# %%
seen = []


def look(rank, world_size):
    seen.append(rank)
    return seen


print("by rank:  ", launch(look, 3).results)
print("notebook: ", seen)


# %% [markdown]
# No rank saw what another one had appended, and the notebook's list is still empty.
# What a rank **returns** comes home; all else stays with it.
#
# So data must be sent.
# Rank $r$ gives $10^r$ here, so that each digit of the sum says how often one rank was added.

# %%
def add_up(rank, world_size):
    tensor = torch.tensor([10.0**rank])
    dist.all_reduce(tensor)
    return tensor.item()


launch(add_up, 4).results


# %% [markdown]
# Every digit is 1: each rank was added once, and every rank has the sum.
#
# `add_up` is plain `torch.distributed`; `launch` has only started the processes and made the rendezvous.
# In a script for `torchrun`, on one machine or many, you write those lines yourself:
#
# ```python
# dist.init_process_group("gloo")
# add_up(dist.get_rank(), dist.get_world_size())
# dist.destroy_process_group()
# ```
#
# Now the 4 MB.
# `run.wire` holds what the operating system's kernel counted on the sockets of each rank.

# %%
def add_up_4_mb(rank, world_size):
    gradient = torch.ones(1_000_000)
    dist.all_reduce(gradient)


run = launch(add_up_4_mb, 4)

# %% [markdown]
# ## Compare

# %%
from helpers.predict.collectives import bytes_sent

predicted_vs_measured(
    {f"sent by rank {r}": (bytes_sent("all_reduce", 4e6, 4), run.wire[r].sent) for r in range(4)},
    guess=guess, unit="MB")

# %% [markdown]
# Each rank sent 6 MB: the tensor one and a half times, not three times, as it would by sending it to each of the others.
# The measurement is a little larger than the formula, since messages have headers.
#
# CPU and gloo do not show a GPU's speed, so no time was compared.
# An all-reduce's bytes, the order of calls and the memory are those of a cluster, and they are what this course measures.
# (Where gloo moves more than it must, the lessons say so.)
#
# One time does matter to you: how long you wait for ranks.
# The usual way gives each rank a new Python that imports torch; `launch` copies one that already has.

# %% tags=["nbval-ignore-output"]
from helpers.run.commands.start_cost import launch_seconds, spawn_seconds

usual, here = spawn_seconds(4), launch_seconds(4)
Table(("four ranks, one all_reduce", "seconds"),
      (("torch.multiprocessing.spawn", f"{usual:.2f}"), ("launch", f"{here:.3f}"),
       ("ratio", f"{usual / here:.0f}")))

# %% [markdown]
# ## Scale it
#
# Does a rank send ever more as ranks are added?
# First by formula and kernel, for four world sizes.

# %%
rows = {}
for world_size in (2, 3, 4, 8):
    wire = launch(add_up_4_mb, world_size).wire[0]
    rows[f"{world_size} ranks"] = (bytes_sent("all_reduce", 4e6, world_size), wire.sent)
predicted_vs_measured(rows, unit="MB")

# %% [markdown]
# From 4 MB at two ranks towards 8 MB, never beyond.
#
# Now by hand: move the slider or type a number, and real ranks run.

# %% tags=["nbval-ignore-output"]
from helpers.compare.widgets import all_reduce_explorer

all_reduce_explorer()


# %% [markdown]
# ## Break it
#
# Ranks depend on each other, so they fail together.
# When one rank raises, the others wait for it in vain, and their errors are about a lost connection.
# The art is to find the first one.

# %% tags=["raises-exception"]
def one_fails(rank, world_size):
    share = 12 / (rank - 1)
    dist.all_reduce(torch.tensor([share]))


launch(one_fails, 4)


# %% [markdown]
# The message has the rank that failed first, its line, and who followed.
#
# Worse than an error is silence.
# Here each of two ranks sends before it receives, and gloo's `send` returns only when the other one receives.

# %% tags=["raises-exception"]
def both_send_first(rank, world_size):
    tensor, other = torch.ones(1), 1 - rank
    dist.send(tensor, other)
    dist.recv(tensor, other)


launch(both_send_first, 2, timeout_s=1)


# %% [markdown]
# Without a deadline this would wait for ever.
# `launch` stopped it after `timeout_s` seconds and asked each rank where it was: the call, its number, the line.
# Both are in `send`, so nobody receives.
# The cure is an order in which one receives while the other sends.

# %%
def one_sends_first(rank, world_size):
    mine, theirs = torch.tensor([10.0 + rank]), torch.empty(1)
    if rank == 0:
        dist.send(mine, 1)
        dist.recv(theirs, 1)
    else:
        dist.recv(theirs, 0)
        dist.send(mine, 0)
    return theirs.item()


launch(one_sends_first, 2).results


# %% [markdown]
# Worse than silence is a wrong answer.
# Here both ranks sum an `a` and a `b`, but in another order.

# %%
def other_order(rank, world_size):
    a, b = torch.tensor([1.0]), torch.tensor([100.0])
    for tensor in (a, b) if rank == 0 else (b, a):
        dist.all_reduce(tensor)
    return a.item(), b.item()


launch(other_order, 2).results

# %% [markdown]
# Nothing failed, and both sums are wrong: 2 and 200 would be right.
# A collective has no name; the first call of one rank meets the first call of the other.
# That is why every rank must make the same calls in the same order.

# %% [markdown]
# ## Read the helper
#
# Open `helpers/run/launch/rank.py`: what happens inside each process.
#
# 1. Which line is the rendezvous, and what is the place that all ranks know?
# 2. `main` ends with `os._exit(0)` and not with `return`. The comment beside it says why. What would you see if it were otherwise?
#
# <details><summary>Answers</summary>
# 1. <code>dist.init_process_group</code>; the place is a file in a temporary folder. 2. Now and then a rank that is done would never end, and the run would seem to hang without a message.
# </details>

# %% [markdown]
# ## Check yourself
#
# **1.** Two ranks run `x = torch.ones(1)`, then rank 0 runs `x += 1`. What is `x` on rank 1?
#
# <details><summary>Answer</summary>
# Still 1. Each rank has its own memory, and no collective was called.
# </details>
# <br>
#
# **2.** An `all_reduce` of 100 MB on 8 ranks: how many MB does each rank send?
#
# <details><summary>Answer</summary>
# 2 · 100 · 7/8 = 175 MB.
# </details>
# <br>
#
# **3.** A colleague says: "Rank 2 reports a lost connection, so rank 2 has a fault." What do you answer?
#
# <details><summary>Answer</summary>
# Most likely rank 2 is a victim. A lost connection is what a rank sees when another one has failed or returned. Look for the earliest error that is not about a connection.
# </details>

# %% [markdown]
# ## Recap
#
# A rank is a process with a number; all ranks run one program and share nothing.
# Data moves by collectives, which every rank must call in the same order, and `all_reduce` costs each rank less than twice its tensor.
# When a run fails, look for the first failure, and when it hangs, see in which call each rank waits, and who should have answered.
#
# **Pitfalls.** Expecting a variable of the notebook to change. A collective inside `if rank == 0`. Both sides sending first. Another order.
#
# **Sources.** PyTorch documentation, `torch.distributed`. Bytes of an all-reduce: nccl-tests, `doc/PERFORMANCE.md`; Thakur, Rabenseifner, Gropp, "Optimization of collective communication operations in MPICH", 2005.
#
# **Exercises** stand in `exercises/`: notebooks with cells to fill in, and locked cells that check them and say what is wrong.
# This lesson has none. Next: [01 Memory](01_memory.ipynb).
