# %% [markdown]
# # 10 Zero bubble
#
# You will be able to say what interleaving, a split backward and two directions do to bubble and memory, hold any printed bubble formula against counted idle slots, and choose a schedule for a cluster.
#
# **80 minutes.** Needs lesson 09. A good place for a break is before DualPipe.
#
# [Open in Binder](https://mybinder.org/v2/gh/your-name/training-parallelism/HEAD?urlpath=lab/tree/notebooks/10_zero_bubble.ipynb) ·
# [Open in Colab](https://colab.research.google.com/github/your-name/training-parallelism/blob/main/notebooks/10_zero_bubble.ipynb)

# %% [markdown]
# ## Setup

# %%
import importlib.util

if not importlib.util.find_spec("helpers"):  # on Colab
    get_ipython().run_line_magic(
        "pip", "install -q --no-deps git+https://github.com/your-name/training-parallelism")

import torch
from torch import nn
from torch.nn.functional import mse_loss

from helpers.compare.plots import bubble_curves, pipeline_gantt, pipeline_picture
from helpers.compare.table import Table, predicted_vs_measured
from helpers.facts.bubbles import bubble_of_total, bubble_rate, idle_s
from helpers.facts.schedules import (BUILDERS, Action, Pair, Schedule, dualpipe, dualpipe_v, interleaved, most_held,
                                     one_f_one_b, validate, zb_h1, zb_h2, zb_v)
from helpers.facts.trace import duration_s
from helpers.predict.pipeline import bubble_1f1b, bubble_dualpipe, bubble_dualpipev, bubble_zero_bubble, simulate
from helpers.run.launch import launch, warm_up
from helpers.run.models import cut, mlp, regression
from helpers.run.pipeline import deferred_weights, run_schedule

warm_up()

# %% [markdown]
# ## Question
#
# A reference card on pipelines says:
#
# | | 1F1B | zero bubble | DualPipe | DualPipeV |
# |---|---|---|---|---|
# | bubble, 8 stages, 16 microbatches | 30.4 % | 11.3 % | 5.5 % | 6.5 % |
# | with more microbatches it | grows | grows | is constant | grows a little |
#
# and that DualPipe saves 244,583 of the 2.8 million GPU hours of DeepSeek-V3 (2.788, all its training).
#
# Is that right?
# A formula can be copied wrongly; idle slots can be counted.
# (I and W below are two halves of a backward.)

# %%
UNITS = {"F": 1, "I": 1, "W": 1, "B": 2}
trace = simulate(one_f_one_b(8, 16), UNITS)
Table(("1F1B, 8 ranks, 16 microbatches", ""), (("length", f"{duration_s(trace):g} units"), ("work of a rank", "16 x 3"),
      ("idle on each rank", f"{idle_s(trace)[0]:g}"), ("of total", f"{bubble_of_total(trace):.1%}")))

# %% [markdown]
# The first is right, (8-1)·3 idle units of 69.
#
# ## Idea
#
# Three ways to shrink $(p-1)(f+b)$:
#
# - **Interleave:** give each rank $v$ smaller stages, so that filling and draining take $1/v$ of the time.
# - **Split** backward: the rank before waits for the gradient of the *input* (I), nobody for those of the *weights* (W), until the optimizer steps; so do I at once, and W in the gaps.
# - **Overlap** two directions: microbatches enter at both ends, and a forward of one runs together with a backward of the other.
#
# | symbol | is | here |
# |---|---|---|
# | $p$, $m$ | ranks, microbatches | |
# | $v$ | stages (*chunks*) on a rank | 2 |
# | $f$, $i$, $w$ | time of F, I and W in one stage; $b = i + w$ | 1 unit each |
#
# $$ \text{interleaved: } (p-1)\frac{f+b}{v} \qquad \text{split: } (p-1)(f+i-w) \text{ if } w \le f, i $$

# %%
pictures = {"1F1B": one_f_one_b(4, 8), "interleaved 1F1B, stages half as long": interleaved(4, 8)}
halves = {name: simulate(order, UNITS if order.num_stages == 4 else {kind: t / 2 for kind, t in UNITS.items()})
          for name, order in pictures.items()}
axes = [pipeline_gantt({name: trace}, "units") for name, trace in halves.items()]

# %% [markdown]
# The picture in words: above, 1F1B in 33 units.
# Below, rank $r$ has stages $r$ and $r+4$ (boxes that are less high), all of half the time; the staircases are half as long, since a microbatch is on rank 3 after three **half** forwards.
# The step takes 28.5 units, of which 4.5 instead of 9 are idle.
#
# The price: 7 boundaries with messages instead of 3, and 11 halves held instead of 4 stages.
#
# ## Predict
#
# Now **ZB-H1**: the warm-up of 1F1B, backward split, and rank $r$ lets $r$ W wait: as many as it holds fewer forwards than rank 0.
# With 4 ranks, 8 microbatches and $f = i = w = 1$: how many units does a rank idle?

# %%
guess = None  # units

# %% [markdown]
# ## Run
#
# A split backward is real work for real ranks.
# For a linear layer $y = xA^T$, I is the product $\frac{dL}{dy} A$ and W is $\frac{dL}{dy}^T x$; only the first is waited for.

# %%
layer, x1 = nn.Linear(4, 3), torch.randn(2, 4, requires_grad=True)
with deferred_weights(layer) as owed:
    output = layer(x1)
output.backward(torch.ones(2, 3))
print("after I:", x1.grad is not None, layer.weight.grad is not None)
owed.compute()
print("after W:", layer.weight.grad is not None)

# %%
x, y = regression(48, num_features=64, num_targets=64).tensors


def step(rank, world_size, schedule, unit_s):
    torch.manual_seed(0)
    stages = cut(mlp(width=64, depth=schedule.num_stages), schedule.num_stages)
    mine = {stage: stages[stage] for stage in schedule.stages_of[rank]}
    played = run_schedule(schedule, mine, x, y, mse_loss, boundary=(len(x) // schedule.num_microbatches, 64),
                          pad_s={kind: unit_s * units for kind, units in UNITS.items()})
    return played, {stage: [p.grad for p in module.parameters()] for stage, module in mine.items()}


def trace_of(run):
    return [span for played, _ in run.results for span in played.trace]


# %%
run = launch(step, 4, zb_h1(4, 8), 0.020)
predicted = simulate(zb_h1(4, 8), {kind: 0.020 * units for kind, units in UNITS.items()})
axes = pipeline_picture({"simulated": predicted, "measured": trace_of(run)}, "ms", per_unit=1e3)

# %% [markdown]
# The picture in words: ranks start like 1F1B; then I takes the place of B.
# Rank 0 does each W right after its I; rank 3 lets three of them wait; all ranks end together, rank $r$ with $r+1$ W in a row, where 1F1B had gaps.
# Below, each rank holds up to 4 microbatches: what rank 3 does not hold as forwards, it holds as W that are owed.
#
# **Why 3 idle units?**
# Rank 3 waits $3f$ for its first forward.
# After its last I, three more I must travel up, $3i$, and meanwhile it does the three W that it saved: $3f + 3i - 3w$.
#
# ## Compare

# %%
whole = one_f_one_b(4, 8)
at_once = Schedule("W at once", tuple(tuple(
    Action(kind, *action[1:]) for action in steps for kind in {"F": "F", "B": "IW"}[action.kind])
    for steps in whole.steps), 4, 8)
idle = {order.name: max(idle_s(simulate(order, UNITS))) for order in (whole, at_once, zb_h1(4, 8))}
rows = {"ZB-H1, idle units": (3 * (1 + 1 - 1), idle["ZB-H1"]),
        "split, each W at once": (3 * (1 + 1), idle["W at once"]), "1F1B": (3 * (1 + 2), idle["1F1B"])}
still_kept = [1, 1, 1, 2 / 3]
rows |= {f"ZB-H1, held by rank {rank}": (4 - rank + rank * still_kept[rank], max(part.kept_bytes) / part.kept_bytes[0])
         for rank, (part, _) in enumerate(run.results)}
predicted_vs_measured(rows, guess=guess)

# %% [markdown]
# Splitting alone takes off a third, since ranks wait for I only; the W that wait take off another.
# No rank holds more than rank 0 of 1F1B did.
# (W keeps two tensors, input and gradient. A forward kept two, and on rank 3 the loss's target besides: hence 2/3.)
#
# The card's 11.3 % is $(p-1)/(3m+2(p-1))$; counted, it is $(p-1)/(3m+p-1)$, 12.7 %.
#
# ## Predict
#
# **ZB-H2** lets $2p-1$ forwards in before the first I, to fill the gaps at the start, too.
# **ZB-V** gives each rank two half stages, placed like a V: rank 0 has the first and the **last**.
# With 4 ranks and 12 microbatches: what is the bubble of ZB-H2, in % of all time?

# %%
guess = None  # %

# %% [markdown]
# ## Run

# %%
bubbles = {"ZB-H1": zb_h1(4, 12), "ZB-H2": zb_h2(4, 12), "ZB-V": zb_v(4, 12)}
traces = {name: simulate(order, UNITS if order.num_stages == 4 else {kind: t / 2 for kind, t in UNITS.items()})
          for name, order in bubbles.items()}
axes = [pipeline_gantt({name: trace}, "units") for name, trace in list(traces.items())[1:]]

# %% [markdown]
# The picture in words: each rank of ZB-H2 starts one unit after the one above, then works without a gap, and ends one unit after it.
# ZB-V (light F, middle I, dark W) looks the same with half the shift.
#
# ## Compare

# %%
predicted_vs_measured({
    "ZB-H2, % of total": (100 * 3 / (36 + 3), 100 * bubble_of_total(traces["ZB-H2"])),
    "ZB-H1, % of total": (100 * 3 / (36 + 3), 100 * bubble_of_total(traces["ZB-H1"])),
    "ZB-H2, % of own span": (0, 100 * bubble_rate(traces["ZB-H2"])),
    "ZB-V, % of own span": (0, 100 * bubble_rate(traces["ZB-V"])),
    "ZB-H2, stages held by rank 0": (2 * 4 - 1, most_held(bubbles["ZB-H2"])[0]),
    "ZB-V, stages held by rank 0": (2 * 4 / 2, most_held(bubbles["ZB-V"])[0] / 2)}, guess=guess,
    columns=("formula", "simulated"))

# %% [markdown]
# **Zero** counts idle time in a rank's **own** span.
# From the first start to the last end, ZB-H2 idles as long as ZB-H1, in nearly twice the memory.
# It gains if the next step starts at once.
# Clipping by a **global** norm waits for all stages; the paper lets the optimizer step, and takes a step back if the norm, known later, was too large.
#
# The V: rank 0 has the last stage, too, so its first backward comes early, and all ranks hold 8 halves, the memory of 1F1B.

# %% [markdown]
# ## Predict
#
# **DualPipe:** half of the microbatches enters at each end, so every rank holds **two** stages, every weight exists twice, and the two gradients are added.
# For 8 ranks, 16 microbatches, and pairs of F and B that save nothing: what is idle, in % of all time?

# %%
guess = None  # %

# %% [markdown]
# ## Run

# %%
run = launch(step, 4, dualpipe(4, 12), 0.020)
predicted = simulate(dualpipe(4, 12), {kind: 0.020 * units for kind, units in UNITS.items()})
axes = pipeline_picture({"simulated": predicted, "measured": trace_of(run)}, "ms", per_unit=1e3)

# %% [markdown]
# The picture in words: ranks 0 and 3 start at the same time, with microbatches 0 and 6; the middle ranks have work after one unit.
# Later, most boxes are double: a forward above a backward of the other direction.
# On real devices the messages *inside* one (a mixture of experts exchanges tokens there) hide behind the computing of the other; our ranks do both in turn.
# Each rank holds at most $p + 1$ forwards.
#
# A first microbatch passes only $p/2 - 1$ ranks before it meets the other direction, so half of the pipeline is exposed.
#
# ## Compare
#
# The formulas of `helpers/predict/pipeline/bubble.py` against what the simulator counts, for 8 stages and 16 microbatches:

# %%
claims = {"DualPipe": (bubble_dualpipe(8, 16), dualpipe(8, 16)), "1F1B": (bubble_1f1b(8, 16), one_f_one_b(8, 16)),
          "ZB-H1": (bubble_zero_bubble(8, 16), zb_h1(8, 16)),
          "DualPipeV, 4 ranks": (bubble_dualpipev(8, 16), dualpipe_v(4, 16))}
rows = {name: (100 * formula, 100 * bubble_of_total(simulate(order, UNITS))) for name, (formula, order) in claims.items()}
shorter = bubble_of_total(simulate(dualpipe(8, 16), UNITS | {"F&B": 2}))
predicted_vs_measured(rows, guess=guess, unit="%", columns=("formula", "simulated"), notes=(
    "The card: 1F1B 30.4, zero bubble 11.3, DualPipe 5.5, DualPipeV 6.5.",
    f"DualPipe, pairs of 2 units: {bubble_dualpipe(8, 16, pair=2):.1%} of idle time and m (f + b), {shorter:.1%} of total."))

# %% [markdown]
# The card's 5.5 % has no source: DeepSeek's formula is $(p/2-1)(\text{pair} + i - 2w)$, 6 units here.
# Near 5.5 it comes only if a pair takes 2 units instead of 3.
#
# **DualPipeV** folds DualPipe in the middle: stages $r$ and $2n-1-r$ on rank $r$ of $n$, no copies.
# By the card its bubble is a fifth larger (6.5 to 5.5).
# With the same 8 **stages** it has 4 ranks and idles the same 6 units; but a rank has twice the work, so that is 5.9 %.
# On the same 8 **ranks** it has 16 stages of half the size:

# %%
half, counts = {kind: units / 2 for kind, units in UNITS.items()}, [16, 32, 64, 128]
on_8_ranks = {"1F1B": (one_f_one_b, UNITS), "ZB-H1": (zb_h1, UNITS), "DualPipe": (dualpipe, UNITS),
              "DualPipeV": (dualpipe_v, half), "ZB-V": (zb_v, half)}
traces = {name: [simulate(build(8, m), times) for m in counts] for name, (build, times) in on_8_ranks.items()}
axes = bubble_curves({name: list(map(bubble_of_total, each)) for name, each in traces.items()}, counts)
Table(("idle units on 8 ranks, microbatches:", *map(str, counts)), tuple(
    (name, *(f"{max(idle_s(trace)):g}" for trace in each)) for name, each in traces.items()))


# %% [markdown]
# The picture in words: five falling curves; 1F1B from 30 % to 5 %; ZB-H1 and DualPipeV, one on the other, from 13 % to 2 %; DualPipe a little and ZB-V clearly below.
#
# DualPipeV idles $(n-1)/(n-2)$ times as long as DualPipe, 7 to 6 units: the price of not having every weight twice.
# And the card's second row is wrong for all four: the idle **time** of each is constant, and each fraction **falls**.
#
# **Is it the same training?**
# All eight schedules on four real ranks, every gradient against one process on the whole batch; a copy counts like the original.

# %%
def apart(schedule, run):
    torch.manual_seed(0)
    model = mlp(width=64, depth=schedule.num_stages)
    mse_loss(model(x), y).backward()
    whole = [[p.grad for p in stage.parameters()] for stage in cut(model, schedule.num_stages)]
    return max(((a - b).abs().max() / b.abs().max()).item() for _, grads in run.results
               for stage, ours in grads.items() for a, b in zip(ours, whole[stage], strict=True))


schedules = {name: build(4, 12) for name, build in BUILDERS.items()}
Table(("4 ranks, 12 microbatches", "stages", "within 1e-6 of one process"), tuple(
    (name, str(order.num_stages), str(apart(order, launch(step, 4, order, 0.0)) < 1e-6)) for name, order in schedules.items()))

# %% [markdown]
# ## Scale it
#
# **GPU hours.**
# DeepSeek-V3's 2.8 million were paid **with** DualPipe, on 16 stages, so they contain its bubble; suppose 128 microbatches.
# With another schedule, the same work takes $(1-\text{bubble}_{\text{DualPipe}})/(1-\text{bubble})$ times as long:

# %%
hours, paid = 2.8e6, 1 - bubble_dualpipe(16, 128)
fractions = {"1F1B": bubble_1f1b(16, 128), "ZB-H1": bubble_zero_bubble(16, 128), "DualPipe": bubble_dualpipe(16, 128)}
Table(("16 stages, 128 microbatches", "of total", "GPU hours", "saved against 1F1B"), tuple(
    (name, f"{fraction:.1%}", f"{hours * paid / (1 - fraction):,.0f}",
     f"{hours * paid / (1 - fractions['1F1B']) - hours * paid / (1 - fraction):,.0f}") for name, fraction in fractions.items()))

# %% [markdown]
# The card subtracts percents of its wrong figure; it is 218,000 hours, and ZB-H1 alone gives nearly all of that, with one copy of the weights.
# What DualPipe is for enters as a pair shorter than $f+b$, and we took $f+b$.
#
# **When is each worth it?**
#
# | you have | take |
# |---|---|
# | so many microbatches that the bubble is small, or a backward that cannot be split | 1F1B |
# | few microbatches, bandwidth for more than twice the messages, more memory | interleaved 1F1B |
# | a backward that can be split, and 1F1B's memory | ZB-H1, ZB-V |
# | nearly twice that memory, no global norm | ZB-H2 |
# | experts that exchange tokens *inside* each stage for as long as it computes | DualPipe, DualPipeV |
#
# $f = i = w$ is an idealization: Qi et al. measured 18.5, 18.1 and 9.3 ms for a 1.5B model.

# %% tags=["nbval-ignore-output"]
from helpers.compare.widgets import pipeline_explorer

pipeline_explorer("ZB-H1", ranks=4, microbatches=8)

# %% [markdown]
# **By hand:** point at a box to read what it is.
# Each time from W = 1 and no message: make W as short as 0.25 under ZB-H1; give messages 0.5 under 1F1B, and take 8, 16, 32 microbatches; let a pair of DualPipe save 1.
#
# <details><summary>What you should have seen</summary>
# With short W there is little to fill gaps with: the bubble is (p-1)(f+i-w), 5.25 units, where 1F1B's would be 6.75. Messages stretch every round of 1F1B, so its idle time now grows with microbatches: 17, 23, 35 units (DualPipe's grows, too, more slowly). A pair that saves 1 unit brings DualPipe's idle time from 2 to 1 units.
# </details>
#
# ## Break it
#
# **Memory.**
# Rank 0 has room for 4 microbatches, and somebody plays ZB-H2:

# %% tags=["raises-exception"]
validate(zb_h2(4, 6), cap=4)

# %% [markdown]
# **W too early.**
# A W is a product with the gradient that I receives; before I there is none.

# %% tags=["raises-exception"]
order = zb_h1(2, 3)
early = Action("W", 1, 0)
swapped = (Action("F", 1, 0), early, *(action for action in order.steps[1][1:] if action != early))
validate(Schedule("W first", (order.steps[0], swapped), 2, 3))

# %% [markdown]
# **A pair of its own.**
# The forward and the backward of **one** microbatch cannot overlap in one stage: the second needs the first.

# %% tags=["raises-exception"]
own = Pair(Action("F", 0, 0), Action("B", 0, 0))
validate(Schedule("overlap with itself", ((own,),), 1, 1))

# %% [markdown]
# ## Read the helper
#
# Open `helpers/facts/schedules/zero_bubble.py`: both schedules are one short function, `_order`.
#
# 1. ZB-H1 and ZB-H2 differ in two numbers. What do they say, and why does rank $r$ get $r$ in one and $2r$ in the other?
# 2. Which call of `_order` gives "W at once" of the table above, and why does that idle less than 1F1B?
#
# <details><summary>Answers</summary>
# 1. How many forwards come before the first I, and how many W may be owed. Each step down the pipeline, forwards in hand fall by one (two), and owed W may rise by as many in the same memory. 2. num_forwards = p - r, as ZB-H1, and num_waiting = 0. The rank before gets its gradient after I, and does not wait for W.
# </details>

# %% [markdown]
# ## Check yourself
#
# **1.** "ZB-H2 has no bubble." When is that true?
#
# <details><summary>Answer</summary>
# In a rank's own span, for instance if f = i = w and m is at least 2p - 1; and it is worth something if nobody waits for all ranks before the optimizer's step. From the first start to the last end, each rank idles (p-1) f, as long as in ZB-H1.
# </details>
# <br>
#
# **2.** Does the bubble of DualPipe stay the same while 1F1B's grows with more microbatches?
#
# <details><summary>Answer</summary>
# No, a common misconception. The idle time of both is constant, and as a fraction of a longer step both fall. What grows with microbatches is exposed message time, if messages are slow, in both.
# </details>
# <br>
#
# **3.** You have 8 ranks, 64 microbatches, memory for 8 microbatches, and the global norm is clipped. Which of these schedules, and what do you expect?
#
# <details><summary>Answer</summary>
# ZB-V, if the model can be cut in 16: 8 held, 3.5/(192+3.5) = 1.8 % of total. Else ZB-H1: 8 held, 7/(192+7) = 3.5 %. 1F1B idles 7/71 = 9.9 %. The others need more memory: DualPipe 9, interleaved 11.5, ZB-H2 15, and the norm makes all ranks wait anyway.
# </details>

# %% [markdown]
# ## Recap
#
# Interleaving divides the bubble by the number of chunks and multiplies messages; splitting backward lets W fill the gaps; two directions expose only half of the pipeline.
# Whatever the schedule, with enough microbatches and fast messages the bubble's time is constant and its fraction falls.
# A printed bubble means nothing without its definition: of total, of ideal, of a rank's own span, or in units.
#
# **Pitfalls.** Figures of two definitions side by side. B as whole backward in one paper and as I in another. The same number of stages taken for the same number of ranks. Zero bubble with a global norm. Formulas that nobody has played.
#
# **Sources.** Narayanan et al., arXiv:2104.04473, section 2.2. Qi et al., "Zero Bubble Pipeline Parallelism", arXiv:2401.10241, sections 2, 4 and 6, tables 2, 5 and 8. DeepSeek-V3, arXiv:2412.19437, section 3.2.1, table 1 (GPU hours) and figure 5. deepseek-ai/DualPipe, README. PyTorch documentation, `torch.distributed.pipelining`.
#
# **Exercises:** `exercises/10_zero_bubble/10_zero_bubble.ipynb`.
