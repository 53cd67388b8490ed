# %% [markdown]
# # 07 Activations
#
# You will be able to count what forward keeps for backward, say when it overtakes the state, and choose the least recomputation that fits.
#
# **80 minutes.** Needs lessons 01 and 05; lesson 06 helps. A good place for a break is before "Does mixed precision halve memory?".
#
# [Open in Binder](https://mybinder.org/v2/gh/your-name/training-parallelism/HEAD?urlpath=lab/tree/notebooks/07_activations.ipynb) ·
# [Open in Colab](https://colab.research.google.com/github/your-name/training-parallelism/blob/main/notebooks/07_activations.ipynb)

# %% [markdown]
# ## Setup

# %%
import importlib.util

if not importlib.util.find_spec("helpers"):  # on Colab
    get_ipython().run_line_magic(
        "pip", "install -q --no-deps git+https://github.com/your-name/training-parallelism")

from contextlib import nullcontext

import torch
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.utils.checkpoint import checkpoint, set_checkpoint_early_stop

from helpers.compare.plots import growth, memory_bars, part_bars, residency_plot
from helpers.compare.table import Table, predicted_vs_measured
from helpers.compare.widgets.activations import recomputations
from helpers.compare.words.activations import TrainingJob, job_in_words
from helpers.facts import specs
from helpers.facts.units import GiB, MiB
from helpers.predict import activations as predicted
from helpers.predict.activations import RECOMPUTES, block_bytes, pipeline_stage_bytes
from helpers.predict.flops import Shape, hardware_flops
from helpers.predict.memory import recipe, state_bytes
from helpers.run.launch import launch, warm_up
from helpers.run.measure.memory_limit import limit_memory
from helpers.run.measure.residency import holds, residency
from helpers.run.measure.saved_tensors import counted_flops, saved
from helpers.run.measure.state import bytes_by_term, state_tensors
from helpers.run.models import GPT, Block
from helpers.run.zero import Zero1, Zero2, Zero3

warm_up()


# %% [markdown]
# ## Question
#
# A small GPT: 8 blocks of width 64 with 8 heads, sequences of 128 tokens.
# FSDP has sharded its state over 4 ranks, 1.6 MiB on each, and the cards have 104 MiB.
# With a batch of 8 sequences (2 a rank) it trains.
# Then somebody asks for a batch of 64.

# %% tags=["raises-exception"]
def train(rank, world_size, batch, make=GPT, **how):
    limit_memory(104 * MiB)
    torch.manual_seed(7)
    gpt = make(layers=8, hidden=64, heads=8, vocab=256, max_seq=128, **how)
    for block in gpt.blocks:
        fully_shard(block)
    fully_shard(gpt)
    adam = torch.optim.Adam(gpt.parameters())
    loss = gpt.loss(torch.randint(256, (batch, 129)))
    loss.backward()
    adam.step()
    return round(loss.item(), 2)


print(launch(train, 4, batch=2).results)
launch(train, 4, batch=16)

# %% [markdown]
# The card is 64 times the state, and it is full.
# Read the lines from below: `scores` of attention, in `forward`.
# No gradient exists yet, and Adam has nothing: no stage of ZeRO helps.
# More ranks do only if each of them gets fewer sequences.
#
# ## Idea
#
# A linear layer computes $y = xW^\top$, and backward needs $x$ again: the gradient of $W$ is $g^\top x$, for the gradient $g$ of $y$.
# So forward **keeps** $x$ until backward has come back to this layer.
# What forward keeps is called *activations*.
#
# The layer that comes first waits longest; when the loss is computed, all layers' activations are there.
# They are as many as there are tokens, and parameters do not care about tokens.

# %% [markdown]
# What a transformer block keeps:
#
# | kept for | what | elements, or entries | bytes |
# |---|---|---|---|
# | two norms | their inputs | $2\,sbh$ | $4\,sbh$ |
# | the matrices of $q$, $k$, $v$ | their common input | $sbh$ | $2\,sbh$ |
# | attention's products | $q$, $k$, $v$ | $3\,sbh$ | $6\,sbh$ |
# | projection | its input | $sbh$ | $2\,sbh$ |
# | MLP | inputs of the first linear, of GELU, of the second linear | $(1 + 4 + 4)\,sbh$ | $18\,sbh$ |
# | two dropouts | masks: which entries were dropped | $2\,sbh$ entries | $2\,sbh$ |
# | softmax; product with $v$ | probabilities; what is left of them after dropout | $2\,as^2b$ | $4\,as^2b$ |
# | dropout of probabilities | its mask | $as^2b$ entries | $as^2b$ |
#
# With 2 bytes an element, and 1 an entry of a mask, the sum is
#
# $$ sbh\left(34 + 5\,\frac{as}{h}\right) \text{ bytes.} $$
#
# | symbol | is | here |
# |---|---|---|
# | $s$, $b$ | tokens in a sequence, sequences on a rank | 128, 16 |
# | $h$, $a$, $L$ | width, heads, blocks | 64, 8, 8 |
#
# As a picture, for a block of GPT-3 and one sequence of 2,048 tokens:

# %%
axes = part_bars(predicted.BlockShape(seq=2048, batch=1, hidden=12288, heads=96))

# %% [markdown]
# The picture in words: fourteen bars.
# Six are 48 MiB, one $sbh$ in bf16; $q$ and $k$ together 96, two masks 24, GELU's input and the second linear's 192.
# Three grow with the square of the sequence: probabilities 768, their mask 384, dropped probabilities 768.
# Together it is 2,736 MiB for **one** sequence, of which they are 70 %; the block's parameters are 3,456 MiB in bf16.
#
# ## Predict
#
# Our blocks have no dropout and are in fp32.
# How many MiB does **one** of them keep for 16 sequences of 128 tokens?
# ($sbh$ is 131,072, and $as/h$ is 16, as in GPT-3.)

# %%
guess = None  # MiB

# %% [markdown]
# ## Run
#
# Autograd hands every tensor that it keeps to whoever asks: `saved` asks, counts each piece of memory once, and leaves parameters out.
# First tensor by tensor, then in sum.
#
# ## Compare

# %%
s, b, h, a = 128, 16, 64, 8


def kept_by(dtype=torch.float32, seq=s, batch=b, **how):
    block = Block(h, a, **how).to(dtype)
    with saved(block) as kept:
        block(torch.randn(batch, seq, h, dtype=dtype, requires_grad=True))
    return kept


Table(("kept while this runs", "shape", "MiB", "over sbh"), tuple(
    (tensor.module, " x ".join(map(str, tensor.shape)), f"{tensor.num_bytes / MiB:.3f}",
     f"{tensor.num_bytes / (4 * s * b * h):.2f}") for tensor in kept_by().tensors))


# %%
def formula(seq=s, batch=b, counted="torch", element_bytes=2, **how):
    return block_bytes(predicted.BlockShape(seq, batch, h, a, element_bytes, counted=counted, **how))


half, dropped = kept_by(torch.bfloat16), kept_by(torch.bfloat16, dropout=0.1)
masks = sum(tensor.num_bytes for tensor in dropped.tensors if tensor.module.endswith("dropout")) / (s * b * h)
predicted_vs_measured({
    "fp32": (formula(element_bytes=4, dropout=False), kept_by().num_bytes),
    "bf16": (formula(dropout=False), half.num_bytes),
    "bf16, as the paper counts": (formula(dropout=False, counted="paper"), half.num_bytes),
    "bf16, dropout": (formula(), dropped.num_bytes),
    "bf16, dropout, as the paper counts": (formula(counted="paper"), dropped.num_bytes),
}, guess=guess, unit="MiB", notes=(f"Masks of dropout: {masks:g} sbh bytes measured, 2 + 16 as the paper counts.",))

# %% [markdown]
# 16 MiB, from a block whose $12h^2$ parameters are 0.19 MiB.
# The four rows of `core`, attention's inner part, are $k$, $q$, the probabilities and $v$.
# The formulas for PyTorch are right to the byte.
# The paper's differs from what this CPU keeps in two things:
#
# - **masks**: on a CPU an entry is an element, 2 bytes where the paper counts 1: hence 1.16. (On GPUs PyTorch keeps 1; not run here);
# - **statistics**: each norm keeps mean and deviation of a token, which the paper leaves out.
#
# Without dropout 34 becomes 32, and 5 becomes 2.
#
# ## Predict
#
# How many times as much does a block keep of one sequence of 1,024 tokens as of one of 128?

# %%
guess = None  # times

# %% [markdown]
# ## Run
# *Flash attention* computes the probabilities tile by tile and never holds them; PyTorch has it as `scaled_dot_product_attention`.
# Both ways, for sequences from 32 to 1,024 tokens.
#
# ## Compare

# %%
measured = {attention: {seq: kept_by(seq=seq, batch=1, attention=attention).num_bytes
                        for seq in (32, 64, 128, 256, 512, 1024)} for attention in ("stored", "flash")}
lines = {attention: {seq: formula(seq, 1, element_bytes=4, dropout=False, attention=attention) for seq in kept}
         for attention, kept in measured.items()}
axes = growth(lines, measured)
predicted_vs_measured({f"{attention}: 1024 tokens over 128": (lines[attention][1024] / lines[attention][128],
                                                              kept[1024] / kept[128])
                       for attention, kept in measured.items()}, guess=guess, unit="times")

# %% [markdown]
# The picture in words: formulas and, as marks, measurements; both axes double from line to line.
# Flash attention rises by one line for each doubling and ends at 4 MiB; stored attention bends to two for each, and ends at 36.
#
# There is a probability for each pair of tokens and each head.
# Without dropout they outweigh all else beyond $s = 16h/a$, 128 here.
# Flash keeps one fp32 number a head and token, from which backward computes the probabilities **again**.
#
# ## Predict
#
# Now against the state.
# 8 such blocks in fp32 with flash attention, Adam, stage 3 on 4 ranks.
# At how many **tokens on a rank** do activations weigh as much as its share of the state?

# %%
guess = None  # tokens


# %% [markdown]
# ## Run
# Every allocation of a step is watched, as in lesson 05.
# What is state after the step, and what is there besides when backward begins?
#
# ## Compare

# %%
def step(rank, world_size, stage, samples):
    model = nn.Sequential(*(Block(h, a, attention="flash") for _ in range(8)))
    units = {"units": list(model)} if stage == 3 else {}
    zero = (Zero1, Zero2, Zero3)[stage - 1](model, torch.optim.Adam, **units)
    with residency(zero.held()) as alive:
        zero(torch.ones(samples, 32, h, requires_grad=True)).sum().backward()
        zero.step()
    state = sum(size for kind, size in alive.at(-1).items() if kind not in ("other", "counter"))
    return state, alive.at(alive.phases["backward"])["other"]


# %%
P = 8 * (12 * h**2 + 13 * h)
ways = [(3, 1), (3, 16), (2, 16), (1, 16)]                                  # stage, sequences of 32 tokens
found = {way: launch(step, 4, *way).results[0] for way in ways}
a_token = 8 * formula(1, 1, element_bytes=4, dropout=False, attention="flash")
state, activations = found[3, 1]
rows = {"tokens on a rank": (state_bytes(P, 4, 3, recipe("fp32")) / a_token, state / (activations / 32))}
for (stage, n), (state, activations) in found.items():
    name, expected = f"stage {stage}, {n} x 32 tokens", state_bytes(P, 4, stage, recipe("fp32"))
    rows[f"{name}: KiB of state"] = expected / 1024, state / 1024
    rows[f"{name}: KiB of activations"] = n * 32 * a_token / 1024, activations / 1024
predicted_vs_measured(rows, guess=guess)


# %% [markdown]
# At 48 tokens, a sentence or two.
# State is about $16 \cdot 12h^2L/N$ bytes and activations $64\,h L$ a token, so the number of blocks does not matter: $3h/N$ tokens.
# In bf16 with the paper's 34 it is $5.6h/N$.
# A model of width 8,192 on 64 ranks: 720 tokens, a third of a sequence of 2,048.
#
# **Who pays for more samples?**
# Each rank for its own: sixteen times as much for 16 sequences as for one, and the same in every stage.
# ZeRO and FSDP shard what all ranks hold alike.
# Activations belong to a rank's own samples: there is no second copy to save.

# %% [markdown]
# **Does mixed precision halve memory?**
# State: lesson 01 counted 16 bytes a parameter either way.
# Activations: here is a block without dropout, in fp32, in bf16 with an fp32 master copy, and in fp32 under `torch.autocast`.

# %%
def a_step(rank, world_size, dtype=None, autocast=False):
    block = Block(h, a)
    zero = Zero1(block, torch.optim.Adam, dtype=dtype)
    with saved(block) as kept, torch.autocast("cpu", torch.bfloat16) if autocast else nullcontext():
        output = zero(torch.ones(b, s, h))
    output.sum().backward()
    zero.step()
    sizes = bytes_by_term(zero.held())
    return (sum(sizes.values()) - sizes["counter"]) / (P / 8), kept.num_bytes / (s * b * h)


Table(("a block", "state, bytes a parameter", "kept, bytes over sbh"), tuple(
    (name, *(f"{number:.2f}" for number in launch(a_step, 1, **how).results[0])) for name, how in {
        "fp32": {}, "bf16, fp32 master": {"dtype": torch.bfloat16}, "autocast": {"autocast": True}}.items()))

# %% [markdown]
# The saving is in the activations, and there only.
# Autocast saves less: norms and the sums between blocks stay in fp32, and a bf16 copy of each weight is kept besides.
# On a GPU its list has softmax in fp32, too (not run here): then stored probabilities are kept in 6 bytes, more than in fp32, and only flash attention saves.
#
# ## Predict
#
# **Recompute.**
# Forward may forget, if backward runs it again.
#
# | | a block keeps (bf16, dropout) | backward runs again |
# |---|---|---|
# | none | $sbh(34 + 5as/h)$ | nothing |
# | selective | $34\,sbh$ | attention's core, where the squares are |
# | full | $2\,sbh$, its input | the block's forward |
#
# A linear layer of $m$ by $n$ takes $2mn$ FLOPs a token in forward, and twice that in backward; a block takes $24bsh^2 + 4bs^2h$ in forward, the second part for attention's two products.
# For our GPT: how many **percent** more FLOPs is full recomputation?

# %%
guess = None  # percent


# %% [markdown]
# ## Run
# Kept bytes and FLOPs are counted in one step, and allocations watched in the next, when Adam has its moments.
#
# ## Compare

# %%
def recompute(rank, world_size, how, early_stop=None):
    torch.manual_seed(7)
    gpt = GPT(layers=8, hidden=h, heads=a, vocab=256, max_seq=s, recompute=how)
    adam, numbers = torch.optim.Adam(gpt.parameters()), torch.randint(256, (4, s + 1))
    with set_checkpoint_early_stop(early_stop), saved(gpt) as kept, counted_flops() as done:
        gpt.loss(numbers).backward()
    gradient = torch.cat([p.grad.flatten() for p in gpt.parameters()])
    adam.step()
    adam.zero_grad()
    for p in gpt.parameters():
        p.register_post_accumulate_grad_hook(lambda p: holds("gradient", p.grad))
    with residency(state_tensors(gpt, adam)) as alive:
        gpt.loss(numbers).backward()
        adam.step()
    return {"alive": alive, "kept": kept.num_bytes, "flops": done.num_flops, "gradient": gradient}


# %%
runs = {how: launch(recompute, 1, how).results[0] for how in RECOMPUTES}
runs |= {f"{how}, stopped early": launch(recompute, 1, how, True).results[0] for how in ("full", "selective")}
shape = Shape(layers=8, hidden=h, seq=s, vocab=256)
once = hardware_flops(shape, 4)                                 # without recomputation
again = {how: hardware_flops(shape, 4, how) - once for how in ("full", "selective")}
again["full, stopped early"] = again["full"] - 8 * 8 * 4 * s * h**2         # less the MLP's second matrix
again["selective, stopped early"] = again["selective"] - 8 * 2 * 4 * s**2 * h       # less the product with v
equal = all(torch.equal(run["gradient"], runs["none"]["gradient"]) for run in runs.values())
predicted_vs_measured({f"more FLOPs, {how}": (
    100 * more / once, 100 * (runs[how]["flops"] / runs["none"]["flops"] - 1)) for how, more in again.items()},
    guess=guess, unit="percent", notes=(f"The same gradients to the last bit: {equal}",))

# %% [markdown]
# A step is one forward and two forwards' worth of backward, and full recomputation adds one forward of the blocks: nearly a third.
# Selective adds attention's two products.
# That is much here, where $s$ is twice $h$, and 1 % in GPT-3, where it drops 70 % of the bytes.
# (The paper's equation 8 counts three times as much for it; what runs is $4bs^2h$.)
#
# PyTorch's default, `early_stop=True`, leaves out the last product of what it recomputes.
# Of a block that is the MLP's second matrix, so "a third" becomes a quarter: the last two rows.
# Our helper runs to the end, as the paper counts.
#
# What is alive in a step:

# %%
axes = residency_plot({how: runs[how]["alive"] for how in RECOMPUTES})
block = predicted.BlockShape(s, 4, h, a, 4, dropout=False, counted="torch")
scores = 4 * a * s**2 * 4                                                   # of one block: b = 4, fp32
back = {"none": 0, "selective": scores, "full": block_bytes(block)}         # of the block that is run again
rows = {}
for how in RECOMPUTES:
    kept = pipeline_stage_bytes(block, 8, 256, recompute=how)
    rows[f"{how}: kept"] = kept / MiB, runs[how]["kept"] / MiB
    rows[f"{how}: peak besides the state"] = ((kept + back[how] + scores) / MiB,
                                              max(runs[how]["alive"].bytes["other"]) / MiB)
predicted_vs_measured(rows, unit="MiB in all")

# %% [markdown]
# The picture in words: three mountains of "other", activations and temporary tensors.
# Without recomputation it climbs block by block through forward and falls through backward; selective is a lower one of the same shape.
# Full is a low plain: in forward each block is there for a moment, and is forgotten but for its input; in backward eight higher teeth, each a block that is run again.
#
# So the peak is what is kept, **one block** that has come back (selective: its probabilities), and scores that live for a moment: the formula of the table.
# The state below does not change: recomputation has nothing to do with it.

# %% [markdown]
# ## Scale it
#
# Activations of a rank's samples **can** be divided: by ranks that share the samples.
# Under *tensor parallelism* (lesson 08) $t$ ranks each compute a part of every matrix, so what lies inside attention and MLP is divided by $t$, and $10\,sbh$ are not: norms, inputs, two masks.
# *Sequence parallelism* divides those by tokens.
# The paper's formulas, for one block of its 22B model, with 4 sequences of 2,048 tokens and $t = 8$:

# %%
ways = {"one rank, sbh(34 + 5as/h)": {}, "tensor, sbh(10 + 24/t + 5as/ht)": {"tensor_parallel": 8},
        "tensor and sequence, sbh(34 + 5as/h)/t": {"tensor_parallel": 8, "sequence_parallel": True},
        "tensor, selective, sbh(10 + 24/t)": {"tensor_parallel": 8, "recompute": "selective"},
        "tensor and sequence, selective, 34sbh/t": {"tensor_parallel": 8, "sequence_parallel": True,
                                                    "recompute": "selective"},
        "full, 2sbh": {"tensor_parallel": 8, "recompute": "full"}}
gib = {name: block_bytes(predicted.BlockShape(2048, 4, 6144, 64), **way) / GiB for name, way in ways.items()}
Table(("", "GiB a block", "of tensor parallelism alone"), tuple(
    (name, f"{size:.2f}", f"{size / gib['tensor, sbh(10 + 24/t + 5as/ht)']:.0%}") for name, size in gib.items()))

# %% [markdown]
# Tensor and sequence parallelism with selective recomputation keep 16 % of what tensor parallelism alone keeps, twice what full recomputation does, for 2 % more FLOPs instead of 33.
#
# **Does it fit?**
# That model on 64 cards of 80 GiB, ZeRO-3, without tensor parallelism, 4 sequences a rank.

# %%
job = TrainingJob(specs.transformer("GPT 22B"), ranks=64, zero_stage=3, batch=4, seq=2048)
axes = memory_bars(recomputations(job), unit="GiB", limit_bytes=80 * GiB, limit_name="80 GiB")
print(job_in_words(job, 80 * GiB))

# %% [markdown]
# The picture in words: three bars.
# In each, the state is a thin stripe on the left, 5 GiB.
# Without recomputation it is 323 GiB, four cards; selective, 88, just over the card; full, 18, a third of it the block that is run again.
# (`>` marks the chosen job; *logits* are the output layer's scores for each token of the vocabulary, in fp32 for the loss.)
#
# Now by hand.
# Bring selective under 80 GiB: by fewer sequences, by tensor parallelism.
# Then 131,072 tokens, stored and flash; then 1,024 ranks instead of 64.
# (Gathered units, buckets and the allocator are left out.)

# %% tags=["nbval-ignore-output"]
from helpers.compare.widgets import activation_explorer

activation_explorer()


# %% [markdown]
# <details><summary>What you should have seen</summary>
# Selective fits with 3 sequences (68 GiB) or over 2 ranks of tensor parallelism (58). One sequence of 131,072 tokens fits in no way here: stored, its squares alone are thousands of cards. With 1,024 ranks the state falls from 5.1 to 0.3 GiB, and nothing else gets smaller.
# </details>
#
# ## Break it
#
# The question's batch of 64, on the same cards: with flash attention, or with recomputation, it trains: the line above the error.
#
# If a checkpoint around each block saves that much, one around **the whole model** must save more: it keeps nothing but the token numbers.

# %% tags=["raises-exception"]
class OneCheckpoint(GPT):
    def forward(self, numbers):
        return checkpoint(super().forward, numbers, use_reentrant=False)


print({how: launch(train, 4, batch=16, **option).results for how, option in {
    "flash": {"attention": "flash"}, "selective": {"recompute": "selective"}, "full": {"recompute": "full"}}.items()})
launch(train, 4, batch=16, make=OneCheckpoint)

# %% [markdown]
# Read the first line that is from this notebook: `loss.backward()`.
# Forward went through, with next to nothing kept.
# Then backward ran the whole forward again, as **one** piece, and all its activations were there at once: the memory of no recomputation, for the FLOPs of full.
#
# What is kept is the number of checkpoints times an input; what comes back is a piece.
# A block is a good piece: its input is 2 of 34.
#
# ## Read the helper
#
# Open `helpers/run/measure/saved_tensors.py` and `PARTS` in `helpers/predict/activations.py`.
#
# 1. In `saved`, why is each tensor put into `first_of`, and not only its address?
# 2. Which rows of `PARTS` does selective recomputation drop, and how often is s in their shapes?
#
# <details><summary>Answers</summary>
# 1. A tensor that is freed within the block, such as one that a checkpoint drops, leaves its address to another one, which would then be taken for a tensor already counted. Held until the end, no address comes twice. 2. Those with <code>dropped_by="selective"</code>: softmax, its mask and what is left after dropout, with s twice; and flash attention's logsumexp, with s once.
# </details>

# %% [markdown]
# ## Check yourself
#
# **1.** "We are on FSDP with 256 ranks, so activations are sharded 256 times." What is sharded, and what is not?
#
# <details><summary>Answer</summary>
# A common misconception. Parameters, gradients and optimizer state are sharded. Activations are each rank's own, of its own samples, in every stage of ZeRO. With more ranks they get less only if each rank gets fewer samples.
# </details>
# <br>
#
# **2.** Twice the sequence, half the batch: the same number of tokens on a rank. The same memory?
#
# <details><summary>Answer</summary>
# With flash attention, or with selective recomputation, yes: all that is kept is proportional to s times b (but the one block that is run again holds its scores for a moment). With stored attention no: the part a s s b doubles.
# </details>
# <br>
#
# **3.** 7.5 billion parameters: width 4,096, 32 heads, 36 blocks, bf16, flash attention, one sequence of 8,192 tokens a rank, ZeRO-3 on 64 cards of 40 GB. It runs out of memory. Somebody orders 64 more cards, somebody else wants selective recomputation. Who is right?
#
# <details><summary>Answer</summary>
# Nobody. State is 16 · 7.5e9 / 64 = 1.9 GB, so twice the ranks save 0.9 GB. Activations are 34 · 8192 · 4096 · 36 = 41 GB, and selective drops what flash does not keep anyway. Full recomputation keeps 2 for 34, 2.4 GB; tensor and sequence parallelism over 8 ranks leaves 5 GB.
# </details>

# %% [markdown]
# ## Recap
#
# Forward keeps $sbh(34 + 5as/h)$ bytes a block until backward has used them; flash attention or selective recomputation drops the square, full recomputation nearly all, for a quarter to a third more FLOPs.
# Under stage 3 activations overtake the state at about $6h/N$ tokens on a rank, and no stage shards them.
# Count, then take the least recomputation that fits, and remember the block that comes back.
#
# **Pitfalls.** Validation without `no_grad` keeps all activations while somebody holds its loss. Logits of a large vocabulary, $4sbV$ in fp32: 3.7 blocks of 34 at width 4,096 and a vocabulary of 128,256. One checkpoint for everything. More ranks with as many sequences each.
#
# **Sources.** Korthikanti et al., "Reducing Activation Recomputation", arXiv:2205.05198, sections 4 and 5, table 2, equations 7 and 8. Chen et al., "Sublinear Memory Cost", arXiv:1604.06174. Dao et al., "FlashAttention", arXiv:2205.14135. Rajbhandari et al., "ZeRO", arXiv:1910.02054. PyTorch documentation, `torch.utils.checkpoint` and `saved_tensors_hooks`.
#
# **Exercises:** `exercises/07_activations/07_activations.ipynb`.
