# %% [markdown]
# # 06 FSDP
#
# You will be able to cut a model into FSDP units, foretell what a step sends and the most that it holds, choose `reshard_after_forward` and dtypes by numbers, and avoid the mistakes that nothing warns you of.
#
# **75 minutes.** Needs lessons 01, 03 and 05. A good place for a break is before the second "Predict".
#
# [Open in Binder](https://mybinder.org/v2/gh/your-name/training-parallelism/HEAD?urlpath=lab/tree/notebooks/06_fsdp.ipynb) ·
# [Open in Colab](https://colab.research.google.com/github/your-name/training-parallelism/blob/main/notebooks/06_fsdp.ipynb)

# %% [markdown]
# ## Setup

# %%
import importlib.util

if not importlib.util.find_spec("helpers"):  # on Colab
    get_ipython().run_line_magic(
        "pip", "install -q --no-deps git+https://github.com/your-name/training-parallelism")

from collections import Counter

import torch
import torch.distributed as dist
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import clip_grad_norm_, get_total_norm

from helpers.compare.plots import memory_bars, step_curves
from helpers.compare.table import Table, predicted_vs_measured
from helpers.facts.units import MB, MiB
from helpers.predict.fsdp import Sharding, num_collectives, passing_bytes, peak_parts, step_bytes_sent
from helpers.run.data_sharding import part_of_batch
from helpers.run.fsdp import shard, typical_peak, watch_steps
from helpers.run.launch import launch, warm_up
from helpers.run.measure.memory_limit import limit_memory
from helpers.run.measure.meters import wire
from helpers.run.models import mlp, regression

warm_up()


# %% [markdown]
# ## Question
#
# 16 layers with one 1024 by 1024 matrix each: 64 MiB of parameters, and with Adam 256 MiB of state.
# Lesson 01 says that FSDP on 4 ranks brings this to 64 MiB a rank.
# Our cards have 140 MiB, so there is plenty of room, and `fully_shard(model)` is one line.

# %% tags=["raises-exception"]
def train(rank, world_size, wrap, card_bytes=140 * MiB):
    limit_memory(card_bytes)
    torch.manual_seed(0)
    model = wrap(mlp(width=1024, depth=16))
    optimizer = torch.optim.Adam(model.parameters())
    dist.barrier()                                          # all ranks have their model
    for _ in range(3):
        loss = model(torch.ones(4, 1024)).sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return "trained"


launch(train, 4, fully_shard)

# %% [markdown]
# All four die in their first forward, asking for 67,108,864 bytes: the **whole** model at one time.
# It is their second request of that kind: the model arrives as one message, and is unpacked into matrices.
# With the shard, $16 + 64 + 64$ MiB.
#
# ## Idea
#
# This is stage 3 of lesson 05, in PyTorch's hands: what one `fully_shard` takes is a **unit**.
# It is all-gathered, used, and thrown away (*resharded*), in forward and again in backward; then its gradients are reduce-scattered.
# The outermost unit, the *root*, stays after forward, unless told otherwise.
#
# Each parameter becomes a `DTensor`: `.to_local()` gives this rank's shard, `.full_tensor()` gathers.
#
# | symbol | is | here |
# |---|---|---|
# | $N$ | ranks | 4 |
# | $P$ | parameters | 16 Mi, that is 64 MiB |
# | $K$ | units of equal size | 16, or 1 |
# | $u$ | bytes of a unit's parameters, $4P/K$ | 4 MiB, or 64 MiB |
#
# $$ \text{all-gathers} = 2K, \qquad \text{reduce-scatters} = K, \qquad \text{gathered at once} \propto u $$
#
# The fullest moment of a step if the whole model is one unit, as computed:

# %%
P = 16 * 1024**2
one_unit = {f"1 unit, {n} ranks": peak_parts(Sharding(P, 1, n, tensors_a_unit=16)) for n in (2, 4, 8)}
axes = memory_bars(one_unit, unit="MiB", limit_bytes=140 * MiB, limit_name="card")

# %% [markdown]
# The picture in words: each bar begins with shards of parameters and of Adam's state, which halve when ranks double.
# What follows comes and goes within a step: whole gradients, messages (what is gathered or reduced, in one piece), and shards of gradients.
# It does not shrink with ranks, and alone it is more than the card's 140 MiB.
#
# ## Predict
#
# Take 4 ranks and a unit for each block, 4 MiB.
# In its fullest moment, how many MiB does a rank hold **beside** its shards of parameters and Adam's state?

# %%
guess = None  # MiB


# %% [markdown]
# ## Run
#
# `shard(model, K)` calls `fully_shard` on each group of blocks, then on the model.
# `watch_steps` trains, and asks the kernel after each block's forward and backward for the most memory since it asked last.
# The batch is one sample, so activations weigh nothing.

# %%
def watch(rank, world_size, num_units, **options):
    return watch_steps(shard(mlp(width=1024, depth=16), num_units, **options), width=1024)


runs = {k: launch(watch, 4, k) for k in (16, 4, 1)}
axes = step_curves({f"{k} unit{'s' * (k > 1)}": run.results[0] for k, run in runs.items()})


# %% [markdown]
# The picture in words: left of the line is forward, right of it backward.
# With 16 units the line is low: 12 MiB in forward, then 17, climbing to 31 as shards of gradients stay.
# With 4 units of 16 MiB it jumps whenever a unit arrives, up to 72.
# With one unit, the model is there twice in forward (as a message, and unpacked), and backward ends with the highest peak, when all gradients are packed into one message.
#
# ## Compare

# %% tags=["nbval-ignore-output"]
def peak(run):
    return round(typical_peak(run.results) / MiB)


predicted_vs_measured({f"{k} unit{'s' * (k > 1)}": (passing_bytes(Sharding(P, k, 4, tensors_a_unit=16 // k)) / MiB,
                       peak(run)) for k, run in runs.items()}, guess=guess, unit="whole MiB")


# %% [markdown]
# 31 MiB, where "one gathered unit" would be 4.
# At the worst moment **four** unit-sized pieces live: the next unit, gathered ahead (*prefetched*) so that it need not be waited for; the gradient of this one; the message into which it is packed; gloo's copy of that message.
# To them come 15 shards of gradients, 1 MiB each.
#
# | units | the fullest moment is in | beside the shards |
# |---|---|---|
# | $K > 1$, of one matrix each | backward of the second block | $4u + (K-1)\,u/N$ |
# | $K = 1$, of $T$ matrices | the end of backward | $2u + u/T + u/N$ |
#
# (Units of several matrices let go of gradients earlier, so with 4 units it is 72 and not 76.
# The last copy is gloo's own. NCCL, and a GPU's allocator, which keeps what is freed, are not measured here.)
#
# The price of small units is messages.

# %%
def one_step(rank, world_size, num_units, **options):
    model = shard(mlp(width=1024, depth=16), num_units, **options)
    with wire() as sent:
        model(torch.ones(1, 1024)).sum().backward()
    return sent.sent


rows, steps = {}, {k: launch(one_step, 4, k, reshard_after_forward=True) for k in (16, 1)}
for k, run in steps.items():
    counted = Counter(span.kind for span in run.trace if span.rank == 0)
    for name, count in num_collectives(Sharding(P, k, 4)).items():
        rows[f"{k} unit{'s' * (k > 1)}: {name}s"] = count, counted[f"{name}_single"]
predicted_vs_measured(rows)

# %% [markdown]
# The bytes are the same, in 48 messages or in 3.
# Each message costs a latency (lesson 02); but if the model is one unit, there is nothing to compute while it travels.
# So a unit is usually one transformer block, not one matrix and not the model.
#
# The same cards as in the question, with a unit for each block:

# %%
by_units = {f"{k} units, {n} ranks": peak_parts(Sharding(P, k, n, tensors_a_unit=16 // k))
            for k in (16, 4) for n in (2, 4)}
axes = memory_bars(by_units, unit="MiB", limit_bytes=140 * MiB, limit_name="card")
launch(train, 4, lambda model: shard(model, 16)).results

# %% [markdown]
# The picture in words: with 16 units, nearly all of each bar is shards, which halve from 2 to 4 ranks; on 4 ranks it is 79 MiB in all.
# It trains.
# On 2 ranks it would be 142, just too much.
#
# ## Predict
#
# `reshard_after_forward=False` keeps a unit after forward, so backward need not gather it again.
# First with resharding, 16 units on 4 ranks: how many MB does each rank send in a step?
# The parameters are 67.1 MB.
# (Mind gloo: its reduce-scatter sends what an all-reduce sends.)

# %%
guess = None  # MB


# %% [markdown]
# ## Run

# %%
def without_root(rank, world_size):
    model = mlp(width=1024, depth=16)
    for block in model:
        fully_shard(block)
    return watch_steps(model, width=1024)


modes = {"reshard": Sharding(P, 16, 4), "keep": Sharding(P, 16, 4, reshard=False)}
sent = {"reshard": steps[16].results[0], "keep": launch(one_step, 4, 16, reshard_after_forward=False).results[0]}
held = {"reshard": runs[16], "keep": launch(watch, 4, 16, reshard_after_forward=False),
        "no root": launch(without_root, 4)}
axes = step_curves({name: run.results[0] for name, run in held.items()})

# %% [markdown]
# The picture in words: with resharding the line stays low.
# If units are kept, each block of forward adds its 4 MiB until the whole model is there, and backward takes it away again.
# The third line is a fault, of which below.
#
# ## Compare

# %% tags=["nbval-ignore-output"]
rows = {f"{name}: MB sent": (step_bytes_sent(way, gloo=True) / MB, sent[name] / MB) for name, way in modes.items()}
rows |= {f"{name}: whole MiB beside the shards": (passing_bytes(way) / MiB, peak(held[name]))
         for name, way in modes.items()}
predicted_vs_measured(rows, guess=guess, notes=(f"No root: {round(typical_peak(held['no root'].results) / MiB)} whole MiB.",))

# %% [markdown]
# On gloo that is $1 + 1 + 2$ times $4P(N-1)/N$ bytes, and $1 + 2$ if kept.
# Where a reduce-scatter sends what it must, it is 3 against 2.
# Keeping saves a quarter here, a third there, and costs 42 MiB: the whole model is alive, at a moment with few shards of gradients.
#
# The default is **on** for units and **off** for the root.
# Without `fully_shard(model)` at the end, **every block is a root**, and keeps its parameters until backward is over: nearly three times the memory, and no warning.
#
# ## Predict
#
# A `MixedPrecisionPolicy` has a `param_dtype`, to gather and compute in, and a `reduce_dtype` for gradients.
# Instead of 201.3 MB, how many are sent with bf16 and fp32?

# %%
guess = None  # MB


# %% [markdown]
# ## Run

# %%
def mixed(rank, world_size, policy):
    model = shard(mlp(width=1024, depth=16), 16, reshard_after_forward=True, mp_policy=policy)
    optimizer = torch.optim.Adam(model.parameters())
    with wire() as sent:
        output = model(torch.ones(1, 1024))
        output.sum().backward()
    optimizer.step()
    weight = next(model.parameters())
    found = {"output": output, "parameter": weight, "gradient": weight.grad, "momentum": optimizer.state[weight]["exp_avg"]}
    return sent.sent, ", ".join(f"{name} {tensor.dtype}" for name, tensor in found.items())


policies = {("bf16", "fp32"): MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32),
            ("bf16", "bf16"): MixedPrecisionPolicy(param_dtype=torch.bfloat16)}
mixes = {dtypes: launch(mixed, 4, policy).results[0] for dtypes, policy in policies.items()}

# %% [markdown]
# ## Compare

# %%
predicted_vs_measured({" gathered, reduced in ".join(dtypes): (
    step_bytes_sent(Sharding(P, 16, 4, param_dtype=dtypes[0], reduce_dtype=dtypes[1]), gloo=True), sent)
    for dtypes, (sent, _) in mixes.items()}, guess=guess, unit="MB",
    notes=tuple(f"{dtypes[0]}, {dtypes[1]}: {found}" for dtypes, (_, found) in mixes.items()))

# %% [markdown]
# The policy changes what **travels** and what is computed with.
# The shards stay fp32, all of them: the sharded parameter **is** the master copy of lesson 01, so the state is $16P/N$ with or without the policy.
#
# Reducing in fp32 costs half of the saving on gloo (a third where a reduce-scatter sends what it must), and keeps the sum over ranks exact to fp32; with many ranks that is the usual choice.
#
# **Is it the same training?**
# One process takes 20 batches of 32 with Adam; four ranks take 8 samples of each.
# In the last row the optimizer is built **before** sharding.

# %%
x, y = regression(20 * 32, num_targets=16).tensors


def trained(rank, world_size, num_units, early=False, **options):
    torch.manual_seed(7)
    model = mlp(width=16, depth=4)
    optimizer = torch.optim.Adam(model.parameters(), 0.01) if early else None
    model = shard(model, num_units, **options) if num_units else model
    optimizer = optimizer or torch.optim.Adam(model.parameters(), 0.01)
    mine, start = part_of_batch(32, rank, world_size), mse_loss(model(x), y).item()
    for inputs, targets in zip(x.split(32), y.split(32)):
        optimizer.zero_grad()
        mse_loss(model(inputs[mine]), targets[mine]).backward()
        optimizer.step()
    weights = [p.full_tensor() if num_units else p.detach() for p in model.parameters()]
    return torch.stack(weights), start, mse_loss(model(x), y).item()


# %%
alone = launch(trained, 1, 0).results[0]
options = {"4 units": {}, "2 units": {"num_units": 2}, "kept": {"reshard_after_forward": False},
           "bf16, reduced in fp32": {"mp_policy": policies["bf16", "fp32"]}, "optimizer first": {"early": True}}
found = {"one process": alone}
found |= {name: launch(trained, 4, **{"num_units": 4} | option).results[0] for name, option in options.items()}
rows = []
for name, (weights, start, end) in found.items():
    rows.append((name, f"{start:.3f}", f"{end:.3f}", str(((weights - alone[0]).abs().max() < 1e-6).item())))
Table(("after 20 steps on 4 ranks", "loss before", "loss after", "within 1e-6 of one process"), tuple(rows))


# %% [markdown]
# However it is cut and kept, FSDP in fp32 is the same training.
# bf16 is another one, near it.
#
# And an optimizer that is built first trains **nothing**: `fully_shard` replaces the parameters by sharded ones, and the optimizer has the old ones, which never get a gradient.
# Shard first, then build the optimizer.
#
# **Clipping.**
# The norm to clip by is that of the whole gradient; a rank sees a shard of it.

# %%
def clipped(rank, world_size):
    torch.manual_seed(7)
    model = mlp(width=16, depth=4)
    model = shard(model, 4) if world_size > 1 else model
    mse_loss(model(x), y).backward()
    shards = [p.grad.to_local() if world_size > 1 else p.grad for p in model.parameters()]
    own, norm = get_total_norm(shards).item(), clip_grad_norm_(model.parameters(), 0.01)
    return type(norm).__name__, (norm.full_tensor() if world_size > 1 else norm).item(), own


Table(("", "clip_grad_norm_ returns a", "norm", "norm of what the rank holds"), tuple(
    (f"rank {rank} of {n}", kind, f"{norm:.4f}", f"{own:.4f}")
    for n in (1, 4) for rank, (kind, norm, own) in enumerate(launch(clipped, n).results)))

# %% [markdown]
# `clip_grad_norm_` gives all ranks the norm of one process, as a `DTensor`; `.full_tensor()` makes it plain.
# The norm of what a rank holds would scale each shard by its own factor, silently.
#
# ## Scale it
#
# **Names.**
#
# | sharded | ZeRO stage | FSDP1, `ShardingStrategy` | FSDP2, `fully_shard` |
# |---|---|---|---|
# | nothing | 0 | `NO_SHARD`, which is DDP | (DDP) |
# | optimizer | 1, `ZeroRedundancyOptimizer` | | |
# | and gradients | 2 | `SHARD_GRAD_OP` | `reshard_after_forward=False` |
# | and parameters | 3 | `FULL_SHARD` | `reshard_after_forward=True` |
# | 3 within a node, copies across nodes | | `HYBRID_SHARD` | a mesh of two axes |
#
# (FSDP stores sharded parameters at stage 2, too, and gathers them once a step.)
#
# The last row on two nodes of two ranks: each holds half of the model and sends $2.5 \cdot 4P$ bytes on gloo instead of $3 \cdot 4P$.
# Gathers and a reduction stay inside a node ($2 \cdot \frac12 + 1$); only an all-reduce of shards, $\frac12$, crosses, where links are slow.
#
# **By hand:** our 16 blocks, then Llama 3.1 70B on 64 ranks and cards of 80 GB.
# What fits?

# %% tags=["nbval-ignore-output"]
from helpers.compare.widgets import fsdp_explorer

fsdp_explorer()


# %% [markdown]
# <details><summary>What you should have seen</summary>
# Llama in fp32 fits with resharding, one block or two a unit; kept, or as one unit, never.
# </details>
#
# ## Break it
#
# **The same card, another death.**
# DDP on the cards of the question: with 4 ranks, then you may try 2, or 8.

# %% tags=["raises-exception"]
def ddp(model):
    return DistributedDataParallel(model, init_sync=False)  # all have one seed; a broadcast would need 64 MiB more


launch(train, 4, ddp)


# %% [markdown]
# In backward, and no number of ranks helps: 64 MiB of parameters, 64 of buckets, and then gradients, 4 MiB at a time, until the card is full.
#
# **A checkpoint by rank 0.**
# In DDP rank 0 saves while the others go on.
# Here rank 0 has a quarter of each matrix, so it must ask the others.

# %% tags=["raises-exception"]
def save(rank, world_size, who):
    model, state = shard(mlp(width=64, depth=4), 4), {}
    model(torch.ones(1, 64)).sum().backward()
    if rank in who:
        state = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
    dist.barrier()                                          # as before the next epoch
    return {name: tuple(tensor.shape) for name, tensor in state.items()}


launch(save, 2, who={0}, timeout_s=2)

# %% [markdown]
# Rank 0 gathers, rank 1 waits elsewhere: a hang.
# (The calls of `get_model_state_dict` are inside PyTorch, where nobody counts: rank 0 is still said to be past its last reduce-scatter.)
# **All ranks call it**; what the options say is that only rank 0 keeps the result, on the CPU.

# %%
launch(save, 2, who={0, 1}).results

# %% [markdown]
# `model.state_dict()` on rank 0 alone does not hang, and is worse: a file with rank 0's shards only.
#
# ## Read the helper
#
# Open `helpers/predict/fsdp.py`, and in it `_reducing`.
#
# 1. `waiting` is how many units are gathered while gradients are reduced. Why is it 1 with resharding, and which option makes it more?
# 2. Why is `message` twice the unit's gradients, and which half would a backend without that copy save?
#
# <details><summary>Answers</summary>
# 1. The next unit is prefetched while this one is reduced, and all others are thrown away. <code>reshard_after_forward=False</code> keeps all that backward has not reached. 2. Gradients are packed into one flat message, and gloo copies it to reduce it; the second half.
# </details>

# %% [markdown]
# ## Check yourself
#
# **1.** "We are on FSDP, so memory goes down as we add ranks." From 64 to 128 ranks it hardly did. What do you look at?
#
# <details><summary>Answer</summary>
# At what does not shrink with N: a few units, gathered and as messages, and activations. Smaller units and a smaller batch on each rank help; ranks do not. A model wrapped at the root only never had much to gain.
# </details>
# <br>
#
# **2.** A forward of your model calls `block.attend(x)` instead of `block(x)`, and fails with "got mixed torch.Tensor and DTensor". Why?
#
# <details><summary>Answer</summary>
# Units are gathered by hooks around forward. Another method finds shards, which are DTensors. Go through forward, or name the method with register_fsdp_forward_method(block, "attend").
# </details>
# <br>
#
# **3.** Is "mixed precision halves FSDP's memory" right?
#
# <details><summary>Answer</summary>
# No, a common misconception. Shards of parameters, gradients and Adam's state stay fp32, 16P/N. What is gathered and sent in bf16 halves, and so do activations.
# </details>

# %% [markdown]
# ## Recap
#
# FSDP gathers a unit before it is used and throws it away afterwards, so the peak of a step is shards and about four units, whatever the model's size.
# `reshard_after_forward=False` trades memory, up to a whole model, for one all-gather of it in each step; a policy of dtypes changes what travels, not what is kept.
# In fp32 it is one process's training, if the optimizer comes after sharding.
#
# **Pitfalls.** Only the root wrapped, or the root forgotten. Optimizer before sharding. Norms of shards. A state dict on one rank, or `torch.save` of shards as if they were the model. Methods that go around forward. A module that only some ranks call: its all-gather waits for all.
#
# **Sources.** Zhao et al., "PyTorch FSDP", arXiv:2304.11277, sections 3 and 4. Rajbhandari et al., "ZeRO", arXiv:1910.02054, sections 5 and 7. PyTorch documentation, `fully_shard`, `MixedPrecisionPolicy`, `ShardingStrategy`, `get_model_state_dict`. Llama 3, arXiv:2407.21783, table 3.
#
# **Exercises:** `exercises/06_fsdp/06_fsdp.ipynb`.
