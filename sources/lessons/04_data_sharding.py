# %% [markdown]
# # 04 Data sharding
#
# You will be able to say, before training starts, which samples each rank will see, find the faults that no loss curve shows, and take means over ranks that are right.
#
# **60 minutes.** Needs lesson 03.
#
# [Open in Binder](https://mybinder.org/v2/gh/your-name/training-parallelism/HEAD?urlpath=lab/tree/notebooks/04_data_sharding.ipynb) ·
# [Open in Colab](https://colab.research.google.com/github/your-name/training-parallelism/blob/main/notebooks/04_data_sharding.ipynb)

# %% [markdown]
# ## Setup

# %%
import importlib.util

if not importlib.util.find_spec("helpers"):  # on Colab
    get_ipython().run_line_magic(
        "pip", "install -q --no-deps git+https://github.com/your-name/training-parallelism")

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.join import Join
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import parameters_to_vector
from torch.utils.data import DataLoader, DistributedSampler, Subset

from helpers.compare.plots import losses, who_draws
from helpers.compare.table import Table, predicted_vs_measured
from helpers.predict.sampling import drawn
from helpers.run.data import global_mean, regression
from helpers.run.ddp import DDP
from helpers.run.fingerprint import first_difference, same_randomness
from helpers.run.launch import launch, warm_up
from helpers.run.models import perceptron
from helpers.run.sampling import check_sampling

warm_up()


# %% [markdown]
# ## Question
#
# A training script with DDP, correct in every line but one: it makes its loader as a script for one process does.
# Here are three loaders that people write, and a right one.

# %%
def make_loader(kind, data, batch_size, rank, world_size):
    """A loader, and what the training loop calls at the start of each epoch."""
    seed = rank if "seed + rank" in kind else 0
    if kind.startswith("no sampler"):
        torch.manual_seed(seed)
        return DataLoader(data, batch_size, shuffle=True), None
    sampler = DistributedSampler(data, world_size, rank, seed=seed)
    return DataLoader(data, batch_size, sampler=sampler), sampler.set_epoch


KINDS = ["no sampler, one seed", "no sampler, seed + rank", "sampler, seed + rank", "sampler"]


# %%
def train(rank, world_size, kind):
    torch.manual_seed(7)
    loader, _ = make_loader(kind, regression(1003), 8, rank, world_size)
    ddp, curve = DDP(perceptron(16, 32, 32, 4)), []
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.2)
    for inputs, targets in (batch for _ in range(4) for batch in loader):
        loss = mse_loss(ddp(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        curve.append(loss.item())
    return curve[:96]


axes = losses({kind: launch(train, 4, kind).results[0] for kind in KINDS})

# %% [markdown]
# The picture in words: four curves that fall alike, and cross each other all the time.
# The ranks have equal fingerprints, too.
# Which of the four throws away three quarters of the machine?
#
# ## Idea
#
# Data parallel is right if the ranks' batches are **different** samples, and over an epoch every sample is drawn **once**, by one rank.
#
# | symbol | is | unit |
# |---|---|---|
# | $S$ | samples in the data set | |
# | $N$, $r$ | number of ranks, rank | |
# | $B$ | samples that a rank draws in a step | |
#
# `DistributedSampler` does it in three lines: all ranks shuffle the indices with the **same** seed, repeat a few so that $N$ divides their number, and rank $r$ takes every $N$-th, from $r$ on.
# An epoch then has $\lceil \lceil S/N \rceil / B \rceil$ steps.

# %%
def report(rank, world_size, kind, num_samples, batch_size):
    loader, before_epoch = make_loader(kind, range(num_samples), batch_size, rank, world_size)
    return check_sampling(loader, before_epoch=before_epoch)


for kind in ("sampler", "no sampler, one seed"):
    axes = who_draws(launch(report, 4, kind, 22, 3).results[0])

# %% [markdown]
# The picture in words: 22 samples on 4 ranks, three in a step, with a gap between steps; a draw is grey where the sample has been drawn before.
# Above, with the sampler, every sample is there once, and at the end two come again, to make 24.
# Below, with `shuffle=True`, one seed and nothing else, eight steps instead of two, and only rank 0 draws anything new.
# The other three compute the same gradients again, and the mean of four equal gradients is one of them.
#
# ## Predict
#
# 1003 samples, 4 ranks, 8 samples a step on each; `shuffle=True`, one seed, no sampler.
# Which share of the samples in a global batch of 32 is unique?

# %%
guess = None  # share, between 0 and 1


# %% [markdown]
# ## Run
#
# `check_sampling` is the tool of this lesson.
# Every rank gives it its loader; it draws the indices of two epochs, without loading data, puts all random generators back, and compares the ranks.

# %%
reports = {kind: launch(report, 4, kind, 1003, 8).results[0] for kind in KINDS}
reports["no sampler, one seed"]

# %% [markdown]
# ## Compare

# %%
names = {"one seed": KINDS[0], "a seed a rank": KINDS[1], "sampler": KINDS[3]}
expected = {how: drawn(how, 1003, 4, 8) for how in names}
predicted_vs_measured(
    {f"unique share, {kind}": (expected[how].unique_share, reports[kind].unique_share) for how, kind in names.items()}
    | {f"steps, {kind}": (expected[how].steps, reports[kind].steps[0]) for how, kind in names.items()}
    | {f"draws, {kind}": (expected[how].draws, reports[kind].num_draws) for how, kind in names.items()}, guess=guess)

# %% [markdown]
# With one seed a global batch has 8 different samples, not 32: a diversity of one rank.
#
# `seed + rank` is a popular cure, and the batches are different then, 99 %.
# But every rank still goes through **all** samples: an "epoch" has 4012 draws and 126 steps.
# Whoever counts epochs, or lets the learning rate fall over them, trains four times as long as planned.
#
# And with the sampler, `seed + rank` is worse:

# %%
reports["sampler, seed + rank"]

# %% [markdown]
# Each rank cuts its part out of a **different** permutation, so the parts overlap, and a third of the data is never seen in this epoch.
# One seed for the order; every rank its own slice of it.
#
# **Does it matter?**
# The noise of a gradient says how large the batch really is: its variance falls as 1 over the number of different samples.
# At fixed weights, for every step of an epoch:

# %%
def noise(rank, world_size, kind, batch_size):
    torch.manual_seed(7)
    ddp, data, squares = DDP(perceptron(16, 32, 32, 4)), regression(1003), []
    loader, _ = make_loader(kind, data, batch_size, rank, world_size)
    mse_loss(ddp.module(data.tensors[0]), data.tensors[1]).backward()
    full = parameters_to_vector(p.grad for p in ddp.parameters())
    for inputs, targets in (batch for _ in range(6) for batch in loader):
        ddp.zero_grad()
        mse_loss(ddp(inputs), targets).backward()
        squares.append((parameters_to_vector(p.grad for p in ddp.parameters()) - full).square().sum())
    return torch.stack(squares).mean().item()


# %%
single = launch(noise, 1, "sampler", 1).results[0]
Table(("", "noise of batches of"), tuple(
    (kind, f"{single / launch(noise, 4, kind, 8).results[0]:.0f}") for kind in KINDS))

# %% [markdown]
# Four ranks without a sampler and with one seed learn as much from a step as one rank, for four times the money; the other loaders give what was paid for.
# (33 rather than 32: within an epoch no sample comes twice, so batches vary a little less.)
#
# ## Predict
#
# Evaluation.
# A model gets 6 of 9 samples right.
# 4 ranks share the 9 with a `DistributedSampler`, each counts what it has right, and the counts are added up.
# Which accuracy is printed, if the first three samples are the wrong ones?

# %%
guess = None  # share, between 0 and 1


# %% [markdown]
# ## Run

# %%
right = torch.tensor([0, 0, 0, 1, 1, 1, 1, 1, 1])


def evaluate(rank, world_size, padded):
    sampler = DistributedSampler(right, world_size, rank, shuffle=False)
    mine = list(sampler) if padded else list(range(rank, len(right), world_size))
    counts = torch.tensor([right[mine].sum(), len(mine)])
    dist.all_reduce(counts)
    return (counts[0] / counts[1]).item(), mine


printed = {padded: launch(evaluate, 4, padded).results for padded in (True, False)}

# %% [markdown]
# ## Compare

# %%
predicted_vs_measured({"DistributedSampler": (6 / 12, printed[True][0][0]),
                       "every fourth sample, unpadded": (6 / 9, printed[False][0][0])}, guess=guess,
                      notes=(f"Padded, the ranks have {[mine for _, mine in printed[True]]}.",))

# %% [markdown]
# 9 samples do not divide by 4, so the sampler repeats samples 0, 1 and 2, and they count twice.
# The result depends on the number of ranks, which no accuracy should.
# Evaluate without padding, as in the second row: without gradients to exchange, ranks may have different numbers of samples.
#
# ## Predict
#
# Losses over **tokens**.
# Rank 0 has a sequence of 2 tokens, rank 1 one of 30; each token's loss is 4 on rank 0 and 0 on rank 1.
# Each rank takes the mean over its tokens, and DDP the mean over ranks.
# The true mean over all tokens is $2\cdot 4/32 = 0.25$.
# What do the two means give?

# %%
guess = None  # mean of the two means


# %% [markdown]
# ## Run

# %%
def token_loss(rank, world_size, weighted):
    ddp = DDP(nn.Linear(1, 1, bias=False))                # loss of a token: weight * input
    tokens = torch.full((2, 1), 4.0) if rank == 0 else torch.zeros(30, 1)
    each = ddp(tokens)
    loss = global_mean(each.sum(), len(each)) if weighted else each.mean()
    loss.backward()
    return next(ddp.parameters()).grad.item()             # d loss / d weight: the mean input


gradients = {weighted: launch(token_loss, 2, weighted).results[0] for weighted in (False, True)}
predicted_vs_measured({"mean of means": ((4 + 0) / 2, gradients[False]),
                       "sum over all / tokens of all": (2 * 4 / 32, gradients[True])}, guess=guess)

# %% [markdown]
# ## Compare
#
# Eight times too large: two tokens weigh as much as thirty.
# The mean of means is the mean only if all counts are equal.
#
# The cure sends one number more.
# Each rank's **sum** is multiplied by $N$ and divided by the tokens of **all** ranks; DDP's division by $N$ then leaves the sum over all tokens over the number of all tokens.
# The same holds for a last batch that is shorter on some ranks, and for microbatches.
# `check_sampling(loader, items_in=...)` says where counts differ.
#
# ## Scale it
#
# What a right script asks before its first step, and what it asks every now and then:

# %%
def right_script(rank, world_size):
    torch.manual_seed(0)
    loader, before_epoch = make_loader("sampler", regression(1003), 8, rank, world_size)
    planned = check_sampling(loader, before_epoch=before_epoch)
    ddp = DDP(perceptron(16, 32, 32, 4))
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.2)
    for epoch in range(0 if planned.faults else 2):
        before_epoch(epoch)
        for inputs, targets in loader:
            optimizer.zero_grad()
            mse_loss(ddp(inputs), targets).backward()
            optimizer.step()
    return planned.faults, first_difference(ddp.module, optimizer)


launch(right_script, 4).results[0]

# %% [markdown]
# No faults, no difference.
# Here is the tool on five more mistakes.

# %%
def more(rank, world_size, mistake):
    data = range(1003)
    if mistake == "split twice":
        data = Subset(data, range(rank, 1003, world_size))      # already this rank's part
    sampler = DistributedSampler(data, world_size, rank, drop_last=mistake == "drop_last")
    batch_size = 8 + rank if mistake == "own batch size" else 8
    loader = DataLoader(data, batch_size, sampler=sampler, drop_last=mistake == "drop_last")
    before_epoch = None if mistake == "no set_epoch" else sampler.set_epoch
    items_in = (lambda index: index % 7) if mistake == "sequences of all lengths" else None
    return check_sampling(loader, before_epoch=before_epoch, items_in=items_in)


for mistake in ("no set_epoch", "split twice", "drop_last", "own batch size", "sequences of all lengths"):
    print(f"{mistake}: {launch(more, 4, mistake).results[0]}\n")

# %% [markdown]
# `set_epoch` is the one that tutorials forget: without it the sampler shuffles by the same seed in each epoch, and the batches of the second epoch are those of the first.
#
# **What are per-rank seeds for, then?**
# For what should differ between ranks: dropout and augmentation.
# With one seed, all ranks drop the same units.

# %%
def masks(rank, world_size, seed):
    torch.manual_seed(seed + rank if seed is not None else 0)
    alike = same_randomness()
    return nn.functional.dropout(torch.ones(8), 0.5).bool().int().tolist(), alike


{"one seed": launch(masks, 2, None).results, "seed + rank": launch(masks, 2, 7).results}

# %% [markdown]
# `same_randomness()` names the ranks whose generators stand at the same place; `()` is what you want.
# So: **one** seed for the model (or a broadcast) and for the sampler; then `seed + rank` for the rest of the program.
# In this order: a later `torch.manual_seed(7)` makes all ranks alike again, and a loader without a sampler shuffles by what it finds.
#
# By hand: samples, ranks, batch, loader.
# Each change asks real ranks.

# %% tags=["nbval-ignore-output"]
from helpers.compare.widgets import sampling_explorer

sampling_explorer(make_loader, KINDS)


# %% [markdown]
# ## Break it
#
# The sampler pads so that all ranks have as many batches.
# What if one has one batch more?

# %%
def uneven(rank, world_size, how):
    torch.manual_seed(0)
    ddp = DistributedDataParallel(nn.Linear(4, 1))
    batches = [torch.full((2, 4), rank + 1.0)] * (3 + rank)       # rank 1 has one more
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.01)
    with Join([ddp], enable=how == "Join"):
        for batch in batches:
            optimizer.zero_grad()
            ddp(batch).sum().backward()
            optimizer.step()
    dist.barrier()                                                # as before a checkpoint
    return len(batches), first_difference(ddp.module)


# %% tags=["raises-exception"]
launch(uneven, 2, "plain", timeout_s=2)

# %% [markdown]
# Rank 0 is done and waits at the barrier, rank 1 waits in its fourth backward for a partner.
# (Rank 0's next collective may also be a reduction of another size; then gloo ends the process.)
#
# `Join` lets ranks that are done answer the others' all_reduces with zeros:

# %%
launch(uneven, 2, "Join").results

# %% [markdown]
# Both finish, with equal parameters.
# Two warnings.
# `Join` knows DDP's collectives only: one of your own inside the block, such as a sum of losses, breaks it.
# And DDP keeps dividing by **all** ranks then, so the last steps are shorter; `Join(..., divide_by_initial_world_size=False)` changes that.
#
# ## Read the helper
#
# Open `helpers/run/sampling.py` and `helpers/facts/sampling.py`.
#
# 1. Why does `_steps` draw a random number before it asks the loader for indices?
# 2. `check_sampling` is to be called *before* training. What would it cost if it did not put generators back?
#
# <details><summary>Answers</summary>
# 1. DataLoader's own iterator draws one first, a seed for its workers; without that, a shuffling loader would be seen in another order than the one that training gets. 2. Training would get other permutations than those that were checked, and a run with the check would differ from one without.
# </details>

# %% [markdown]
# ## Check yourself
#
# **1.** Two runs, with and without a `DistributedSampler`, have the same loss curve over 1000 steps. Which one has learned from more data?
#
# <details><summary>Answer</summary>
# The one with the sampler has seen up to N times as many different samples. A curve over steps of a noisy loss does not show it early; it may show in the end, as a better validation loss, or as overfitting of the other.
# </details>
# <br>
#
# **2.** "To make sure that ranks see different data, give the sampler `seed + rank`." Right?
#
# <details><summary>Answer</summary>
# No, a common misconception. The sampler's slices are disjoint only if all ranks shuffle alike. With different seeds they overlap, and about (1 - 1/N) to the N of the data, a third, is left out.
# </details>
# <br>
#
# **3.** 10 samples, 4 ranks, the last batch of a rank has 2 or 3 samples. Each rank uses the mean over its own. Which samples weigh more, and by how much?
#
# <details><summary>Answer</summary>
# Those on ranks with 2: each weighs 1/(4·2) instead of 1/10, 25 % more; on ranks with 3 it is 1/(4·3), 17 % less.
# </details>

# %% [markdown]
# ## Recap
#
# One order for all ranks, a slice for each, a new order each epoch: that is all of data sharding, and each part of it can be missing without an error.
# Padding makes steps even and evaluations wrong; means need weights as soon as counts differ.
# Ask `check_sampling` before the first step, since losses do not tell.
#
# **Pitfalls.** `shuffle=True` under DDP. `seed + rank` for shuffling. No `set_epoch`. Splitting twice. Accuracy over padded samples. The mean of means.
#
# **Sources.** PyTorch documentation, `torch.utils.data.distributed.DistributedSampler` and "Distributed Training with Uneven Inputs Using the Join Context Manager". For masks and seeds, the issue trackers of DETR, DeiT and nanoGPT.
#
# **Exercises:** `exercises/04_data_sharding/04_data_sharding.ipynb`.
