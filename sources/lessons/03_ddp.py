# %% [markdown]
# # 03 Data parallel
#
# You will be able to build DDP from nothing, say what a step sends and when, accumulate gradients without paying for it, and prove that your ranks still hold one model.
#
# **80 minutes.** Needs lessons 00 and 01; lesson 02 helps. A good place for a break is before "Scale it".
#
# [Open in Binder](https://mybinder.org/v2/gh/your-name/training-parallelism/HEAD?urlpath=lab/tree/notebooks/03_ddp.ipynb) ·
# [Open in Colab](https://colab.research.google.com/github/your-name/training-parallelism/blob/main/notebooks/03_ddp.ipynb)

# %% [markdown]
# ## Setup

# %%
import importlib.util

if not importlib.util.find_spec("helpers"):  # on Colab
    get_ipython().run_line_magic(
        "pip", "install -q --no-deps git+https://github.com/your-name/training-parallelism")

from contextlib import nullcontext

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import parameters_to_vector

from helpers.compare.plots import gantt, losses
from helpers.compare.table import Table, predicted_vs_measured
from helpers.compare.words.ddp import overlap_in_words
from helpers.facts.buckets import buckets
from helpers.facts.network import network
from helpers.facts.trace import duration_s, exposed_s
from helpers.facts.units import GB, MiB
from helpers.predict.collectives import bytes_sent
from helpers.predict.ddp import backward_and_all_reduces
from helpers.run.data_sharding import part_of_batch
from helpers.run.ddp import DDP, NaiveDDP
from helpers.run.launch import launch, warm_up
from helpers.run.measure.fingerprint import first_difference
from helpers.run.measure.meters import memory, wire
from helpers.run.measure.timeline import timeline
from helpers.run.models import Padded, mlp, perceptron, regression

warm_up()

# %% [markdown]
# ## Question
#
# Four ranks train, each on its own quarter of every batch.
# They add up their gradients, divide by four, and take the same step.
# Somebody has read that "every rank needs a seed of its own".

# %%
x, y = regression(100 * 32).tensors


def looks_right(rank, world_size, seed=None):
    torch.manual_seed(rank if seed is None else seed)
    model, mine, curve = perceptron(16, 32, 32, 4), part_of_batch(32, rank, world_size), []
    for inputs, targets in zip(x.split(32), y.split(32)):
        loss = mse_loss(model(inputs[mine]), targets[mine])
        model.zero_grad()
        loss.backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
            parameter.data -= 0.2 * parameter.grad / world_size
        curve.append(loss.item())
    return curve, first_difference(model)


# %%
run = launch(looks_right, 4)
axes = losses({f"rank {rank}": curve for rank, (curve, _) in enumerate(run.results)})

# %% [markdown]
# The picture in words: four noisy lines, each the loss on a rank's own 8 samples, that fall together from about 1 to about 0.3.
# No error, no warning.
# Is this one model, trained on 32 samples a step?
#
# Nothing above answers that.
# A **fingerprint** does: every rank hashes each of its tensors to 8 bytes, and the hashes are compared.
# Beside it, the same training with one seed.

# %%
alike = launch(looks_right, 4, seed=7)
Table(("", "loss, last ten steps", "first difference between ranks"), tuple(
    (name, f"{sum(sum(curve[-10:]) for curve, _ in each.results) / 40:.2f}", str(each.results[0][1]))
    for name, each in (("a seed each", run), ("one seed", alike))))

# %% [markdown]
# Four different models, each trained with the mean of four gradients that were taken at four different sets of weights, and seven times the loss.
# A seed of its own is right for dropout (lesson 04), and wrong for the first weights.
#
# ## Idea
#
# Data parallel: every rank has the **same** model and **its own** samples.
# The loss is a mean over samples, so its gradient is the mean of the ranks' gradients, if all have equally many samples.
# Models that start equal and take equal steps stay equal to the last bit.
#
# $$ g = \frac{1}{N}\sum_{r=0}^{N-1} g_r $$
#
# | symbol | is | unit |
# |---|---|---|
# | $N$, $r$ | number of ranks, rank | |
# | $P$ | parameters of the model; 4 bytes each here | |
# | $g_r$ | gradient of the mean loss over rank $r$'s samples | |
# | $K$ | microbatches that are accumulated before a step | |

# %% [markdown]
# So DDP is two things around an ordinary training loop:
#
# 1. at construction, `broadcast` parameters **and buffers** (BatchNorm's running means, for instance) of rank 0: that cures the fault above;
# 2. after backward, an `all_reduce` of every gradient, and a division by $N$.
#
# Memory is not saved at all (lesson 01).
#
# ## Predict
#
# A model of four 512 by 512 matrices, 1,048,576 parameters in fp32, on 4 ranks.
# How many MB does each rank send in a step, if the batch of all ranks (the **global batch**) has 32 samples?
# And if it has 320?

# %%
guess = None  # MB


# %% [markdown]
# ## Run
#
# `NaiveDDP` is those two things and nothing else.
# This is the loop that every data-parallel program has; it runs below, and `launch` does `init_process_group`.

# %%
def worker(rank, world_size, wrap, lr=0.05, num_steps=20, batch=32):
    torch.manual_seed(rank)                                 # the fault of the question
    ddp = wrap(perceptron(16, 32, 32, 4))                   # broadcasts parameters and buffers
    optimizer = torch.optim.SGD(ddp.parameters(), lr)
    for step in range(num_steps):
        offset = step * batch + rank * batch // world_size  # own slice
        mine = slice(offset, offset + batch // world_size)
        optimizer.zero_grad(set_to_none=True)
        mse_loss(ddp(x[mine]), y[mine]).backward()
        if hasattr(ddp, "sync_grads"):
            ddp.sync_grads()                                # all_reduce SUM, then div_ by world_size
        optimizer.step()
    return parameters_to_vector(ddp.parameters()).detach(), first_difference(ddp), mse_loss(ddp(x), y).item()


# %% [markdown]
# ## Compare

# %%
def one_step(rank, world_size, per_rank=8):
    ddp = NaiveDDP(mlp(width=512, depth=4))
    with wire() as sent:
        ddp(torch.randn(per_rank, 512)).sum().backward()
        ddp.sync_grads()
    return sent.sent


P = 4 * 512**2
predicted_vs_measured({f"a step of DDP, {n} ranks with {per_rank} samples":
                       (bytes_sent("all_reduce", 4 * P, n), launch(one_step, n, per_rank).results[0])
                       for n, per_rank in ((4, 8), (4, 80), (2, 8))}, guess=guess, unit="MB")

# %% [markdown]
# $2 \cdot 4P\,(N-1)/N$ bytes: 1.5 times the gradients on 4 ranks, nearly twice on many, and however many samples there are.
#
# And is it the same training?
# One process takes all 32 samples; four ranks take 8 each, without a wrapper, with our two lines, and with PyTorch's own DDP.

# %%
nothing = nn.Sequential                                     # wraps, and does nothing else
whole, _, _ = launch(worker, 1, nothing).results[0]
rows = []
for name, wrap in (("no wrapper", nothing), ("our NaiveDDP", NaiveDDP), ("our DDP", DDP),
                   ("PyTorch's DDP", DistributedDataParallel)):
    vector, difference, _ = launch(worker, 4, wrap).results[0]
    away = (vector - whole).abs().max() / whole.abs().max()
    rows.append((name, "yes" if away < 1e-6 else f"NO, {away:.0%} away", str(difference)))
Table(("after 20 steps on 4 ranks", "within 1e-6 of one process", "first difference between ranks"), tuple(rows))


# %% [markdown]
# "Equal" needs both columns: near the right answer, and equal to each other.
# Two kinds of layers are not equal to one process under any DDP: BatchNorm takes its means over a rank's own samples (and its running means differ, until PyTorch's DDP and ours copy rank 0's before the next forward), and dropout draws masks.
#
# **Mean or sum?**
# Leave out the division, and each step of SGD is $N$ times as long.
# And if the global batch grows with the number of ranks, should the rate?
# Here is the loss on all data.

# %%
class SummedDDP(NaiveDDP):
    def sync_grads(self):
        for parameter in self.parameters():
            dist.all_reduce(parameter.grad)


jobs = [("before training", 1, nothing, 0, 0, 32),              # name, ranks, wrap, rate, steps, global batch
        ("1 process, 20 steps of 32, rate 0.8", 1, nothing, 0.8, 20, 32),
        ("4 ranks, mean, 20 steps of 4 x 8, rate 0.8", 4, NaiveDDP, 0.8, 20, 32),
        ("4 ranks, sum, 20 steps of 4 x 8, rate 0.8", 4, SummedDDP, 0.8, 20, 32),
        ("1 process, 80 steps of 8, rate 0.05", 1, nothing, 0.05, 80, 8),
        ("4 ranks, mean, 20 steps of 4 x 8, rate 0.05", 4, NaiveDDP, 0.05, 20, 32),
        ("4 ranks, mean, 20 steps of 4 x 8, rate 0.20", 4, NaiveDDP, 0.2, 20, 32),
        ("1 process, 80 steps of 8, rate 0.20", 1, nothing, 0.2, 80, 8)]
Table(("", "loss"), tuple((name, f"{launch(worker, *job).results[0][2]:.2f}") for name, *job in jobs))

# %% [markdown]
# The sum is the mean with four times the learning rate, and here that diverges.
# (Adam hides it, since it divides by the size of the gradient; gradient clipping does not.)
# So divide: a rate tuned on one process is right on four, **as long as the global batch stays the same**.
#
# In the last four rows the global batch grows from 8 to 32, and the same data is a quarter of the steps.
# At the old rate they get nearly nowhere, 1.00; at four times the rate about as far, 0.79.
# This *linear scaling rule* (Goyal et al.) holds for rates that are small enough: from 0.2 (last row) to 0.8 (third row) it fails, 0.09 against 0.37.

# %% [markdown]
# ## Predict
#
# Naive DDP waits with all messages until backward is over.
# But the gradient of the **last** layer is ready first.
# PyTorch puts gradients into **buckets**, from the last parameter to the first, and sends a bucket as soon as it is full: that is, holds 25 MiB or more; the first one 1 MiB or more, so that sending starts early.
#
# The last bucket leaves when backward is over, full or not.
#
# Six layers with one 4 MiB matrix each.
# How many all_reduces is that?

# %%
guess = None  # all_reduces


# %% [markdown]
# ## Run
#
# Two ranks on a machine with two cores: computing and sending compete for them, far more than on a GPU.
# So each layer is **padded**: its backward sleeps for 10 ms more, in which the cores are free for messages.
# Gradients, messages and their times are real.
#
# *Exposed* is the time of messages while no backward runs: what nothing hides.

# %%
def traced(rank, world_size, wrap, **options):
    ddp = wrap(nn.Sequential(*(Padded(nn.Linear(1024, 1024, bias=False), str(n), 0.01) for n in range(1, 7))), **options)
    steps = []
    for _ in range(8):
        with timeline(rank) as spans:
            ddp(torch.ones(8, 1024)).sum().backward()
        steps.append(spans)
    return min(steps[2:], key=duration_s)           # the least disturbed; PyTorch's first step has one bucket only


limits = {"4 MiB": 4 * MiB, "8 MiB": 8 * MiB, "one bucket": float("inf")}
runs = {name: launch(traced, 2, DDP, bucket_bytes=size, first_bucket_bytes=size) for name, size in limits.items()}
runs["25 MiB, first 1"] = launch(traced, 2, DDP)
runs["PyTorch's 25, first 1"] = launch(traced, 2, DistributedDataParallel)

# %% tags=["nbval-ignore-output"]
axes = gantt({name: run.results[0] for name, run in runs.items()})
Table(("rank 0", "ms in all_reduces", "ms of them exposed", "ms for the step"), tuple(
    (name, f"{1e3 * sum(s.duration_s for s in run.results[0] if s.kind == 'all_reduce'):.0f}",
     f"{1e3 * exposed_s(run.results[0], 0, 'all_reduce', behind='B'):.0f}", f"{1e3 * duration_s(run.results[0]):.0f}")
    for name, run in runs.items()))

# %% [markdown]
# The picture in words: a pair of rows for each limit, backward above, messages below.
# Layers are numbered in the order of forward, so 6 comes first; messages from 0.
# With 4 MiB, each layer's message travels while the next layer is computed.
# With one bucket nothing travels until the end of layer 1.
# The default sends layer 6 early, then all others at the end, which gains next to nothing here.
#
# ## Compare

# %%
sizes = [4 * MiB] * 6
expected = {name: len(buckets(sizes, size, size)) for name, size in limits.items()}
expected |= {"25 MiB, first 1": len(buckets(sizes)), "PyTorch's 25, first 1": len(buckets(sizes))}
counted = {name: sum(span.kind == "all_reduce" for span in run.results[0]) for name, run in runs.items()}
predicted_vs_measured({name: (expected[name], counted[name]) for name in reversed(runs)}, guess=guess,
                      unit="all_reduces")


# %% [markdown]
# Default: layer 6 closes the first bucket, and the other five hold 20 MiB and leave at the end of backward.
#
# The last bucket has nothing left to hide behind, so it is always exposed; small buckets make it small.
# Too small ones cost latency: with limit 0, every bias is a message of its own.
#
# ## Scale it
#
# **Accumulation.**
# If memory is short, a batch comes in $K = 4$ microbatches, whose gradients accumulate before one step.
# On 2 ranks each backward sends $4P$ bytes; before you run the next cell, guess how often they must be sent.
# Inside `no_sync()` gradients stay on their rank, and the next backward outside sends what has accumulated.

# %%
def accumulate(rank, world_size, saves):
    torch.manual_seed(7)
    ddp, inputs = DDP(mlp(width=512, depth=4)), torch.randn(world_size, 4, 8, 512)      # by rank and microbatch
    with wire() as sent:
        for k in range(4):
            with ddp.no_sync() if saves and k < 3 else nullcontext():
                (ddp(inputs[rank, k]).mean() / 4).backward()
    return sent.sent / (4 * P), parameters_to_vector(p.grad for p in ddp.parameters())


(sent_each, one), (sent_once, other) = (launch(accumulate, 2, saves).results[0] for saves in (False, True))
predicted_vs_measured({"a sync in each microbatch": (4 * bytes_sent("all_reduce", 1, 2), sent_each),
                       "no_sync in the first three": (bytes_sent("all_reduce", 1, 2), sent_once)}, unit="times 4P",
                      notes=(f"The same gradient within 1e-6: {(one - other).abs().max() < 1e-6 * one.abs().max()}.",))


# %% [markdown]
# The same gradient for a quarter of the bytes: $(K-1)/K$ is saved.
# Divide each loss by $K$, since gradients add up.
# And `no_sync` must be around the **forward**, for that is where DDP decides; around `backward` alone it changes nothing, and no message says so.
#
# **Memory.**
# Buckets are a second copy of the gradients, unless gradients live **in** them.
# How many bytes a parameter is that with Adam, instead of lesson 01's 16?

# %%
def held(rank, world_size, wrap, **options):
    with memory() as grown:
        ddp = wrap(mlp(width=1024, depth=10), **options)
        optimizer = torch.optim.Adam(ddp.parameters())
        ddp(torch.ones(4, 1024)).sum().backward()
        optimizer.step()
    return grown


views = {name: launch(held, 2, DDP, gradient_as_bucket_view=view).results[0]
         for name, view in (("our DDP", False), ("our DDP, gradient_as_bucket_view", True))}
predicted_vs_measured({name: (bytes_each * 10 * 1024**2, views[name].tensors)
                       for name, bytes_each in zip(views, (20, 16), strict=True)}, unit="MiB")

# %% [markdown]
# 20 and 16 bytes a parameter: five and four times the parameters.
# PyTorch's DDP has the same option and holds as much, in C++: lesson 01 saw it in the kernel's count only.
#
# **Will it hide?**
# A message of $T$ bytes on a ring takes $2(N-1)(\alpha + \frac{T}{N}\beta)$ (lesson 02), and it hides if the next layer takes longer.
# Take the 32 layers of Llama 3.1 8B, 436 MB of bf16 gradients each, with 20 ms of backward (an example), on 64 ranks with links of 100 GB/s: $8.6 + 0.6 = 9.2$ ms.
# (Left out: embedding and output layer, 1 GB each; the embedding's message goes last and is exposed, 21 ms more.)

# %%
fast = network(alpha_s=5e-6, beta_s=1 / (100 * GB))
step = backward_and_all_reduces([436 * 10**6] * 32, [0.02] * 32, 64, fast)
axes = gantt({"predicted": step})
print(overlap_in_words(step))

# %% [markdown]
# The picture in words: 32 short messages, each behind the next layer's backward; only the last sticks out.
#
# Now by hand: fewer samples on each rank make backward shorter, but not the messages.
# At how many ms a layer do they stop hiding? And with lesson 02's 25 GB/s?

# %% tags=["nbval-ignore-output"]
from helpers.compare.widgets import overlap_explorer

overlap_explorer()


# %% [markdown]
# ## Break it
#
# A model with a branch that is not always taken.
# First **all** ranks skip it, for two steps.

# %%
class Branched(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk, self.branch = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, inputs, take):
        hidden = self.trunk(inputs)
        return self.branch(hidden) if take else hidden


def skipped(rank, world_size, who, wrap=DDP, num_steps=2, **options):
    ddp = wrap(Branched(), **options)
    for _ in range(num_steps):
        ddp(torch.ones(2, 8), take=rank not in who).sum().backward()
    dist.barrier()                                          # as before a checkpoint
    return [p.grad is not None for p in ddp.parameters()]


# %% tags=["raises-exception"]
launch(skipped, 2, who={0, 1})

# %% [markdown]
# An error, but one step late: in the **second** forward, since only then it is certain that nothing more will come.
# By then an optimizer would have stepped with gradients that nobody averaged, also of the trunk, which shares the branch's bucket, and the ranks would have parted.
# (PyTorch's words are longer; cause and cure are the same.)
#
# Now only rank 1 skips it, and goes on to a barrier.

# %% tags=["raises-exception"]
launch(skipped, 2, who={1}, num_steps=1, timeout_s=2)

# %% [markdown]
# Nobody raises: rank 0 has sent its bucket and waits for rank 1's, which waits elsewhere.
# Read the two lines: the ranks are in **different collectives**, the sixth of each; the first five were DDP's construction.
# (PyTorch's DDP calls from C++, where nobody counts: rank 0's line is then `backward()`.)
#
# `find_unused_parameters=True` looks, in every forward, which parameters the output depends on, and does not wait for the others.
# It costs a walk through the graph and one more small all_reduce.

# %%
Table(("has a gradient, on rank 0", "trunk.weight", "trunk.bias", "branch.weight", "branch.bias"), tuple(
    (f"ranks {who} skip the branch", *map(str, launch(skipped, 2, who, find_unused_parameters=True).results[0]))
    for who in ({0, 1}, {1})))

# %% [markdown]
# If all ranks skip the branch, its gradients stay `None`.
# If one does, the others' gradients are averaged with its zeros, and it gets them too: else its copy of the branch would stay behind.
# (PyTorch's DDP gives the same.)
#
# ## Read the helper
#
# Open `helpers/run/ddp/ddp.py`.
#
# 1. In `_ready`, why does the loop over buckets stop at the first one that is not full, even if a later one is?
# 2. Where is the division by $N$, and why there?
#
# <details><summary>Answers</summary>
# 1. Collectives are matched by their order, so all ranks must start them in one order, whichever gradient happens to be ready first. 2. In <code>_fill</code>, before the sum: each rank divides its own part while it copies it into the bucket, so no second pass is needed, and half-precision sums do not overflow.
# </details>

# %% [markdown]
# ## Check yourself
#
# **1.** "Our loss curves on all ranks look the same, so DDP works." What would you check instead, and what does each find?
#
# <details><summary>Answer</summary>
# A fingerprint finds ranks that are no longer one model, but misses ranks that all draw the same data. A comparison with one process on the whole batch, for a few steps, finds a wrong mean, and the same data too, if it goes through your loaders: lesson 04.
# </details>
# <br>
#
# **2.** You move from 8 to 16 ranks. What happens to the bytes that each rank sends in a step, and to the time?
#
# <details><summary>Answer</summary>
# From 2 · 7/8 to 2 · 15/16 times the gradients: 7 % more. Messages one after another more than double, from 14 to 30 in a ring, so latency may show with small buckets. (A common misconception is that DDP's traffic of a rank doubles.)
# </details>
# <br>
#
# **3.** After wrapping, rank 0 loads a checkpoint into `ddp.module`. What do the losses, the gradients and the fingerprint say?
#
# <details><summary>Answer</summary>
# Losses fall, and gradients are equal on all ranks, for they are averaged. The parameters are not: the broadcast was at construction. The fingerprint names the first parameter, and rank 0 as the one that differs. Load before wrapping, or on all ranks.
# </details>

# %% [markdown]
# ## Recap
#
# DDP is a broadcast at the start and the mean of all gradients in each step; without BatchNorm and dropout that is one process on the whole batch, to rounding.
# Buckets let gradients travel while backward goes on, $2\cdot 4P(N-1)/N$ bytes however they are cut, and `no_sync` sends them once for $K$ microbatches.
# Nothing tells you when ranks drift apart, unless you ask.
#
# | here | in a job on GPUs (not run here) |
# |---|---|
# | `launch(program, 4)` | `torchrun --nproc-per-node 4 train.py` |
# | ranks are joined | `dist.init_process_group("nccl")`, `torch.cuda.set_device(local_rank)` |
# | `DDP(model)` | `DistributedDataParallel(model.to(local_rank), device_ids=[local_rank])` |
# | `bucket_bytes=25 * MiB` | `bucket_cap_mb=25`, which counts MiB; given, it holds for the first bucket, too |
#
# **Pitfalls.** A seed for each rank and no broadcast. A sum that was meant to be a mean. `no_sync` around backward only. A parameter that one rank does not use. Loading, unfreezing or adding parameters after wrapping. Clipping before gradients are averaged. Logging one rank's loss as if it were the job's.
#
# **Sources.** Li et al., "PyTorch Distributed", VLDB 2020, section 3. Goyal et al., "Accurate, large minibatch SGD", arXiv:1706.02677, section 2. PyTorch documentation, "Distributed Data Parallel" note, and torchrun. Llama 3, arXiv:2407.21783, table 3.
#
# **Exercises:** `exercises/03_ddp/03_ddp.ipynb`.
