# %% [markdown]
# # 09 Pipeline
#
# You will be able to cut a model into stages, foretell the bubble and the memory of GPipe and 1F1B, play any order of work on real ranks, and find the slow stage, the deadlock and the wrong scale.
#
# **75 minutes.** Needs lessons 00 and 03. A good place for a break is before "Scale it".
#
# [Open in Binder](https://mybinder.org/v2/gh/your-name/training-parallelism/HEAD?urlpath=lab/tree/notebooks/09_pipeline.ipynb) ·
# [Open in Colab](https://colab.research.google.com/github/your-name/training-parallelism/blob/main/notebooks/09_pipeline.ipynb)

# %% [markdown]
# ## Setup

# %%
import importlib.util

if not importlib.util.find_spec("helpers"):  # on Colab
    get_ipython().run_line_magic(
        "pip", "install -q --no-deps git+https://github.com/your-name/training-parallelism")

import torch
import torch.distributed as dist
from torch.nn.functional import mse_loss

from helpers.compare.plots import bubble_curves, pipeline_gantt, pipeline_picture
from helpers.compare.table import Table, predicted_vs_measured
from helpers.facts.bubbles import bubble_of_ideal, bubble_of_total
from helpers.facts.schedules import Action, Schedule, gpipe, most_held, one_f_one_b, validate
from helpers.facts.trace import duration_s
from helpers.predict.flops import Shape
from helpers.predict.pipeline import bubble_fraction, simulate, stage_flops, stage_params
from helpers.run.launch import launch, warm_up
from helpers.run.models import cut, mlp, regression
from helpers.run.pipeline import run_schedule

warm_up()

# %% [markdown]
# ## Question
#
# A model is too large for one device, so four ranks take a quarter of its layers each: a **stage**.
# An activation passes through them, its gradient comes back.
#
# The model is tiny.
# So that a stage takes as long as on a device, each step sleeps until 160 ms (forward of the whole batch) or 320 ms (backward) are over; numbers and messages are real.

# %%
x, y = regression(32, num_features=64, num_targets=64).tensors


def step(rank, world_size, schedule, forward_s, **options):
    torch.manual_seed(0)
    stages = cut(mlp(width=64, depth=schedule.num_stages), schedule.num_stages)
    mine = {rank: stages[rank]}
    handed_on = (len(x) // schedule.num_microbatches, 64)       # shape of what a stage gives to the next
    least_s = {"F": forward_s, "B": 2 * forward_s}
    played = run_schedule(schedule, mine, x, y, mse_loss, boundary=handed_on, pad_s=least_s, **options)
    return played, [parameter.grad for parameter in mine[rank].parameters()]


# %%
def trace_of(run):
    return [span for played, _ in run.results for span in played.trace]


naive = trace_of(launch(step, 4, gpipe(4, num_microbatches=1), 0.160))
axes = pipeline_gantt({"naive": naive}, "ms", per_unit=1e3)

# %% [markdown]
# The picture in words: a staircase of forwards F0 down, one of backwards B0 up; one rank works at a time.
#
# Four devices take as long as one with enough memory would, and idle 75 % of their time.
#
# ## Idea
#
# Cut the **batch**, too.
# While rank 1 works on the first **microbatch**, rank 0 starts the second.
# All forwards, then all backwards: that is **GPipe**; with one microbatch it is the naive step.
#
# | symbol | is | here |
# |---|---|---|
# | $p$ | stages, one on each rank | 4 |
# | $m$ | microbatches of a batch | 8 |
# | $f$, $b$ | time of forward and backward of one microbatch in one stage | 1 and 2 units of 20 ms |
#
# Rank $r$ waits $r\,f$ at first, $r\,b$ at the end, and $(p-1-r)(f+b)$ in between: $(p-1)(f+b)$ on each rank, the **bubble**.
# *Of total* is idle over all time, *of ideal* over the time with work, $m(f+b)$:
#
# $$ \text{of total} = \frac{p-1}{m+p-1} \qquad \text{of ideal} = \frac{p-1}{m} $$
#
# Papers use both; $x$ of ideal is $x/(1+x)$ of total.

# %%
schedule = gpipe(4, 3)
schedule.steps[1]

# %% [markdown]
# That is a **schedule**: for each rank, who does what in which order, and no times.
# Rank 1 of GPipe with three microbatches: three forwards of stage 1, then three backwards.
# Two players read it: `simulate`, which has only a clock, and `run_schedule`, which has real ranks.
#
# ## Predict
#
# GPipe with 4 stages and 8 microbatches: how many percent of all time do ranks idle?

# %%
guess = None  # %

# %% [markdown]
# ## Run
#
# The same work as above: 8 microbatches, each an eighth of the time.

# %%
eighth = 0.160 / 8
predicted = simulate(gpipe(4, 8), {"F": eighth, "B": 2 * eighth})
run = launch(step, 4, gpipe(4, 8), eighth)
axes = pipeline_picture({"simulated": predicted, "measured": trace_of(run)}, "ms", per_unit=1e3)

# %% [markdown]
# The picture in words: forwards run down the ranks like a parallelogram, backwards run up like another.
# Blank are a triangle before them (rank 3 starts last), one after them (rank 3 ends first), and one between them, widest on rank 0.
# The measured rows lag a little, and more the further the step goes; the number at the right says by how many ms a rank ends later.
# Below: what each rank holds climbs to 8 microbatches, on all of them.
#
# ## Compare

# %% tags=["nbval-ignore-output"]
measured = trace_of(run)
predicted_vs_measured({
    "idle, % of total": (100 * bubble_fraction(4, 8), 100 * bubble_of_total(measured)),
    "idle, % of ideal": (100 * 3 / 8, 100 * bubble_of_ideal(measured)),
    "length, ms": (1e3 * (8 + 3) * 3 * eighth, 1e3 * duration_s(measured))}, guess=guess,
    notes=(f"The naive step took {1e3 * duration_s(naive):,.0f} ms.",))

# %% [markdown]
# 3/11 = 27.27 % of total and 3/8 = 37.5 % of ideal are **one** bubble.
# What is measured beyond it is messages, and processes that wake up late.
#
# Some texts say that the bubble grows with the number of microbatches.
# Its time does not: $(p-1)(f+b)$.
# As a part of a longer step it **falls**.
# Lines are the formula, marks are played by the simulator:

# %%
counts = [1, 2, 4, 8, 16, 32, 64]
formula = {f"{p} stages": [bubble_fraction(p, m) for m in counts] for p in (4, 8, 16)}
played = {f"{p} stages": [bubble_of_total(simulate(gpipe(p, m), {"F": 1, "B": 2})) for m in counts] for p in (4, 8, 16)}
axes = bubble_curves(formula, counts, played)
Table(("microbatches", *map(str, counts)), (
    ("idle units of a rank", *(f"{duration_s(simulate(gpipe(4, m), {'F': 1, 'B': 2})) - 3 * m:g}" for m in counts)),
    ("of total, 4 stages", *(f"{fraction:.2%}" for fraction in formula["4 stages"]))))

# %% [markdown]
# The picture in words: all curves fall; with one microbatch 4 stages idle three quarters of their time, with 64 less than a twentieth.
# More stages lie higher throughout.
#
# So take many microbatches?
# A forward keeps what autograd needs until its backward, and GPipe does **all** forwards first: the strip said 8 on each rank.
#
# **1F1B** does only as many forwards ahead as it takes until the first backward can come back: a *warm-up* of $p-1-r$ on rank $r$.
# Then one forward, one backward, until all are done.
#
# ## Predict
#
# In 1F1B with 4 stages and 8 microbatches, how many microbatches does rank 0 hold at most?

# %%
guess = None  # microbatches

# %% [markdown]
# ## Run

# %%
orders = {"GPipe": gpipe(4, 8), "1F1B": one_f_one_b(4, 8)}
runs = {name: launch(step, 4, order, eighth) for name, order in orders.items()}
predicted = simulate(orders["1F1B"], {"F": eighth, "B": 2 * eighth})
axes = pipeline_picture({"simulated": predicted, "measured": trace_of(runs["1F1B"])}, "ms", per_unit=1e3)

# %% [markdown]
# The picture in words: rank 0 does four forwards, waits, and then alternates; rank 3 alternates from the start.
# The step is as long as GPipe's, and as much is blank, spread differently.
# Below (lines are shifted a little, so that all are seen), rank 0 climbs to 4 microbatches and stays there but for instants, rank 3 never holds more than 1.
#
# Why does rank 0 not do F4 while it waits?
# Rank 3 is busy without a gap, so nothing would end sooner; F4 would only be held longer.
#
# ## Compare
#
# We do not trust the picture, but count the bytes that autograd really keeps alive on each rank, in units of what one forward keeps there.

# %%
rows = {}
for name, run in runs.items():
    for rank, (played, _) in enumerate(run.results):
        rows[f"{name}, rank {rank}"] = most_held(orders[name])[rank], max(played.kept_bytes) / played.kept_bytes[0]
predicted_vs_measured(dict(sorted(rows.items())), guess=guess, unit="microbatches")


# %% [markdown]
# Same bubble, other memory: rank $r$ of 1F1B holds at most $p - r$ microbatches, **however many there are**.
# That is why it is the usual order: the batch can have as many microbatches as the bubble asks for.
#
# **Is it the same training?**
# Gradients of all four stages, against one process on the whole batch:

# %%
def apart(run, factor=1.0):
    torch.manual_seed(0)
    model = mlp(width=64, depth=4)
    mse_loss(model(x), y).backward()
    ours = [gradient for _, gradients in run.results for gradient in gradients]
    return max(((a - factor * p.grad).abs().max() / p.grad.abs().max()).item()
               for a, p in zip(ours, model.parameters(), strict=True))


Table(("largest relative difference", "below 1e-6"), tuple((name, str(apart(run) < 1e-6)) for name, run in runs.items()))

# %% [markdown]
# An order of work changes time and memory, not the result: each microbatch's gradient is added to the same sum.
#
# ## Predict
#
# Stage 2 of the four has half as much again to do: its forward takes 1.5 units and its backward 3.
# The step of 8 microbatches was 33 units (660 ms).
# How long is a step of **1F1B** now?

# %%
guess = None  # units

# %% [markdown]
# ## Run

# %%
slow = {"F": [1, 1, 1.5, 1], "B": [2, 2, 3, 2]}
slowed = {name: simulate(order, slow) for name, order in orders.items()}
axes = pipeline_gantt({"1F1B, stage 2 slow": slowed["1F1B"]}, "units")

# %% [markdown]
# The picture in words: from its first backward on, rank 2 works without a gap; all others wait for it in every round.
#
# ## Compare

# %%
rows = {"1F1B, stage 2 slow": (8 * 4.5 + 3 * 3 - 1.5, duration_s(slowed["1F1B"])),
        "GPipe, stage 2 slow": (8 * 4.5 + 3 * 3, duration_s(slowed["GPipe"]))}
for late in (0, 3):
    times = {kind: [units * (1.5 if stage == late else 1) for stage in range(4)] for kind, units in {"F": 1, "B": 2}.items()}
    rows[f"1F1B, stage {late} slow"] = 8 * 4.5 + 3 * 3 - 1.5 * (3 - late), duration_s(simulate(orders["1F1B"], times))
predicted_vs_measured(rows, guess=guess, unit="units", columns=("formula", "simulated"))

# %% [markdown]
# The slowest stage sets the pace: $m$ times its own $f+b$, and once that of each other stage to fill and drain.
# In 1F1B, its $p-1-r$ warm-up forwards hide while it waits for the ranks below.
# One stage has half as much again to do, and the **whole** pipeline takes a third longer.
#
# So stages should take equal **time**.
# Equal parameters are not that: an embedding has many parameters and is a lookup; the output layer has as many and is a large matrix product.
# A GPT with 32 blocks, hidden size 4096 and a vocabulary of 128,000, cut by three people:

# %%
shape = Shape(layers=32, hidden=4096, seq=2048, vocab=128_000, tied=False)
cuts = {"equal blocks": [8, 8, 8, 8], "equal parameters": [7, 9, 9, 7], "equal FLOPs": [9, 9, 8, 6]}
rows, unit = [], stage_flops(shape, [8, 8, 8, 8])[0]        # a forward of 8 blocks
for name, blocks in cuts.items():
    units = [flops / unit for flops in stage_flops(shape, blocks)]
    trace = simulate(one_f_one_b(4, 32), {"F": units, "B": [2 * u for u in units]})
    rows.append((f"{name}: {blocks}", ", ".join(f"{n / 1e9:.1f}" for n in stage_params(shape, blocks)),
                 ", ".join(f"{u:.2f}" for u in units), f"{duration_s(trace):.1f}", f"{bubble_of_total(trace):.1%}"))
Table(("blocks of each stage", "10^9 parameters", "a forward, in 8 blocks' time", "step of 32", "idle"), tuple(rows))

# %% [markdown]
# Llama 3 405B has 126 blocks on 16 stages: 8 each, but 7 on the first (embedding) and on the last (output layer).
#
# ## Scale it
#
# For a bubble of at most 10 % of total, $(p-1)/(m+p-1)$ asks for $m \ge 9(p-1)$: 135 microbatches with 16 stages.
# They come from one batch of $B$ sequences, shared by $d$ copies: with 2,048 and 16, $m$ is at most 128.
#
# **By hand:** write a schedule for 3 ranks and 4 microbatches, with memory for 3.
# Use the buttons, or type `F0 F1` or `F F` into a rank's field and press Enter.
# B takes twice as long as F.
# When all are placed, run it on real ranks.
# Does rank 0 need memory for three?

# %% tags=["nbval-ignore-output"]
from helpers.compare.widgets import schedule_builder

schedule_builder(num_ranks=3, num_microbatches=4, cap=3)


# %% [markdown]
# <details><summary>What you should have seen</summary>
# 18 units and 33.3 % is the best for 4 microbatches; 1F1B has it with 3, 2 and 1 held. With 2 on rank 0, its third forward waits for its first backward: the best is 21 units, if rank 1 does F0 F1 B0 B1 F2 F3 B2 B3; with 1F1B's order on rank 1 it is 24. Try <code>schedule_builder(3, 4, cap=2)</code>.
# </details>
#
# ## Break it
#
# **1F1B with blocking sends.**
# Only the messages of a schedule: each rank takes what a step needs and gives what it makes.

# %% tags=["raises-exception"]
def messages(rank, world_size, schedule, send):
    sending = []
    for action in schedule.steps[rank]:
        source, taker = (rank - 1, rank + 1) if action.kind == "F" else (rank + 1, rank - 1)
        if 0 <= source < world_size:
            dist.recv(torch.empty(4), source)
        if 0 <= taker < world_size:
            sending.append(send(torch.ones(4), taker))
    for work in filter(None, sending):
        work.wait()
    return "all arrived"


print(launch(messages, 2, gpipe(2, 3), dist.send).results)
launch(messages, 2, one_f_one_b(2, 3), dist.send, timeout_s=2)

# %% [markdown]
# GPipe ends: all its messages go one way at a time.
# In 1F1B one rank sends an activation down while its neighbour sends a gradient up.
# Both wait in `send`: gloo's returns when the receiver takes the message, and neither has come to `recv`.
# The cure: nobody waits for a send before it receives.
# (`run_schedule` uses `isend`; PyTorch also has `batch_isend_irecv`.)

# %%
launch(messages, 2, one_f_one_b(2, 3), dist.isend).results

# %% [markdown]
# **Gradients too large.**
# Each microbatch's loss is a mean over **its** samples.
# Whoever adds up their gradients and forgets to divide by $m$:

# %%
run = launch(step, 4, one_f_one_b(4, 8), 0.0, scale=False)
Table(("without dividing", "value"), (("gradient is that of one process", str(apart(run) < 1e-6)),
                                      ("gradient is 8 times that", str(apart(run, factor=8) < 1e-5))))

# %% [markdown]
# No error. With SGD that is a learning rate eight times too large; Adam's step hardly depends on the gradient's scale, and hides it; clipping by norm would clip eight times as much.
#
# **An order that cannot be.**
# Somebody moves rank 1's first backward to the front:

# %% tags=["raises-exception"]
order = gpipe(2, 3)
early = (Action("B", 1, 0), *(a for a in order.steps[1] if a != Action("B", 1, 0)))
validate(Schedule("too early", (order.steps[0], early), 2, 3))

# %% [markdown]
# `run_schedule` validates before it starts anything, so a wrong order is a message and not a hang.
#
# ## Read the helper
#
# Open `helpers/facts/schedules/one_direction.py` and `schedule.py`, 40 lines and one function of the other: `dependencies`.
#
# 1. Where in `one_f_one_b` does it say that rank $r$ holds $p - r$ microbatches?
# 2. `dependencies` of a B asks for a B **or** an I (backward for the input only) of the next stage. Which of them are in the schedule, and who decides?
#
# <details><summary>Answers</summary>
# 1. <code>warmup = min(num_ranks - 1 - rank, m)</code> forwards come before the steady state, which adds one forward before its first backward: p - 1 - r + 1. 2. The schedule does: only actions that are in it count, so the same function serves orders with a whole backward and with a split one (lesson 10).
# </details>

# %% [markdown]
# ## Check yourself
#
# **1.** Rank 0 of 1F1B idles after its warm-up although it could do more forwards. What would they cost, and what would they gain?
#
# <details><summary>Answer</summary>
# Memory: each would be held until its backward, in the end all m, as in GPipe. And no time: the last rank is busy already, and sets the pace.
# </details>
# <br>
#
# **2.** 1F1B is said to have a smaller bubble than GPipe. Has it?
#
# <details><summary>Answer</summary>
# No, a common misconception. With stages of equal time both idle (p-1)(f+b). 1F1B holds fewer activations; with the memory saved one can take more microbatches, and these shrink the fraction.
# </details>
# <br>
#
# **3.** You double the stages from 4 to 8 at 32 microbatches and find less than twice the speed. What does the formula say, and what else may it be?
#
# <details><summary>Answer</summary>
# 3/35 = 8.6 % become 7/39 = 17.9 % of total. A stage takes half as long, so (32 + 3) · 1 becomes (32 + 7) · 1/2: at best 1.8 times as fast. Besides, there are 7 boundaries with messages instead of 3, and stages of fewer blocks are harder to balance.
# </details>

# %% [markdown]
# ## Recap
#
# A pipeline cuts the model into stages and the batch into microbatches, and idles (p-1)(f+b) on every rank, whatever their number.
# GPipe and 1F1B have the same bubble; GPipe holds all microbatches, 1F1B at most p - r on rank r.
# The slowest stage sets the pace, so stages are cut by time.
#
# **Pitfalls.** Bubbles of total and of ideal in one table. Stages cut by parameters. Fewer microbatches than stages. Blocking sends in both directions. A loss that is not divided by the number of microbatches, or divided twice.
#
# **Sources.** Huang et al., "GPipe", arXiv:1811.06965, figure 2 and section 2.3. Narayanan et al., "Efficient Large-Scale Language Model Training", arXiv:2104.04473, section 2.2 and figures 3 and 4. Llama 3, arXiv:2407.21783, section 3.3.2. PyTorch documentation, `torch.distributed.pipelining`.
#
# **Exercises:** `exercises/09_pipeline/09_pipeline.ipynb`.
