# %% [markdown]
# # 10 Zero bubble
#
# You will be able to say what interleaving, a split backward and two directions do to bubble and memory, hold any printed bubble formula against counted idle slots, and choose a schedule for a cluster.
#
# **60 minutes.** Needs lesson 09.
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
from helpers.facts.schedules import (BUILDERS, Action, Schedule, dualpipe, dualpipe_v, interleaved, most_held,
                                     one_f_one_b, validate, zb_h1, zb_h2, zb_v)
from helpers.facts.trace import duration_s
from helpers.predict.bubble import bubble_1f1b, bubble_dualpipe, bubble_dualpipev, bubble_zero_bubble
from helpers.predict.simulate import simulate
from helpers.run.data import regression
from helpers.run.launch import launch, warm_up
from helpers.run.models import cut, mlp
from helpers.run.pipeline import run_schedule
from helpers.run.split_backward import deferred_weights

warm_up()

# %% [markdown]
# ## Question
#
# A reference card for 8 stages and 16 microbatches prints these bubbles: 1F1B 30.4 %, zero bubble 11.3 %, DualPipe 5.5 %, DualPipeV 6.5 %.
# DeepSeek-V3 was trained with DualPipe in 2.8 million GPU hours (2.788, of all its training), so each percent is 28,000 hours.
#
# Are the figures right?
# A formula can be copied wrongly; idle slots can be counted.

# %%
UNITS = {"F": 1, "I": 1, "W": 1, "B": 2}
trace = simulate(one_f_one_b(8, 16), UNITS)
Table(("1F1B, 8 ranks, 16 microbatches", ""), (("length", f"{duration_s(trace):g} units"), ("work of a rank", "16 x 3"),
      ("idle on each rank", f"{idle_s(trace)[0]:g}"), ("of total", f"{bubble_of_total(trace):.1%}")))

# %% [markdown]
# The first is right, (8-1)·3 idle units of 69.
# Now the others.
#
# ## Idea
#
# Three ways to shrink $(p-1)(f+b)$:
#
# - **Interleave:** give each rank $v$ smaller stages instead of one, so that filling and draining take $1/v$ of the time.
# - **Split** backward: the next rank waits for the gradient of the *input* (I), nobody for those of the *weights* (W); so do I at once, and W in the gaps.
# - **Overlap** two directions: microbatches enter at both ends, and a forward of one runs together with a backward of the other.
#
# | symbol | is | here |
# |---|---|---|
# | $p$, $m$ | ranks, microbatches | |
# | $v$ | stages (*chunks*) on a rank | 2 |
# | $f$, $i$, $w$ | time of F, I and W in one stage; $b = i + w$ | 1 unit each |
#
# $$ \text{interleaved: } (p-1)\frac{f+b}{v} \qquad \text{split: } (p-1)(f+i-w) $$

# %%
pictures = {"1F1B": one_f_one_b(4, 8), "interleaved 1F1B, stages half as long": interleaved(4, 8)}
halves = {name: simulate(order, UNITS if order.num_stages == 4 else {kind: t / 2 for kind, t in UNITS.items()})
          for name, order in pictures.items()}
axes = [pipeline_gantt({name: trace}, "units") for name, trace in halves.items()]

# %% [markdown]
# The picture in words: above, 1F1B in 33 units.
# Below, each rank has a second stage (boxes that are less high), all stages take half the time, and the step takes 28.5 units; the ranks start and end with shorter staircases.
# The idle time fell from 9 to 4.5 units.
#
# The price is twice as many messages, and memory: rank 0 holds 11 halves, so 5.5 where 1F1B holds 4.
#
# ## Predict
#
# Now **ZB-H1**: the same warm-up as 1F1B, backward split, W as late as the memory of 1F1B allows.
# With 4 ranks, 8 microbatches and $f = i = w = 1$: how many units does a rank idle?

# %%
guess = None  # units

# %% [markdown]
# ## Run
#
# A split backward is real work for real ranks.
# For a linear layer $y = xW^T$, I is $\frac{dL}{dy} W$ and W is $\frac{dL}{dy}^T x$: two products, of which only the first is waited for.

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
# Rank 0 does each W right after its I; rank 3 lets three of them wait, and all ranks end together with a row of W, where 1F1B had gaps.
# Below, each rank holds up to 4 microbatches: what rank 3 does not hold as forwards, it holds as W that are owed.
#
# ## Compare

# %%
split = {name: build(4, 8) for name, build in (("1F1B", one_f_one_b), ("ZB-H1", zb_h1))}
idle = {name: max(idle_s(simulate(order, UNITS))) for name, order in split.items()}
rows = {"ZB-H1, idle units": (3 * (1 + 1 - 1), idle["ZB-H1"]), "1F1B, idle units": (3 * (1 + 2), idle["1F1B"])}
owed = [1, 1, 1, 2 / 3]     # what W keeps, of what a forward kept: on rank 3 that had the target, too
rows |= {f"ZB-H1, held by rank {rank}": (4 - rank + rank * owed[rank], max(played.kept_bytes) / played.kept_bytes[0])
         for rank, (played, _) in enumerate(run.results)}
predicted_vs_measured(rows, guess=guess, unit="units")

# %% [markdown]
# A third of 1F1B's bubble, in the memory of its rank 0.
# W keeps a layer's input and the gradient of its output; what else a forward kept, I has used up (here the target, in a transformer attention's scores).
#
# The card's 11.3 % for 8 stages and 16 microbatches is $(p-1)/(3m+2(p-1))$; counted, it is $(p-1)/(3m+p-1)$.
#
# ## Predict
#
# **ZB-H2** lets $2p-1$ forwards in before the first I, to fill the gaps at the start, too.
# **ZB-V** gives each rank two half stages placed like a V: rank 0 has the first and the **last**.
# For 4 ranks and 12 microbatches: what is the bubble of ZB-H2, in % of all time?

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
# ZB-V looks the same with half the shift.
#
# ## Compare

# %%
predicted_vs_measured({
    "ZB-H2, % of total": (100 * 3 / (36 + 3), 100 * bubble_of_total(traces["ZB-H2"])),
    "ZB-H2, % of own span": (0, 100 * bubble_rate(traces["ZB-H2"])),
    "ZB-V, % of own span": (0, 100 * bubble_rate(traces["ZB-V"])),
    "ZB-H2, held by rank 0": (2 * 4 - 1, most_held(bubbles["ZB-H2"])[0]),
    "ZB-V, half stages held by rank 0": (2 * 4, most_held(bubbles["ZB-V"])[0])}, guess=guess, unit="%")

# %% [markdown]
# **Zero** is a matter of definition: the paper's *bubble rate* is idle time within a rank's **own** span.
# From the first start to the last end, each rank idles $(p-1)f$.
# That is gone only if nobody waits for the others at the end, so that the next step fills it.
# Clipping by a **global** norm does wait; the paper steps first and checks later.
#
# ## Predict
#
# **DualPipe:** half of the microbatches enters at rank 0, half at the last rank, so every rank holds **two** stages, and every weight exists twice.
# For 8 ranks, 16 microbatches, and pairs of F and B that take as long as one after the other: what is idle, in % of all time?

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
# In the middle of the step, most boxes are double: a forward above a backward.
# On real devices these two overlap, so that the messages of one hide behind the computing of the other; our ranks do them one after the other, in the time of both.
# Each rank holds at most 5 forwards, $p + 1$, for any number of microbatches.
#
# ## Compare
#
# The formulas of `helpers/predict/bubble.py`, the idle time that the simulator counts, and what the card prints, all for 8 stages and 16 microbatches:

# %%
overlaps = {"": {}, ", F&B takes 2": {"F&B": 2}}
rows = {f"DualPipe{name}": (100 * bubble_dualpipe(8, 16, pair=pair.get("F&B")), max(idle_s(simulate(dualpipe(8, 16), UNITS | pair))))
        for name, pair in overlaps.items()}
rows |= {"1F1B": (100 * bubble_1f1b(8, 16), max(idle_s(simulate(one_f_one_b(8, 16), UNITS)))),
         "ZB-H1": (100 * bubble_zero_bubble(8, 16), max(idle_s(simulate(zb_h1(8, 16), UNITS)))),
         "DualPipeV, 4 ranks": (100 * bubble_dualpipev(8, 16), max(idle_s(simulate(dualpipe_v(4, 16), UNITS))))}
work = {name: 96 if "V" in name else 48 for name in rows}
predicted_vs_measured({name: (percent, 100 * idle / (work[name] + idle)) for name, (percent, idle) in rows.items()},
                      guess=guess, unit="%", notes=("The card: 1F1B 30.4, zero bubble 11.3, DualPipe 5.5, DualPipeV 6.5.",))

# %% [markdown]
# The card's DualPipe has no source: its authors' formula is $(p/2-1)(\overline{fb}+b-3w)$, 6 units here, 11.1 %.
# Near the card's figure it comes only if a pair takes 2 units instead of 3.
#
# **DualPipeV** folds DualPipe in the middle: stages $r$ and $2n-1-r$ on rank $r$ of $n$, no copies.
# Is its bubble "20 % larger"?
# With the same 8 **stages** it runs on 4 ranks and idles the same 6 units; but a rank has twice the work, so that is 5.9 %.
# On the same 8 **ranks** it has 16 stages of half the size:

# %%
half = {kind: units / 2 for kind, units in UNITS.items()}
Table(("16 microbatches on 8 ranks", "idle", "of total", "weights"), (
    ("DualPipe, 8 stages", f"{idle_s(simulate(dualpipe(8, 16), UNITS))[0]:g}", f"{bubble_of_total(simulate(dualpipe(8, 16), UNITS)):.1%}", "twice"),
    ("DualPipeV, 16 half stages", f"{idle_s(simulate(dualpipe_v(8, 16), half))[0]:g}", f"{bubble_of_total(simulate(dualpipe_v(8, 16), half)):.1%}", "once"),
    ("ZB-V, 16 half stages", f"{idle_s(simulate(zb_v(8, 16), half))[0]:g}", f"{bubble_of_total(simulate(zb_v(8, 16), half)):.1%}", "once")))

# %% [markdown]
# $(n-1)/(n-2)$, so 7 to 6 units: the price of not having every weight twice.
# And the card's last row, "bubble against microbatches: grows, grows, constant, small growth", is wrong for all four: the idle **time** of each is constant, and each fraction **falls**.

# %%
counts = [16, 32, 64, 128]
curves = {name: [bubble_of_total(simulate(build(8, m), UNITS)) for m in counts]
          for name, build in (("1F1B", one_f_one_b), ("ZB-H1", zb_h1), ("DualPipe", dualpipe))}
axes = bubble_curves(curves, counts)


# %% [markdown]
# The picture in words: three falling curves; 1F1B from 30 % to 5 %, ZB-H1 and DualPipe close together from about 12 % to less than 2 %.
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
# DeepSeek-V3's 2.8 million were paid **with** DualPipe, on 16 stages; suppose 128 microbatches.
# With another schedule, the same work takes $(1-\text{bubble}_{\text{DualPipe}})/(1-\text{bubble})$ times as long:

# %%
hours, paid = 2.8e6, 1 - bubble_dualpipe(16, 128)
fractions = {"1F1B": bubble_1f1b(16, 128), "ZB-H1": bubble_zero_bubble(16, 128), "DualPipe": bubble_dualpipe(16, 128)}
Table(("16 stages, 128 microbatches", "of total", "GPU hours", "saved against 1F1B"), tuple(
    (name, f"{fraction:.1%}", f"{hours * paid / (1 - fraction):,.0f}",
     f"{hours * paid / (1 - fractions['1F1B']) - hours * paid / (1 - fraction):,.0f}") for name, fraction in fractions.items()))

# %% [markdown]
# The card promises 244,583 hours; it is 218,000, and ZB-H1 alone gives nearly all of that, without a second copy of the weights.
# What DualPipe is for is the overlap: its pairs hide the all-to-all messages of a mixture of experts, which no formula here counts.
#
# **When is each worth it?**
#
# | you have | take |
# |---|---|
# | memory for $p$ microbatches, many microbatches | 1F1B |
# | few microbatches, fast links | interleaved 1F1B |
# | a backward that can be split | ZB-H1, ZB-V |
# | memory for twice as many, no global norm | ZB-H2 |
# | messages as long as the computing | DualPipe, DualPipeV |

# %% tags=["nbval-ignore-output"]
from helpers.compare.widgets import pipeline_explorer

pipeline_explorer("ZB-H1", ranks=4, microbatches=8)

# %% [markdown]
# **By hand:** point at a box to read what it is.
# Make W as short as 0.25 units under ZB-H1, then give messages half a unit under 1F1B, then let a pair of DualPipe save 1 unit.
#
# <details><summary>What you should have seen</summary>
# With short W there is little to fill gaps with: the bubble is (p-1)(f+i-w), 5.25 units, where 1F1B's would be 6.75. Messages stretch every round of 1F1B, so its bubble now grows with the number of microbatches. A pair that saves 1 unit brings DualPipe's idle time from 2 to 1 units.
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
swapped = (Action("F", 1, 0), Action("W", 1, 0), Action("I", 1, 0), *order.steps[1][2:])
validate(Schedule("W first", (order.steps[0], tuple(dict.fromkeys(swapped))), 2, 3))

# %% [markdown]
# **A pair of its own.**
# The forward and the backward of **one** microbatch cannot overlap in one stage: the second needs the first.
# A pair takes its two from different microbatches, and in DualPipe from different directions.
#
# ## Read the helper
#
# Open `helpers/facts/schedules/zero_bubble.py`: both schedules are one function of eight lines, `_order`.
#
# 1. ZB-H1 and ZB-H2 differ in two numbers. What do they say, and why does rank $r$ get $r$ in one and $2r$ in the other?
# 2. How would you have to call `_order` to get 1F1B, if a B is an I with its W right after it?
#
# <details><summary>Answers</summary>
# 1. How many forwards come before the first I, and how many W may be owed. Each step down the pipeline, forwards in hand fall by one (two), and owed W may rise by as many in the same memory. 2. num_forwards = p - r, as ZB-H1, and num_waiting = 0.
# </details>

# %% [markdown]
# ## Check yourself
#
# **1.** "ZB-H2 has no bubble." When is that true?
#
# <details><summary>Answer</summary>
# In a rank's own span, if f = i = w, m is at least 2p - 1, and nobody waits for all ranks before the optimizer's step. From the first start to the last end of all ranks, each idles (p-1) f.
# </details>
# <br>
#
# **2.** Does the bubble of DualPipe stay the same while 1F1B's grows with more microbatches?
#
# <details><summary>Answer</summary>
# No, a common misconception. The idle time of both is constant, and as a fraction of a longer step both fall. What grows with microbatches in 1F1B is exposed message time, if messages are slow.
# </details>
# <br>
#
# **3.** You have 8 ranks, 64 microbatches, memory for 8 microbatches, and the global norm is clipped. Which of these schedules, and what do you expect?
#
# <details><summary>Answer</summary>
# 1F1B idles 7/71 = 9.9 % of total. ZB-H1 fits the same memory and idles 7/(192+7) = 3.5 %; ZB-V, half that, if the model can be cut in 16. ZB-H2 needs memory for 15, and the norm makes all wait anyway.
# </details>

# %% [markdown]
# ## Recap
#
# Interleaving divides the bubble by the number of chunks and multiplies messages; splitting backward lets W fill the gaps; two directions expose only half of the pipeline.
# Whatever the schedule, the bubble's time is constant and its fraction falls with the number of microbatches.
# A printed bubble means nothing without its definition: of total, of ideal, of a rank's own span, or in units.
#
# **Pitfalls.** Figures of two definitions side by side. B as whole backward in one paper and as I in another. The same number of stages taken for the same number of ranks. Zero bubble with a global norm. Formulas that nobody has played.
#
# **Sources.** Narayanan et al., arXiv:2104.04473, section 2.2. Qi et al., "Zero Bubble Pipeline Parallelism", arXiv:2401.10241, sections 2, 4 and 6, tables 2, 5 and 8. DeepSeek-V3, arXiv:2412.19437, section 3.2.1, table 1 (GPU hours) and figure 5. deepseek-ai/DualPipe, README. PyTorch documentation, `torch.distributed.pipelining`.
#
# **Exercises:** `exercises/10_zero_bubble/10_zero_bubble.ipynb`.
