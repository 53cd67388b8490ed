# %% [markdown]
# # 05 ZeRO
#
# You will be able to build stage 1 of ZeRO from a flat tensor and a ring, read the code of the other two, foretell what each stage keeps and sends on every rank, and see what is alive at each moment of a step.
#
# **70 minutes.** Needs lessons 01 and 03, and the ring of lesson 02.
#
# [Open in Binder](https://mybinder.org/v2/gh/your-name/training-parallelism/HEAD?urlpath=lab/tree/notebooks/05_zero.ipynb) ·
# [Open in Colab](https://colab.research.google.com/github/your-name/training-parallelism/blob/main/notebooks/05_zero.ipynb)

# %% [markdown]
# ## Setup

# %%
import importlib.util

if not importlib.util.find_spec("helpers"):  # on Colab
    get_ipython().run_line_magic(
        "pip", "install -q --no-deps git+https://github.com/your-name/training-parallelism")

import math

import torch
import torch.distributed as dist
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from helpers.compare.plots import residency_plot
from helpers.compare.table import predicted_vs_measured, savings_table
from helpers.facts.units import KiB, MiB
from helpers.predict.collectives import bytes_sent, step_elements_sent
from helpers.predict.memory import recipe, state_bytes
from helpers.run.collectives import Chunks, GlooMesh, ring_all_gather, ring_reduce_scatter
from helpers.run.data_sharding import part_of_batch
from helpers.run.ddp import DDP
from helpers.run.launch import launch, warm_up
from helpers.run.measure.fingerprint import first_difference
from helpers.run.measure.meters import memory, wire
from helpers.run.measure.state import bytes_by_term, of_optimizer, state_tensors
from helpers.run.models import mlp, perceptron, regression
from helpers.run.zero import Zero1, Zero2, Zero3, watched_step

warm_up()

# %% [markdown]
# ## Question
#
# Four ranks train with DDP and Adam.
# What does each of them hold after some steps, and what of it is different from what the others hold?

# %%
x, y = regression(20 * 24).tensors                          # 20 batches of 24
batches = list(zip(x.split(24), y.split(24)))


def with_ddp(rank, world_size):
    torch.manual_seed(13)
    ddp, part = DDP(perceptron(16, 32, 32, 4)), part_of_batch(24, rank, world_size)
    adam = torch.optim.Adam(ddp.parameters(), lr=0.01)
    for inputs, targets in batches:
        adam.zero_grad()
        mse_loss(ddp(inputs[part]), targets[part]).backward()
        adam.step()
    return bytes_by_term(state_tensors(ddp, adam)), first_difference(ddp, adam)


launch(with_ddp, 4).results[0]

# %% [markdown]
# 1,732 parameters, 16 bytes each: 27,712 bytes of state on every rank, 110,848 on all four.
# (`counter` is Adam's step number, 4 bytes for each of six tensors; we leave it out from here on.)
# `first_difference` has compared the fingerprints of parameters **and** of Adam's state, and `None` says that there is none: not in a parameter, not in a momentum, not in a variance.
# Three of the four copies are waste, and four ranks have calculated the same step.
#
# For 70 billion parameters, Adam's two moments alone are 560 GB, on each rank.
#
# Who needs a copy of what, and for how long?

# %% [markdown]
# ## Idea
#
# DDP's all_reduce is two halves (lesson 02): after the **reduce_scatter**, rank $r$ has the finished sum of chunk $r$; the **all_gather** spreads it.
#
# Adam treats each element by itself: the new chunk $r$ depends on chunk $r$ of parameters, gradient and moments, and on nothing else.
# So stop halfway, let each rank update **its chunk**, and send round updated parameters instead of gradients:
#
# $$ g \xrightarrow{\text{reduce-scatter}} g_r \xrightarrow{\text{Adam, with } m_r, v_r} w_r \xrightarrow{\text{all-gather}} w $$
#
# | symbol | is | unit |
# |---|---|---|
# | $P$, $N$ | parameters of the model, ranks | |
# | $w$, $g$; $m$, $v$ | parameters, gradient; Adam's momentum and variance | $P$ elements each |
# | $w_r$, $g_r$, $m_r$, $v_r$ | their chunk $r$, the **shard** of rank $r$ | $P/N$ elements each |

# %% [markdown]
# That is stage 1 of ZeRO, the *zero redundancy optimizer*: nobody keeps moments of a chunk that is not theirs.
# Then the thought goes on.
#
# | stage | besides, rank $r$ keeps only its shard of | because |
# |---|---|---|
# | 1 | momentum, variance, master copy | it updates only its chunk |
# | 2 | gradient | once a gradient is reduced, only its owner needs it |
# | 3 | parameter | a layer's parameters are needed only while that layer computes |
#
# ## Predict
#
# The model above, 1,732 parameters in fp32, on 4 ranks with stage 1.
# How many bytes of momentum and variance does **rank 0** hold?

# %%
guess = None  # bytes


# %% [markdown]
# ## Run
#
# The whole of stage 1, with nothing hidden.
# `flat` has all parameters end to end, and the model's parameters are views of it: who writes to `flat` changes the model.

# %%
def zero1(rank, world_size):
    torch.manual_seed(13)
    model, mesh, part = perceptron(16, 32, 32, 4), GlooMesh(), part_of_batch(24, rank, world_size)
    flat = parameters_to_vector(model.parameters()).detach()
    vector_to_parameters(flat, model.parameters())          # parameters are views of flat now
    mine = Chunks(flat, world_size)[rank]                   # and so is my shard
    adam = torch.optim.Adam([mine], lr=0.01)                # never hears of the rest
    for inputs, targets in batches:
        model.zero_grad()
        mse_loss(model(inputs[part]), targets[part]).backward()
        gradient = parameters_to_vector(p.grad for p in model.parameters()) / world_size
        mine.grad = ring_reduce_scatter(mesh, gradient)     # one half of an all_reduce
        adam.step()
        ring_all_gather(mesh, flat)                         # the other half, of parameters
    return flat, bytes_by_term(of_optimizer(adam))


# %% [markdown]
# ## Compare

# %%
runs = {n: launch(zero1, n).results for n in (4, 3, 2, 1)}
P, whole = 1732, runs[1][0][0]
away = max((flat - whole).abs().max() / whole.abs().max() for results in runs.values() for flat, _ in results)
moments = {n: results[0][1]["momentum"] + results[0][1]["variance"] for n, results in runs.items()}
predicted_vs_measured({f"moments on rank 0, N = {n}": (8 * math.ceil(P / n), size) for n, size in moments.items()},
                      guess=guess, unit="B",
                      notes=(f"All ranks of all runs within 1e-6 of one process: {bool(away < 1e-6)}",))

# %% [markdown]
# $8P/N$ bytes instead of $8P$, and the same training.
# (1,732 does not divide by 3, so rank 0 has 578 elements and the others 577: `Chunks` makes the first ones longer.)
#
# `Zero1` in `helpers/run/zero/stages_1_2.py` is this loop made usable: parameter groups, clipping, frozen parameters, a bf16 model with an fp32 master copy.
#
# ## Predict
#
# What is the price?
# By the paper, stage 1 costs no more communication than DDP.
#
# A model of four 512 by 512 matrices in fp32, 1,048,576 parameters, on 4 ranks: DDP sends 6.29 MB a step from each rank (lesson 03).
# And PyTorch's stage 1, `ZeroRedundancyOptimizer` beside `DistributedDataParallel`, on average?

# %%
guess = None  # MB


# %% [markdown]
# ## Run

# %%
def one_step(rank, world_size, how):
    if how == "ours":
        module = optimizer = Zero1(mlp(width=512, depth=4))
    else:
        module = DistributedDataParallel(mlp(width=512, depth=4))
        optimizer = ZeroRedundancyOptimizer(module.parameters(), torch.optim.Adam)
    with wire() as counted:
        module(torch.ones(8, 512)).sum().backward()
        optimizer.step()
    return counted.sent


def by_ring(rank, world_size):
    ring_reduce_scatter(GlooMesh(), torch.ones(4 * 512**2))


# %% [markdown]
# ## Compare

# %%
def by_gloo(rank, world_size):
    dist.reduce_scatter_single(torch.empty(512**2), torch.ones(4 * 512**2))


P = 4 * 512**2
step = {how: sum(launch(one_step, 4, how).results) / 4 for how in ("PyTorch's", "ours")}        # mean over ranks
gradients, parameters = bytes_sent("reduce_scatter", 4 * P, 4), bytes_sent("all_gather", 4 * P, 4)
predicted_vs_measured({
    "a step: PyTorch's, all_reduce and broadcasts": (2 * gradients + parameters, step["PyTorch's"]),
    "a step: ours, reduce_scatter and all_gather": (gradients + parameters, step["ours"]),
    "a reduce_scatter of 4P: our ring": (gradients, launch(by_ring, 4).wire[0].sent),
    "a reduce_scatter of 4P: gloo's": (gradients, launch(by_gloo, 4).wire[0].sent),
}, guess=guess, unit="MB")

# %% [markdown]
# The claim holds for the algorithm, and not for every implementation.
#
# Ours sends what DDP sends: $2P\,(N-1)/N$ elements, the two halves of an all_reduce.
# PyTorch's sends $3P\,(N-1)/N$: DDP has finished its all_reduce before the optimizer sees a gradient, so three quarters of the sums went to ranks that have no use for them, and then each rank broadcasts what it has updated.
# gloo's `reduce_scatter` sends twice what it must, as lesson 02 has shown: inside, it is an all_reduce.
# (NCCL has a real one.)

# %% [markdown]
# ## Predict
#
# **Stage 2.**
# Backward makes gradients from the last layer to the first.
# As soon as a bucket of them is full, reduce_scatter it, keep the shard, free the rest.
#
# Ten matrices of 1024 by 1024 in fp32, 40 MiB of parameters, on 4 ranks with Adam.
# How many MiB of state does each rank hold after the step, under stage 2?

# %%
guess = None  # MiB


# %% [markdown]
# ## Run
#
# In stage 3 each matrix is a **unit**: its parameters are gathered before its forward, freed after it, gathered again before its backward, freed for good.
# The same step in all three stages, in fp32 and in mixed precision.

# %%
def step_of(rank, world_size, stage, dtype=None, num_microbatches=1, **options):
    with memory() as grown:
        model = mlp(width=1024, depth=10)
        options |= {"units": list(model)} if stage == 3 else {"bucket_bytes": 4 * MiB}
        zero = {1: Zero1, 2: Zero2, 3: Zero3}[stage](model, torch.optim.Adam, dtype=dtype, **options)
        with wire() as sent:
            for _ in range(num_microbatches):
                zero(torch.ones(4, 1024)).sum().backward()
            zero.step()
    return grown, sent.sent


fp32 = {stage: launch(step_of, 4, stage) for stage in (2, 1, 3)}             # stage 2 first, for your guess
mixed = {stage: launch(step_of, 4, stage, torch.bfloat16) for stage in (1, 2, 3)}

# %% [markdown]
# ## Compare

# %%
P = 10 * 1024**2
rows = {f"stage {stage}, fp32": (state_bytes(P, 4, stage, recipe("fp32")), run.memory[0].tensors)
        for stage, run in fp32.items()}
rows |= {f"stage {stage}, mixed": (state_bytes(P, 4, stage), run.memory[0].tensors) for stage, run in mixed.items()}
predicted_vs_measured(rows, guess=guess, unit="MiB")

# %% [markdown]
# To the last digit shown.
# The mixed rows are the formulas of the paper: $4P + 12P/N$, $2P + 14P/N$, $16P/N$.
# In fp32 there is no master copy, so stage 1 keeps $8P + 8P/N$, stage 2 $4P + 12P/N$.
#
# What the kernel has given to the process says the same, with a few MiB for code and sockets.

# %% tags=["nbval-ignore-output"]
predicted_vs_measured({f"stage {stage}, fp32": (state_bytes(P, 4, stage, recipe("fp32")), run.memory[0].private)
                       for stage, run in fp32.items()}, unit="MiB")

# %% [markdown]
# And what does each rank send?
# Stage 3 gathers parameters twice and reduces gradients once.
# `reshard_after_forward=False` keeps them from forward to backward, so they are gathered once.
# The last three rows accumulate four microbatches before one step (lesson 03).

# %%
kept = launch(step_of, 4, 3, reshard_after_forward=False)
often = {stage: launch(step_of, 4, stage, num_microbatches=4).results[0][1] for stage in (1, 2, 3)}
a_half = bytes_sent("all_gather", 4 * P, 4)                 # 4P (N-1)/N: of a reduce_scatter, too
predicted_vs_measured({f"stage {stage}": (4 * step_elements_sent(P, stage, 4), run.results[0][1])
                       for stage, run in sorted(fp32.items())} | {
    "stage 3, kept for backward": (2 * a_half, kept.results[0][1]),
    "stage 1, in bf16": (2 * step_elements_sent(P, 1, 4), mixed[1].results[0][1]),
    "stage 1, four microbatches": (a_half + a_half, often[1]),
    "stage 2, four microbatches": (4 * a_half + a_half, often[2]),
    "stage 3, four microbatches": (4 * 3 * a_half, often[3])}, unit="MB")

# %% [markdown]
# Stages 1 and 2 send $2P\,(N-1)/N$ elements, as DDP does; stage 3 $3P\,(N-1)/N$, or $2P$ if parameters are kept.
#
# Accumulation is another matter.
# Stage 1 holds all gradients and reduces them once, like DDP with `no_sync`.
# Stage 2 has nowhere to keep them, so it reduces in each microbatch; stage 3 gathers in each, too.
#
# ## Predict
#
# State is what is left when the step is over.
# A card is full at the **peak**.
#
# Eight layers of 64 KiB, each a bucket of its own, on 4 ranks under stage 2: after the step, a rank has 128 KiB of gradients, eight shards of 16.
# How many KiB of gradients are alive when most are?

# %%
guess = None  # KiB

# %% [markdown]
# ## Run
#
# Every allocation and release of one step, as torch's profiler reports them, for all stages, beside 1 rank, which shards nothing.
# In stage 3 each layer is a unit.

# %%
alive = {"1 rank": launch(watched_step, 1, 1).results[0][0]}
alive |= {f"ZeRO-{stage} on 4": launch(watched_step, 4, stage).results[0][0] for stage in (1, 2, 3)}
alive["ZeRO-3, kept"] = launch(watched_step, 4, 3, reshard_after_forward=False).results[0][0]
axes = residency_plot(alive, unit="KiB")

# %% [markdown]
# The picture in words: five stacks of bands; from left to right allocations and releases in their order, with forward, backward and step drawn equally wide.
# On 1 rank, momentum, variance, parameters and gradients are 512 KiB each.
# In stage 1, momentum and variance are a quarter of that.
# In stage 2, the gradient's band is gone in forward, grows in backward by teeth, one for each bucket, and ends at a quarter.
# In stage 3, parameters have teeth as well: a layer at a time is gathered and freed, in forward and again in backward.
# If they are kept, they are a staircase up, and down again.
#
# ## Compare

# %%
shard, layer = 16 * KiB, 64 * KiB
most = {("ZeRO-2 on 4", "gradient"): 2 * layer + 7 * shard, ("ZeRO-1 on 4", "gradient"): 8 * layer,
        ("ZeRO-3 on 4", "gradient"): 2 * layer + 7 * shard, ("ZeRO-3 on 4", "parameter"): layer + 8 * shard,
        ("ZeRO-3, kept", "parameter"): 8 * layer + 8 * shard}
predicted_vs_measured({f"{name}: most {term}": (formula, max(alive[name].bytes[term]))
                       for (name, term), formula in most.items()}, guess=guess, unit="KiB", notes=tuple(
    f"{name}: state {sum(each.at(-1).values()) / KiB:,.0f} KiB, peak of all together {each.peak_bytes / KiB:,.0f}"
    for name, each in alive.items()))

# %% [markdown]
# Before its last reduction stage 2 holds the gradient of a layer **and** its copy in the bucket, 64 KiB each, and seven finished shards of 16.
# Stage 3 has one gathered layer besides its shards.
# Kept, it has all of them and the shards: more than stage 2, so that saving traffic has its price exactly where the card is fullest.
#
# The teeth are the price of a unit: whatever travels together is alive together.
#
# ## Scale it
#
# **How much can a stage save?**
# Here is DDP's state divided by that of each stage, in mixed precision.

# %%
savings_table((2, 8, 64, 1024))

# %% [markdown]
# "4x, 8x, Nx" are limits; at 8 ranks it is 2.91, 4.27 and 8.
# Stage 1 has a floor of $4P$: from 64 ranks on, more ranks save next to nothing.
# The paper's own example, 7.5 billion parameters on 64 ranks, is 120, 31.4, 16.6 and 1.9 GB.
#
# **How large should a bucket or unit be?**
# Small ones keep the teeth short, and make many messages, each with its latency; large ones the other way round.
# Move the controls: each change runs real ranks.
# Try stage 2 with all 8 layers in one bucket, and stage 3 likewise.
# Then more samples: who pays for them?

# %% tags=["nbval-ignore-output"]
from helpers.compare.widgets import residency_explorer

residency_explorer()


# %% [markdown]
# One bucket of everything: all gradients are alive at the end of backward, so stage 2 peaks about where stage 1 does.
# One unit of everything: stage 3 gathers the whole model, and peaks as high as stage 1.
# The grey band is activations in forward and backward, and Adam's temporary tensors in the step; activations grow with the samples, whatever the stage: lesson 07.
#
# ## Break it
#
# A favourite: every now and then, rank 0 computes a validation loss.
# Under DDP that works, if the model has no buffers.

# %% tags=["raises-exception"]
def validates(rank, world_size):
    torch.manual_seed(3)
    model, mine = mlp(width=16, depth=4), part_of_batch(24, rank, world_size)
    zero = Zero3(model, torch.optim.Adam, units=list(model))
    for step, (inputs, _) in enumerate(batches):
        if rank == 0 and step == 5:
            with torch.no_grad():
                print("validation loss", zero(x).square().mean().item())
        zero(inputs[mine]).square().mean().backward()
        zero.step()
        zero.zero_grad()
    print(f"rank {rank} is done")


launch(validates, 2, timeout_s=10)

# %% [markdown]
# The fault is in step 5, and the failure comes in the last one, step 19.
# In stage 3 **every forward is a collective**.
# Rank 0's validation was answered by rank 1's training forward of the same step, so its loss is right.
# Since then rank 0 is four messages ahead: it takes gradients for parameters, and adds parameters to gradients.
# All are equally large, so nothing was noticed until one rank had nobody to talk to.
# All ranks must call every forward, equally often, in validation and generation, too.
#
# ## Read the helper
#
# Open `helpers/run/zero/stages_1_2.py` and `flat.py`.
#
# 1. What do `Zero2._ready` and `Zero2._send` do that `Zero1.reduce` does not?
# 2. `GradientBucket.take` sets `parameter.grad = None`. What would the picture look like without that line?
#
# <details><summary>Answers</summary>
# 1. They work from inside backward, a bucket at a time, and keep a copy of the shard alone; the bucket is freed. 2. Every layer's own gradient would stay alive until the end of backward and beyond: stage 2 would hold 4P of gradients in fp32, as stage 1 does, and its shard besides. And the next step would add to them, since zero_grad clears only shards.
# </details>

# %% [markdown]
# ## Check yourself
#
# **1.** A job under stage 1 on 8 ranks is 20 % over the card. Do 64 ranks help?
#
# <details><summary>Answer</summary>
# Yes: state falls from 5.5P to 4.19P, by 24 %, if all of what is on the card is state. On 512 ranks it would be 4.02P: beyond 64 there is nothing to gain. Stage 2 on 8 ranks is 3.75P.
# </details>
# <br>
#
# **2.** Is ZeRO a kind of model parallelism, with each rank computing on its part of the model?
#
# <details><summary>Answer</summary>
# No, a common misconception. It is data parallel: every rank computes all layers, on its own samples. Only where the state lives between uses is different. In stage 3 whole layers are lent to every rank in turn.
# </details>
# <br>
#
# **3.** Somebody replaces Adam by an optimizer that scales each step by the norm of its weight matrix (LAMB). Our shards cut matrices anywhere. What goes wrong?
#
# <details><summary>Answer</summary>
# Each rank takes the norm of its piece and believes that it is the matrix's. Nothing fails; the training is another one. What is not element by element needs the norm over all ranks, as gradient clipping does.
# </details>

# %% [markdown]
# ## Recap
#
# DDP holds $N$ copies of what one copy would do; ZeRO keeps a shard on each rank, of the optimizer, then of gradients, then of parameters, and the training stays the same.
# Stages 1 and 2 send what DDP sends, if their reduce_scatter is one (and stage 2 accumulates nothing); stage 3 sends half as much again.
# State is $4P+12P/N$, $2P+14P/N$, $16P/N$ in mixed precision; at the peak there are two gradients of a unit besides, in stage 3 its parameters, and always activations.
#
# **Pitfalls.** A forward on one rank only. One bucket or unit for everything. Optimizers that need whole matrices. Believing a volume that nobody has measured.
#
# **Sources.** Rajbhandari et al., "ZeRO", arXiv:1910.02054, sections 5 and 7, figure 1. Zhao et al., "PyTorch FSDP", arXiv:2304.11277. PyTorch documentation, `ZeroRedundancyOptimizer`.
#
# **Exercises:** `exercises/05_zero/05_zero.ipynb`.
