# %% [markdown]
# # 01 Memory
#
# You will be able to say what a model's training state weighs on each rank, term by term, under DDP and under each stage of ZeRO, and to check it on real ranks.
#
# **60 minutes.** Needs lesson 00 and an idea of what Adam does.
#
# [Open in Binder](https://mybinder.org/v2/gh/your-name/training-parallelism/HEAD?urlpath=lab/tree/notebooks/01_memory.ipynb) ·
# [Open in Colab](https://colab.research.google.com/github/your-name/training-parallelism/blob/main/notebooks/01_memory.ipynb)

# %% [markdown]
# ## Setup

# %%
import importlib.util

if not importlib.util.find_spec("helpers"):  # on Colab
    get_ipython().run_line_magic(
        "pip", "install -q --no-deps git+https://github.com/your-name/training-parallelism")

import torch
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from helpers.compare.plots import memory_bars
from helpers.compare.table import predicted_vs_measured, savings_table, state_table
from helpers.facts import specs
from helpers.facts.units import GB, MiB, in_unit
from helpers.predict.memory import (RECIPES, buffer_bytes, recipe, smallest_ranks,
                                    state_by_term, state_bytes)
from helpers.run.launch import launch, warm_up
from helpers.run.measure.memory_limit import limit_memory
from helpers.run.measure.meters import memory
from helpers.run.models import mlp

warm_up()

# %% [markdown]
# ## Question
#
# A model of 70 billion parameters takes 1,120 GB to train with Adam in mixed precision.
# Your cards have 80 GB each, and you may have a thousand of them.
#
# With DDP, the first thing most people reach for, it does not train on a thousand cards either: **each** of them needs 1,120 GB.
# Why does DDP save nothing, what does, and how few cards are enough?

# %% [markdown]
# ## Idea
#
# Two wishes are easily confused: to go **faster**, and to **fit**.
#
# Think of examiners with a thick book of answers.
# DDP gives each examiner a whole copy and a share of the papers: more papers an hour, but whoever has a small desk still cannot open the book.
# ZeRO, and PyTorch's FSDP, cut the book into chapters: each desk holds one, and a chapter is lent out for the minute in which it is needed.
#
# So DDP splits the **batch** and keeps a full copy of the model on every rank; FSDP splits the **state** as well.

# %% [markdown]
# The state of one parameter under mixed-precision Adam:
#
# | term | dtype | bytes | sharded from stage |
# |---|---|---|---|
# | parameter, for forward and backward | bf16 | 2 | 3 |
# | gradient | bf16 | 2 | 2 |
# | master, the copy that Adam updates | fp32 | 4 | 1 |
# | momentum | fp32 | 4 | 1 |
# | variance | fp32 | 4 | 1 |
# | **sum** | | **16** | |
#
# With $P$ parameters on $N$ ranks, each rank holds
#
# $$ \sum_\text{terms} P \cdot b_\text{term} \cdot \begin{cases} 1/N & \text{from the term's stage on}\\ 1 & \text{before}\end{cases} \quad\text{bytes.} $$
#
# Stage 0 is DDP: $16P$, whatever $N$ is. Stage 1 is $4P + 12P/N$, stage 2 is $2P + 14P/N$, stage 3 is $16P/N$.
#
# Here are 70 billion parameters on 64 ranks, beside a card of 80 GB, and 13 billion on 16.

# %%
STAGES = {"DDP": 0, "ZeRO-1": 1, "ZeRO-2": 2, "ZeRO-3": 3}
on_16 = {f"13B on 16, {name}": state_by_term(13e9, 16, stage) for name, stage in STAGES.items()}
on_64 = {f"70B on 64, {name}": state_by_term(70e9, 64, stage) for name, stage in STAGES.items()}
axes = memory_bars(on_64, limit_bytes=80 * GB, limit_name="80 GB")
state_table(on_64 | on_16)

# %% [markdown]
# The picture in words: DDP's bar is 1,120 GB long.
# Stage 1 makes three colours small (master, momentum, variance), stage 2 the gradient as well, and both keep 140 GB of parameters on every rank, more than the card.
# Stage 3 makes all of them small: 17.5 GB.
#
# DDP's bar would be as long on a thousand ranks.

# %% [markdown]
# ## Predict
#
# A formula is a claim.
# Let us train a small model for one step: ten matrices of 1024 by 1024, 40 MiB of parameters, in fp32 with Adam.
# That is again 16 bytes a parameter: 4 each for parameter, gradient, momentum and variance.
#
# How many MiB of tensors does **each rank** hold after one step of DDP on 4 ranks?

# %%
guess = None  # MiB


# %% [markdown]
# ## Run
#
# `memory()` measures by how much a rank grows, in two ways: the tensors that Python can reach, and the private memory that the system's kernel has given to the process.
# Both are read when its block ends.

# %%
def train(rank, world_size, how):
    with memory() as grown:
        model = mlp(width=1024, depth=10)
        if how == "DDP":
            model = DistributedDataParallel(model)
        if how == "FSDP":
            for block in model:
                fully_shard(block)
            fully_shard(model)
        optimizer = torch.optim.Adam(model.parameters())
        model(torch.randn(4, 1024)).sum().backward()
        optimizer.step()
    return grown


ddp = {n: launch(train, n, "DDP").memory[0] for n in (4, 2, 1)}

# %% [markdown]
# ## Compare

# %%
P, fp32 = 10 * 1024**2, recipe("fp32")
predicted_vs_measured({f"DDP, N = {n}": (state_bytes(P, n, 0, fp32), ddp[n].tensors) for n in ddp},
                      guess=guess, unit="MiB")

# %% [markdown]
# The same on 1, 2 and 4 ranks: DDP saves nothing.
# (In bytes it is 40 more: Adam keeps a step counter of 4 bytes for each of the ten matrices.)
# Now the kernel's view, which also holds what C++ keeps out of Python's sight.

# %% tags=["nbval-ignore-output"]
state, buckets = state_bytes(P, 1, 0, fp32), buffer_bytes(P, 0, 0, fp32)
predicted_vs_measured({f"DDP, N = {n}": (state + buckets, ddp[n].private) for n in ddp}, unit="MiB")

# %% [markdown]
# The formula here has 40 MiB more than the tensors: DDP collects gradients in **buckets** before it reduces them, a second copy of all gradients.
# `gradient_as_bucket_view=True` makes the gradients live in the buckets, and saves it.
# What is left, 1 to 3 MiB, is there whatever the model: threads, sockets, code that ran for the first time.

# %% [markdown]
# ## Predict
#
# The same step under FSDP2, PyTorch's stage 3.
# How many MiB of tensors does each of **4 ranks** hold after it?

# %%
guess = None  # MiB

# %% [markdown]
# ## Run

# %%
fsdp = {n: launch(train, n, "FSDP").memory[0] for n in (4, 2, 1)}
bars = {f"{how}, N = {n}": {"tensors": grown.tensors, "other": max(0, grown.private - grown.tensors)}
        for how, runs in (("DDP", ddp), ("FSDP", fsdp)) for n, grown in runs.items()}
axes = memory_bars(bars, unit="MiB")

# %% [markdown]
# The picture in words: the three bars of DDP are equally long; those of FSDP halve each time the ranks double.
#
# ## Compare

# %%
predicted_vs_measured({f"FSDP, N = {n}": (state_bytes(P, n, 3, fp32), fsdp[n].tensors) for n in fsdp},
                      guess=guess, unit="MiB")

# %% tags=["nbval-ignore-output"]
predicted_vs_measured({f"FSDP, N = {n}": (state_bytes(P, n, 3, fp32), fsdp[n].private) for n in fsdp},
                      unit="MiB")

# %% [markdown]
# $16P/N$, but for a few hundred bytes.
# (On 3 ranks the shares would differ by 0.3 %: 1024 rows do not divide by 3.)
# The kernel counts a few MiB more, which do not shrink with $N$.
#
# During the step there is more: FSDP gathers what was sharded as one unit, one block of 4 MiB here, and frees it afterwards.
# That is why each block got its own `fully_shard`: a model that is one unit is gathered whole.
#
# CPU ranks do not show a GPU's allocator, which keeps freed memory, nor CUDA's own memory.
# And activations are missing so far: what forward keeps for backward grows with the batch, and no stage shards it.

# %% [markdown]
# ## Scale it
#
# **How much can a stage save at all?**
# "ZeRO-1 saves 4x, ZeRO-2 8x, ZeRO-3 Nx" is said often.
# Here is DDP's memory divided by each stage's.

# %%
savings_table((1, 8, 64, 1024))

# %% [markdown]
# 4x and 8x are limits for large $N$: at 8 ranks it is 2.91x and 4.27x.
# What a stage does not shard is a **floor**: $4P$ stays in stage 1 and $2P$ in stage 2, however many ranks there are.
# With 8 ranks, stage 1 leaves $5.5P$ of $16P$, a drop of 65.6 %.
#
# **Which ledger?**
# One text says that 70 billion parameters on 8 ranks under stage 3 take 105 GB, another says 140 GB.
# And mixed precision is said to take a 7B model from 112 GB to 84 GB.
# All four can be computed.

# %%
ledgers = {f"70B on 8: {name}, {kept.bytes_per_param}P": state_by_term(70e9, 8, 3, kept)
           for name, kept in RECIPES.items()}
ledgers |= {f"7B on 1: {name}": state_by_term(7e9, recipe=recipe(name))
            for name in ("fp32", "mixed", "mixed, no master")}
state_table(ledgers)

# %% [markdown]
# 140 GB has the fp32 master copy; 105 GB forgot it.
# Adam's two moments alone are 8P, 560 GB over all 8 ranks.
#
# With a master copy, mixed precision saves **nothing** in model state: 16P before and after.
# It is worth it for speed and for activations.
# 84 GB is training without a master copy, which is another decision.
# So never ask only "how many bytes per parameter", ask **which terms**.
#
# **GB or GiB?**
# Papers count 1 GB = $10^9$ bytes; a "24 GB" card has 24 GiB = $24 \cdot 2^{30}$ bytes, 7.4 % more.
# Here is the first table in GiB, the unit of `nvidia-smi` and of the explorer below; the other tables are in GB.

# %%
state_table(on_64 | on_16, unit="GiB")

# %% [markdown]
# **How few ranks are enough** for 30 billion parameters on cards of 40 GB, under stage 3?
# It depends on the ledger.

# %%
{name: smallest_ranks(30e9, 40 * GB, zero_stage=3, recipe=recipe(name))
 for name in ("mixed", "mixed, fp32 gradients", "mixed, no master")}

# %% [markdown]
# **What does a step need beside the state?**
# Stage 3 gathers the parameters of a layer and makes its full gradient before it is reduced.
# Llama 3.1 70B on 64 ranks: state, then the buffers for one of its 80 blocks.

# %%
llama = specs.model("Llama 3.1 70B")
(in_unit(state_bytes(llama.num_params, 64, 3), "GB"),
 in_unit(buffer_bytes(llama.num_params, 3, llama.block_params), "GB"))

# %% [markdown]
# **What does a stage cost in messages?**
# DDP's all-reduce moves $2P$ elements a step, times $(N-1)/N$.
# ZeRO-1 and ZeRO-2 do it in two halves, with the optimizer's step between them: the same $2P$.
# Stage 3 gathers the parameters for forward and again for backward, and reduces gradients: $3P$.
# Two implementations move more: gloo's reduce-scatter as much as an all-reduce, so stage 3 shows $4P$; and PyTorch's `ZeroRedundancyOptimizer` beside DDP $3P$, since it hands parameters out after DDP's whole all-reduce.
#
# | | DDP | ZeRO-1 | ZeRO-2 | ZeRO-3 |
# |---|---|---|---|---|
# | shards | nothing | optimizer | and gradients | and parameters |
# | bytes a rank | $16P$ | $4P+12P/N$ | $2P+14P/N$ | $16P/N$ |
# | elements moved | $2P$ | $2P$ | $2P$ | $3P$ |
# | PyTorch | `DistributedDataParallel` | `ZeroRedundancyOptimizer` | `SHARD_GRAD_OP` | `FULL_SHARD` |
# | `fully_shard` with `reshard_after_forward` | | | off | on |
# | take it when | it fits | the optimizer is too much | gradients too | nothing else fits |

# %% [markdown]
# Now by hand: choose a model, a recipe, a stage, a card, and move the number of ranks.
# With the keyboard, Space opens a list.
# The sentence says what the picture shows.

# %% tags=["nbval-ignore-output"]
from helpers.compare.widgets import memory_explorer

memory_explorer()


# %% [markdown]
# ## Break it
#
# `limit_memory` gives each rank a small memory of its own; beyond it, torch fails as it does on a full card.
# On two ranks the model needs 160 MiB of state and 40 of buckets under DDP, 80 MiB and a few under FSDP.
# Let the card have 150 MiB.

# %% tags=["raises-exception"]
def on_a_small_card(rank, world_size, how):
    limit_memory(150 * MiB)
    return train(rank, world_size, how)


launch(on_a_small_card, 2, "DDP")

# %% [markdown]
# Look at the line: it is `optimizer.step()`, not the model, not the backward pass.
# Adam makes momentum and variance at its first step, so a job that "starts fine" can die there.
#
# The same ranks with the same cards, and sharded:

# %%
[in_unit(grown.tensors, "MiB") for grown in launch(on_a_small_card, 2, "FSDP").results]

# %% [markdown]
# ## Read the helper
#
# Open `helpers/predict/memory.py`, and in it `state_by_term` and the table `SHARDED_FROM` that it uses.
#
# 1. Which entry of `SHARDED_FROM` makes DDP independent of the number of ranks?
# 2. `smallest_ranks` refuses stage 1 and 13 billion parameters on 24 GB. Which line finds that out, without trying any number of ranks?
#
# <details><summary>Answers</summary>
# 1. None: every term is sharded from stage 1, 2 or 3 on, and DDP is stage 0. 2. The one that compares the replicated part, here 4P = 52 GB, with the budget: no number of ranks makes it smaller.
# </details>

# %% [markdown]
# ## Check yourself
#
# **1.** You have 4 cards with 80 GB, and a model that trains on one of them with 60 GB of state. You want it faster. DDP or FSDP?
#
# <details><summary>Answer</summary>
# DDP. It fits, so split the batch. FSDP would move 3P elements a step instead of 2P for memory that you do not need.
# </details>
# <br>
#
# **2.** The state is 140 GB on 8 ranks, the cards have 80 GB. Somebody says: turn on activation checkpointing. Does it fit then?
#
# <details><summary>Answer</summary>
# No. Activation checkpointing keeps less of what forward leaves for backward, and computes it again; state stays as it is. 16 ranks bring the state to 70 GB, and leave 10 GB for all else.
# </details>
# <br>
#
# **3.** Is "ZeRO-1 makes a step slower, since it communicates more than DDP" right?
#
# <details><summary>Answer</summary>
# No, a common misconception. DDP's all-reduce is a reduce-scatter and an all-gather; ZeRO-1 does the same two, with the optimizer step between them: 2P elements either way. Only stage 3 moves more: 3P.
# </details>

# %% [markdown]
# ## Recap
#
# DDP splits the batch and copies the state: $16P$ on every rank, on one card or a thousand.
# ZeRO shards the state in three stages, each with a floor, until stage 3 holds $16P/N$, on real ranks, too.
# A figure such as "16 bytes per parameter" is a choice of terms and dtypes, and a budget has room left for buffers and activations or it is none.
#
# **Pitfalls.** Leaving out the master copy. Mixing GB and GiB. Sharding a model as one unit. Filling the card to the last byte with state.
#
# **Sources.** Rajbhandari et al., "ZeRO", arXiv:1910.02054, sections 3 and 5. Megatron-LM, `distrib_optimizer.md`, for ledgers of 16, 18 and 20 bytes. PyTorch documentation, `fully_shard` and `DistributedDataParallel`. Llama 3, arXiv:2407.21783, table 3.
#
# **Exercises:** `exercises/01_memory/01_memory.ipynb`.
