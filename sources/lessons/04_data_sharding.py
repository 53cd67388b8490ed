# %% [markdown]
# # 04 Data sharding
#
# You will be able to say, before training starts, which samples each rank will see, find the faults that no loss curve shows, and take means over ranks that are right.
#
# **75 minutes.** Needs lesson 03. A good place for a break is before "Scale it".
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
from helpers.predict.data_sharding import drawn
from helpers.run.data_sharding import check_sampling, global_mean
from helpers.run.ddp import DDP
from helpers.run.launch import launch, warm_up
from helpers.run.measure.fingerprint import first_difference, same_randomness
from helpers.run.models import Stream, perceptron, regression

warm_up()


# %% [markdown]
# ## Question
#
# Training scripts with DDP, correct in every line but one: how they make their loaders.
# Three are such as people write, and the last is right.
#
# A `DistributedSampler` gives each rank indices of its own.
# `set_epoch(n)` tells it to shuffle anew; more on that below.

# %%
def make_loader(kind, data, batch_size, rank, world_size):
    """A loader, and what the training loop calls with the number of each epoch."""
    seed = rank if kind in ("no sampler, seed + rank", "sampler, seed + rank") else 0
    if kind in ("no sampler, one seed", "no sampler, seed + rank"):
        torch.manual_seed(seed)                         # shuffle=True draws from torch's generator
        return DataLoader(data, batch_size, shuffle=True), lambda epoch: None
    sampler = DistributedSampler(data, num_replicas=world_size, rank=rank, seed=seed)
    return DataLoader(data, batch_size, sampler=sampler), sampler.set_epoch


KINDS = ["no sampler, one seed", "no sampler, seed + rank", "sampler, seed + rank", "sampler"]


# %%
def train(rank, world_size, kind):
    torch.manual_seed(7)
    loader, before_epoch = make_loader(kind, regression(1003), 8, rank, world_size)
    ddp, curve = DDP(perceptron(16, 32, 32, 4)), []
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.05)
    for epoch in range(1 if kind.startswith("no") else 3):          # 126 steps, or 3 times 32
        before_epoch(epoch)
        for inputs, targets in loader:
            loss = mse_loss(ddp(inputs), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            curve.append(loss.item())
    return curve[:96], first_difference(ddp.module, optimizer)


# %%
trained = {kind: launch(train, 4, kind).results[0] for kind in KINDS}
axes = losses({kind: curve for kind, (curve, _) in trained.items()})
print("first differences between ranks:", [difference for _, difference in trained.values()])


# %% [markdown]
# The picture in words: two pairs of noisy curves that fall from about 1 to about 0.6; each pair is nearly one line, for rank 0 has seed 0 in all four.
# All ranks are still one model.
# Which of the four throws away three quarters of the machine?
#
# ## Idea
#
# Data parallel is right if the ranks' batches are **different** samples, and in an epoch every sample is drawn **once**, by one rank.
#
# | symbol | is |
# |---|---|
# | $S$ | samples in the data set |
# | $N$, $r$ | number of ranks, rank |
# | $B$ | samples that a rank draws in a step, the `batch_size` of its loader |
#
# `DistributedSampler` does it in three lines: all ranks shuffle with the **same** seed, repeat the first few so that $N$ divides the number, and rank $r$ takes every $N$-th.
# An epoch then has $\lceil \lceil S/N \rceil / B \rceil$ steps.

# %%
def three_lines(num_samples, rank, world_size, seed, epoch):
    order = torch.randperm(num_samples, generator=torch.Generator().manual_seed(seed + epoch)).tolist()
    order += order[:-num_samples % world_size]          # so many are missing: (-num_samples) % world_size
    return order[rank::world_size]


def report(rank, world_size, kind, num_samples, batch_size):
    loader, before_epoch = make_loader(kind, range(num_samples), batch_size, rank, world_size)
    return check_sampling(loader, before_epoch=before_epoch)


for kind in ("sampler", "no sampler, one seed"):
    axes = who_draws(launch(report, 4, kind, 22, 3).results[0])
print("as PyTorch's:", three_lines(22, 1, 4, 0, 0) == list(DistributedSampler(range(22), num_replicas=4, rank=1)))

# %% [markdown]
# The picture in words: 22 samples on 4 ranks, three in a step, with a gap between steps; a draw is grey where the sample has been drawn before.
# Above, with the sampler, every sample is there once, and at the end two come again, to make 24.
# Below, with `shuffle=True`, one seed and nothing else, eight steps instead of two, and only rank 0 draws anything new.
# The other three compute the same gradients again, and the mean of four equal gradients is one of them.
#
# ## Predict
#
# 1003 samples, 4 ranks, 8 samples a step on each; `shuffle=True`, one seed, no sampler.
# Of the 32 samples in a global batch, which share are different ones, each counted once?

# %%
guess = None  # share, between 0 and 1

# %% [markdown]
# ## Run
#
# `check_sampling` is the tool of this lesson.
# Every rank gives it its loader; it draws the indices of two epochs, without loading data, puts all random generators back, and compares the ranks.

# %%
reports = {kind: launch(report, 4, kind, 1003, 8).results[0] for kind in KINDS}
for kind, found in reports.items():
    print(f"{kind}: {found}\n")

# %% [markdown]
# ## Compare

# %%
formulas = dict(zip(KINDS, (drawn("one seed", 1003, 4, 8), drawn("a seed a rank", 1003, 4, 8), None,
                            drawn("sampler", 1003, 4, 8))))
rows = [(kind, formulas[kind], reports[kind]) for kind in KINDS if formulas[kind]]
predicted_vs_measured({f"unique share, {kind}": (formula.unique_share, found.unique_share)
                       for kind, formula, found in rows}
                      | {f"steps, {kind}": (formula.num_steps, found.steps[0]) for kind, formula, found in rows}
                      | {f"draws, {kind}": (formula.num_draws, found.num_draws) for kind, formula, found in rows},
                      guess=guess)


# %% [markdown]
# With one seed a global batch has 8 different samples, not 32.
#
# `seed + rank` is a popular cure, and then batches hardly overlap, by about $(N-1)B/2S$.
# But every rank still goes through **all** samples: an "epoch" has 4012 draws and 126 steps.
# Whoever counts epochs, or lets the learning rate fall over them, trains four times as long as planned.
#
# With the sampler, `seed + rank` is worse: each rank cuts its part out of a **different** permutation.
# The parts overlap, and $(1-1/N)^N$ of the data, a third, is not seen in this epoch; and, if `set_epoch` is forgotten, never.
# One seed for the order; every rank its own slice of it.

# %% [markdown]
# **Does it matter?**
# The noise of a gradient says how large the batch really is: its variance falls as 1 over the number of different samples.
# At fixed weights, we divide the variance of the gradient of a single sample by that of a global batch.

# %%
def noise(rank, world_size, kind, batch_size, num_epochs):
    torch.manual_seed(7)
    ddp, data, squares = DDP(perceptron(16, 32, 32, 4)), regression(1003), []
    loader, before_epoch = make_loader(kind, data, batch_size, rank, world_size)
    mse_loss(ddp.module(data.tensors[0]), data.tensors[1]).backward()       # all data, no messages
    full = parameters_to_vector(p.grad for p in ddp.parameters())
    for epoch in range(num_epochs):
        before_epoch(epoch)
        for inputs, targets in loader:
            ddp.zero_grad()
            mse_loss(ddp(inputs), targets).backward()
            squares.append((parameters_to_vector(p.grad for p in ddp.parameters()) - full).square().sum())
    return torch.stack(squares).mean().item()


# %%
single = launch(noise, 1, "sampler", 1, 1).results[0]           # below: 504 or 512 steps
Table(("", "as noisy as a batch of ... samples"), tuple(
    (kind, f"{single / launch(noise, 4, kind, 8, 4 if kind.startswith('no') else 16).results[0]:.0f}") for kind in KINDS))

# %% [markdown]
# 8, and three times 32 within the scatter of so few batches.
# Four ranks without a sampler and with one seed learn as much from a step as one rank, for four times the money.
# The other loaders' **steps** are worth 32; what is wrong with two of them is the epoch.
#
# ## Predict
#
# Evaluation.
# A model gets 6 of 9 samples right.
# 4 ranks share the 9 with a `DistributedSampler(shuffle=False)`, each counts what it has right, and the counts are added up.
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
predicted_vs_measured({"DistributedSampler": (6 / 12, printed[True][0][0]),
                       "every fourth sample, unpadded": (6 / 9, printed[False][0][0])}, guess=guess,
                      notes=(f"Padded, the ranks have {[mine for _, mine in printed[True]]}.",))

# %% [markdown]
# ## Compare
#
# 9 samples do not divide by 4, so the sampler repeats samples 0, 1 and 2, and they count twice.
# Evaluate without padding, as in the second row: without gradients to exchange, ranks may have unlike numbers of samples.
#
# ## Predict
#
# Losses over **tokens**.
# Rank 0 has a sequence of 2 tokens, rank 1 one of 30; a token's loss is $w x$, with $x = 4$ on rank 0 and $x = 0$ on rank 1.
# So its gradient is $x$, and that of the mean over all tokens is $2\cdot 4/32 = 0.25$.
# Each rank takes the mean over its own tokens, and DDP the mean over ranks.
# Which gradient is that?

# %%
guess = None  # d loss / d w


# %% [markdown]
# ## Run

# %%
def token_loss(rank, world_size, weighted):
    ddp = DDP(nn.Linear(1, 1, bias=False))                # w * x
    tokens = torch.full((2, 1), 4.0) if rank == 0 else torch.zeros(30, 1)
    each = ddp(tokens)
    loss = global_mean(each.sum(), len(each)) if weighted else each.mean()
    loss.backward()
    return next(ddp.parameters()).grad.item()             # d loss / d w


gradients = {weighted: launch(token_loss, 2, weighted).results[0] for weighted in (False, True)}
predicted_vs_measured({"mean of means": ((4 + 0) / 2, gradients[False]),
                       "sum over all / tokens of all": (2 * 4 / 32, gradients[True])}, guess=guess)


# %% [markdown]
# ## Compare
#
# Eight times too large: two tokens weigh as much as thirty.
#
# The cure sends one number more.
# Each rank's **sum** is multiplied by $N$ and divided by the tokens of **all** ranks; DDP's division by $N$ then leaves the sum over all tokens over the number of all tokens.
# The same holds for a last batch that is shorter on some ranks.
# With microbatches, count those of **all** $K$ before the first backward: weighting each by itself is a mean of means again.
# (And what comes out is a loss for `backward`, not one for the log.)
#
# ## Scale it
#
# What a right script asks before its first step, and at the end:

# %%
def right_script(rank, world_size):
    torch.manual_seed(0)
    loader, before_epoch = make_loader("sampler", regression(1003), 8, rank, world_size)
    ddp = DDP(perceptron(16, 32, 32, 4))
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.2)
    planned = check_sampling(loader, before_epoch=before_epoch)
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
# Ask last before the loop: whoever draws random numbers in between, or seeds anew, changes what a loader without a sampler will give.
#
# Here is the tool on four more mistakes, and on `drop_last`, which is none.

# %%
def more(rank, world_size, mistake):
    data = range(1003)
    if mistake == "split twice":
        data = Subset(data, range(rank, 1003, world_size))      # already this rank's part
    sampler = DistributedSampler(data, world_size, rank)
    batch_size = 8 + rank if mistake == "own batch size" else 8
    loader = DataLoader(data, batch_size, sampler=sampler, drop_last=mistake == "drop_last")
    before_epoch = None if mistake == "no set_epoch" else sampler.set_epoch
    items_in = (lambda index: index % 7) if mistake == "sequences of all lengths" else None
    return check_sampling(loader, before_epoch=before_epoch, items_in=items_in)


for mistake in ("no set_epoch", "split twice", "own batch size", "sequences of all lengths", "drop_last"):
    print(f"{mistake}: {launch(more, 4, mistake).results[0]}\n")


# %% [markdown]
# `set_epoch` is the one that tutorials forget: the seed is `seed + epoch`, so without it the second epoch has the batches of the first.
#
# **Streams.**
# An `IterableDataset` has no indices and no sampler; each rank, and each of its workers, runs it from the start.
# `Stream(pick)` gives the samples that `pick(worker)` names; `identify` tells the tool which ones a batch holds.

# %%
def streamed(rank, world_size, split):
    pick = {"nobody": lambda worker: range(16), "ranks": lambda worker: range(rank, 16, world_size),
            "ranks and workers": lambda worker: range(rank, 16, world_size)[worker.id::worker.num_workers]}[split]
    loader = DataLoader(Stream(pick), 2, num_workers=2)
    return check_sampling(loader, identify=torch.Tensor.tolist, num_samples=16)


for split in ("nobody", "ranks", "ranks and workers"):
    print(f"split by {split}: {launch(streamed, 2, split).results[0]}\n")


# %% [markdown]
# The last fault is real: this stream has one order in all epochs.
#
# **What are per-rank seeds for, then?**
# For what should differ between ranks: dropout and augmentation.
# With one seed, all ranks drop the same units; `same_randomness` names the ranks whose generators are in the same state.

# %%
def masks(rank, world_size, seeds):
    torch.manual_seed(seeds[rank])
    alike = same_randomness()
    return nn.functional.dropout(torch.ones(8), 0.5).bool().int().tolist(), alike


Table(("", "mask of rank 0", "mask of rank 1", "ranks alike"), tuple(
    (name, *(str(mask) for mask, _ in found), str(found[0][1]))
    for name, found in (("one seed", launch(masks, 2, (7, 7)).results), ("seed + rank", launch(masks, 2, (7, 8)).results))))

# %% [markdown]
# So: **one** seed for the model (or a broadcast) and for the sampler; then `seed + rank` for the rest of the program.
# In this order: a later `torch.manual_seed(7)` makes all ranks alike again, and a loader without a sampler shuffles by whatever state the generator is in.
#
# By hand: samples, ranks, batch, loader.
# Each change asks real ranks.
# With 24 samples, where do the grey boxes of the sampler go?

# %% tags=["nbval-ignore-output"]
from helpers.compare.widgets import sampling_explorer

sampling_explorer(make_loader, KINDS)


# %% [markdown]
# ## Break it
#
# The sampler pads so that all ranks have equally many batches.
# What if one has one batch more?

# %%
def uneven(rank, world_size, how):
    torch.manual_seed(0)
    ddp = DistributedDataParallel(nn.Linear(4, 1))                # Join knows PyTorch's only
    batches = [torch.full((2, 4), rank + 1.0)] * (3 + rank)       # rank 1 has one more
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.01, momentum=0.9)
    with Join([ddp], enable=how == "Join"):
        for batch in batches:
            optimizer.zero_grad()
            ddp(batch).sum().backward()
            optimizer.step()
    dist.barrier()                                                # as before a checkpoint
    return len(batches), str(first_difference(ddp.module)), str(first_difference(ddp.module, optimizer))


# %% tags=["raises-exception"]
launch(uneven, 2, "plain", timeout_s=2)

# %% [markdown]
# Rank 0 is done and waits at the barrier, rank 1 waits in its fourth backward for a partner.
# (PyTorch's DDP calls all_reduce in C++, where nobody counts the calls.)
# If rank 0 reduces something next, it is worse: a tensor of the bucket's size gets rank 1's gradient added, and nobody complains; another size ends the process.
#
# `Join` lets ranks that are done answer the others' all_reduces with zeros:

# %%
launch(uneven, 2, "Join").results

# %% [markdown]
# Both finish, with equal parameters: in the end `Join` copies those of a rank that stepped last to all.
# Three warnings.
# `Join` knows DDP's collectives only: one of your own inside the block, `global_mean`'s for instance, breaks it.
# DDP keeps dividing by **all** ranks, so rank 1's last gradient is halved; `divide_by_initial_world_size=False` changes that.
# And it does not copy optimizers: rank 0's **momentum** is a step behind, and the next epoch starts from two.
#
# ## Read the helper
#
# Open `helpers/run/data_sharding/sampler.py` and `helpers/facts/data_sharding.py`.
#
# 1. Why does `_steps` draw a random number that nobody uses?
# 2. What would change if `check_sampling` did not put generators back?
#
# <details><summary>Answers</summary>
# 1. DataLoader's own iterator draws one, a seed for its workers, before the sampler shuffles; without that, a shuffling loader would be seen in another order than the one that training gets. 2. A run with the check would differ from one without, and a loader without a sampler would shuffle otherwise than was checked.
# </details>

# %% [markdown]
# ## Check yourself
#
# **1.** Two runs, with and without a `DistributedSampler`, have the same loss curve over 1000 steps. Which one has learned from more data?
#
# <details><summary>Answer</summary>
# Within the first epoch, the one with the sampler has seen N times as many different samples. A curve over steps of a noisy loss does not show it early; it may show in the end, as a better validation loss, or as overfitting of the other.
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
# **3.** 10 samples on 4 ranks, unpadded: 3, 3, 2 and 2. Each rank uses the mean over its own. Which samples weigh more, and by how much?
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
# **Sources.** PyTorch documentation, `DistributedSampler`, `IterableDataset`, and "Distributed Training with Uneven Inputs Using the Join Context Manager". On seeds and masks: issues transformers #37932, detr #297, nanoGPT #22; on means over tokens: transformers #34191.
#
# **Exercises:** `exercises/04_data_sharding/04_data_sharding.ipynb`.
