# %% [markdown] nbgrader={"grade": false, "grade_id": "title", "locked": true, "schema_version": 3, "solution": false, "task": false}
# # Exercises 10: zero bubble
#
# Five exercises, 19 points, about 105 minutes; lessons 09 and 10 have all that you need.
#
# Each has a cell for your answer and a locked cell that checks it: replace what says `YOUR CODE HERE` or `None`, delete the line with `NotImplementedError`, run your cell, then the check.
# Keep the names of functions and arguments.
# Checks say which property is right and what is wrong with the others, as often as you like.
# The grader runs some more cases than you see.
#
# In exercises 1 and 2 your functions may use no `helpers.predict`, no `helpers.compare`, and nothing of the course or of `torch.distributed.pipelining` that does the same, nor anything computed with them (such as a table of orders); in 3 and 4 all is allowed.

# %% nbgrader={"grade": false, "grade_id": "setup", "locked": true, "schema_version": 3, "solution": false, "task": false}
import torch

from helpers.facts.bubbles import bubble_of_ideal, bubble_of_total, bubble_rate, idle_s
from helpers.facts.schedules import (
    Action, Schedule, dualpipe, dualpipe_v, from_csv, grid, most_held, one_f_one_b, zb_h1, zb_h2,
)
from helpers.facts.trace import duration_s
from helpers.predict.pipeline import simulate
from helpers.run.launch import warm_up

warm_up("helpers.checks.zero_bubble")


# %% [markdown] nbgrader={"grade": false, "grade_id": "split-statement", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## 1. Split a backward (5 points)
#
# For a linear layer $y = x W^T + \text{bias}$, write a forward and a backward in two halves:
#
# - `forward(x, weight, bias)` returns `y` and `kept`, whatever you need later.
# - `backward_input(kept, gradient)` is I: it returns the gradient for `x` and `owed`, whatever W needs.
# - `backward_weight(owed)` is W: it returns the gradients for `weight` and for `bias`.
#
# `x` is `[..., in]` with one to three dims, `weight` `[out, in]`, `gradient` (that of `y`) `[..., out]`; `bias` is `[out]` or `None`, and then its gradient is `None`, too.
# Several forwards may come before the first I, and W may come in any order.
# Leave what you are given as it is.
#
# Targets: I and W do **one matrix product each**, $2 \cdot B \cdot in \cdot out$ FLOPs for $B$ rows; from I to W, **no more than `x` and `gradient`** stay alive (besides `weight` and `bias`, which are there anyway).
# How you get there is up to you; autograd may help if it keeps to both (then mind what it keeps).
#
# You see five layers and one for the costs (4 points); the grader runs others (1 point).

# %% nbgrader={"grade": false, "grade_id": "split", "locked": false, "schema_version": 3, "solution": true, "task": false}
def forward(x, weight, bias):
    """(y [..., out], kept)."""
    ### BEGIN SOLUTION
    y = x @ weight.T
    return (y if bias is None else y + bias), (x, weight, bias is not None)
    ### END SOLUTION


def backward_input(kept, gradient):
    """(gradient for x [..., in], owed)."""
    ### BEGIN SOLUTION
    x, weight, has_bias = kept
    return gradient @ weight, (x, gradient, has_bias)
    ### END SOLUTION


def backward_weight(owed):
    """(gradient for weight [out, in], gradient for bias [out] or None)."""
    ### BEGIN SOLUTION
    *both, has_bias = owed
    inputs, upstream = (tensor.reshape(-1, tensor.shape[-1]) for tensor in both)
    return upstream.T @ inputs, upstream.sum(0) if has_bias else None
    ### END SOLUTION


# %% id="split-try"
# Try it: one row, x = (1, 2), one output, y = 3 + 2 * 4 + 5 = 16. Gradients for x (3, 4), for weight (1, 2), for bias 1.
y, kept_here = forward(torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 4.0]]), torch.tensor([5.0]))
for_x, owed_here = backward_input(kept_here, torch.ones(1, 1))
y, for_x, *backward_weight(owed_here)

# %% nbgrader={"grade": true, "grade_id": "split-check", "locked": true, "points": 5, "schema_version": 3, "solution": false, "task": false}
from helpers.checks.zero_bubble import split_linear

points = split_linear.check_split(forward, backward_input, backward_weight)
### BEGIN HIDDEN TESTS
points += split_linear.check_split_unseen(forward, backward_input, backward_weight)
### END HIDDEN TESTS
points


# %% [markdown] nbgrader={"grade": false, "grade_id": "split-hints", "locked": true, "schema_version": 3, "solution": false, "task": false}
# <details><summary>Hint 1</summary>Shapes tell most of it: which product of gradient [B, out] and weight [out, in] is [B, in], and which of gradient and x [B, in] is [out, in]?</details>
# <details><summary>Hint 2</summary>What is kept for I, and what for W? A tuple each will do; put nothing into globals, or a second microbatch overwrites the first.</details>
# <details><summary>Hint 3</summary>With three dims, flatten all but the last of x and gradient for W: reshape(-1, in). With one dim, that makes a single row. The bias gets the sum over rows.</details>

# %% [markdown] nbgrader={"grade": false, "grade_id": "fill-statement", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## 2. Fill the bubbles (5 points)
#
# Write `fill(num_ranks, num_microbatches, cap)`, which returns an order with backward split: a list with one list for each rank, of steps such as `("F", 0)`, `("I", 0)`, `("W", 0)`.
# Rank $r$ has stage $r$; each step takes one slot, and starts as soon as its rank is free and what it needs is done: F the F of the rank before, I its own F and the I of the rank after, W its own I.
#
# A rank holds a microbatch from its F to the end of its W, and may hold at most `cap` at once.
# `cap` is $p$ with $m \ge p$ microbatches, or $2p-1$ with $m \ge 2p-1$.
#
# Targets: **$3m + p - 1$ slots** from the first start to the last end, in both cases.
# (Less is impossible: the last rank has $3m$ steps to do, and the first one's F0 reaches it after $p-1$ slots.)
# With `cap` $2p-1$, besides, **no idle slot** between any rank's own first and last step.
#
# A rule, a search or a play on a clock: any way to such orders is right.
# `fill` itself may not use `helpers.facts.schedules`.
#
# You see six cases (4 points); the grader runs others, up to 8 ranks and 32 microbatches (1 point). All together have 20 s.

# %% nbgrader={"grade": false, "grade_id": "fill", "locked": false, "schema_version": 3, "solution": true, "task": false}
def fill(num_ranks, num_microbatches, cap):
    """For each rank its steps, pairs of kind ("F", "I" or "W") and microbatch."""
    ### BEGIN SOLUTION
    orders = []
    for ahead in range(cap, 0, -1 if cap == num_ranks else -2):     # of each rank: F with no I yet
        owed = cap - ahead                                          # W that may wait
        order = [("F", k) for k in range(min(ahead, num_microbatches))]
        for k in range(num_microbatches):
            order += [("I", k), ("W", k - owed), ("F", k + ahead)]
        order += [("W", k) for k in range(num_microbatches - owed, num_microbatches)]
        orders.append([(kind, k) for kind, k in order if 0 <= k < num_microbatches])
    return orders
    ### END SOLUTION


# %% id="fill-try"
# Try it: the grid of an order, and what each rank holds at most. 14 slots are the best for 3 ranks and 4 microbatches.
def drawn(steps, num_microbatches):
    rows = tuple(tuple(Action(kind, rank, k) for kind, k in row) for rank, row in enumerate(steps))
    return Schedule("mine", rows, len(steps), num_microbatches)


mine = drawn(fill(3, 4, cap=3), 4)
print(grid(mine))
duration_s(simulate(mine, {"F": 1, "I": 1, "W": 1})), most_held(mine)

# %% nbgrader={"grade": true, "grade_id": "fill-check", "locked": true, "points": 5, "schema_version": 3, "solution": false, "task": false}
from helpers.checks.zero_bubble import filling

points = filling.check_fill(fill)
### BEGIN HIDDEN TESTS
points += filling.check_fill_unseen(fill)
### END HIDDEN TESTS
points

# %% [markdown] nbgrader={"grade": false, "grade_id": "fill-hints", "locked": true, "schema_version": 3, "solution": false, "task": false}
# <details><summary>Hint 1</summary>Play a clock: in every slot, each rank takes a step that it can do now. The order of preference decides: what does another rank wait for, and what nobody? Draw the result with the try-it cell.</details>
# <details><summary>Hint 2</summary>F before I before W, and a limit for F on each rank: not only cap microbatches held, but also only so many with F done and I not. How many of these does rank r of 1F1B have at most?</details>
# <details><summary>Hint 3</summary>With cap = p, rank r has at most p - r microbatches between F and I, and up to r W owed. With cap = 2p - 1 both numbers change by 2 from rank to rank: 2p - 1 - 2r between F and I, 2r owed.</details>

# %% [markdown] nbgrader={"grade": false, "grade_id": "bubbles-statement", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## 3. Numbers that name their denominator (4 points)
#
# A card for **12 ranks, 48 microbatches**, $f = i = w = 1$ unit (so that a whole backward takes 2), prints bubbles:
#
# | schedule | the card | what is asked for |
# |---|---|---|
# | ZB-H1 | 6.63 % | % of total |
# | 1F1B | 18.64 % | % of **ideal** |
# | ZB-H2 | 0 % | % of total, and % of a rank's own span |
# | DualPipe, a pair of F and B takes 2.5 units | 5 units | idle **units** of the rank that idles most |
# | DualPipeV, on 12 **ranks**, its stages half as long | 3.87 % | % of total |
#
# Of the six numbers that are asked for, the card has one.
# Give all six, with three significant digits; percent as in 12.5 for 12.5 %.
# Calculate or count: `simulate`, the orders of `helpers.facts.schedules` and the definitions in `helpers.facts.bubbles` are at hand.

# %% nbgrader={"grade": false, "grade_id": "bubbles", "locked": false, "schema_version": 3, "solution": true, "task": false}
bubbles = {
    "ZB-H1, % of total": None,
    "1F1B, % of ideal": None,
    "ZB-H2, % of total": None,
    "ZB-H2, % of own span": None,
    "DualPipe, idle units": None,
    "DualPipeV, % of total": None,
}
### BEGIN SOLUTION
bubbles = {
    "ZB-H1, % of total": 100 * 11 / (3 * 48 + 11),
    "1F1B, % of ideal": 100 * 11 / 48,
    "ZB-H2, % of total": 100 * 11 / (3 * 48 + 11),
    "ZB-H2, % of own span": 0,
    "DualPipe, idle units": (12 / 2 - 1) * (2.5 + 2 - 3),
    "DualPipeV, % of total": 100 * (24 / 2 - 1) * (3 + 2 - 3) / 2 / (3 * 48 + 11),
}
### END SOLUTION

# %% id="bubbles-try"
# Try it: how one counts. For 1F1B: percent of total, and idle units of rank 0. (The table asks for percent of ideal.)
counted = simulate(one_f_one_b(12, 48), {"F": 1, "B": 2})
100 * bubble_of_total(counted), idle_s(counted)[0]

# %% nbgrader={"grade": true, "grade_id": "bubbles-check", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
from helpers.checks.zero_bubble import bubble_numbers

bubble_numbers.check_bubbles(bubbles)

# %% [markdown] nbgrader={"grade": false, "grade_id": "bubbles-hints", "locked": true, "schema_version": 3, "solution": false, "task": false}
# <details><summary>Hint 1</summary>Of total: idle time over all time. Of ideal: idle time over work. Own span: from a rank's own first start to its own last end. Which of them is each number of the card?</details>
# <details><summary>Hint 2</summary>A rank works 3 m units. ZB-H1 idles (p-1)(f+i-w); ZB-H2 idles (p-1) f, all of it before a rank's first step and after its last; DualPipe of s stages idles (s/2-1)(pair + b - 3w).</details>
# <details><summary>Hint 3</summary>DualPipeV has two stages on each rank: 12 ranks have 24 stages, each of half the units. Or play it: simulate(dualpipe_v(12, 48), {"F": 0.5, "I": 0.5, "W": 0.5, "B": 1}); for pairs of DualPipe add "F&B": 2.5 to the durations.</details>

# %% [markdown] nbgrader={"grade": false, "grade_id": "mend-statement", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## 4. Mend an order (3 points)
#
# `broken` is an order of 3 ranks (a line each) and 4 microbatches; `2F0` is the forward of microbatch 0 in stage 2.
# It has **three faults**: a step stands before one that it needs, two ranks wait for each other, and a rank holds more than the **3 microbatches** that each has memory for.
#
# Give `mended`, a text of the same form.
# Move steps along their lines, **at most four** (three are enough), so that the order can be played in **14 slots**, the best for this size.
# A step has moved if it no longer stands in its old order among the others, so one that jumps over three others is one step moved.

# %% nbgrader={"grade": false, "grade_id": "broken", "locked": true, "schema_version": 3, "solution": false, "task": false}
broken = """
0F0,0F1,0F2,0F3,0I0,0W0,0I1,0W1,0I2,0W2,0I3,0W3
1F0,1F1,1I0,1W0,1I1,1F2,1F3,1I2,1W1,1I3,1W2,1W3
2F0,2W0,2I0,2F1,2F2,2I1,2I2,2F3,2I3,2W1,2W2,2W3
"""

# %% nbgrader={"grade": false, "grade_id": "mend", "locked": false, "schema_version": 3, "solution": true, "task": false}
mended = None
### BEGIN SOLUTION
mended = """
0F0,0F1,0F2,0I0,0W0,0F3,0I1,0W1,0I2,0W2,0I3,0W3
1F0,1F1,1F2,1I0,1W0,1I1,1F3,1I2,1W1,1I3,1W2,1W3
2F0,2I0,2F1,2F2,2I1,2W0,2I2,2F3,2I3,2W1,2W2,2W3
"""
### END SOLUTION

# %% id="mend-try"
# Try it: the grid of your order, or of the broken one, what each rank holds at most, and the slots it takes.
# What can never start stands after "stuck:"; then there is no length, and you get an error that says why.
attempt = from_csv((mended or broken).strip())
print(grid(attempt), most_held(attempt), sep="\n")
duration_s(simulate(attempt, {"F": 1, "I": 1, "W": 1}))

# %% nbgrader={"grade": true, "grade_id": "mend-check", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
from helpers.checks.pipeline import mended_order

mended_order.check_mended_order(broken, mended)

# %% [markdown] nbgrader={"grade": false, "grade_id": "mend-hints", "locked": true, "schema_version": 3, "solution": false, "task": false}
# <details><summary>Hint 1</summary>Each fault is cured by one step that moves. Count on each line: up with F, down with W; nowhere more than 3.</details>
# <details><summary>Hint 2</summary>Which W comes before its I? And which rank has I1 before F2 while the next rank has F2 before I1? Move one of the four to let both go on.</details>
# <details><summary>Hint 3</summary>The last rank decides: from slot 2 on it must work without a gap. Draw, look which step it waits for, and let the rank above do that one earlier. Its W0 can wait until memory asks for it, and no longer.</details>

# %% [markdown] nbgrader={"grade": false, "grade_id": "choose-statement", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## 5. Which schedule, and why? (2 points)
#
# A dense model of 64 equal blocks trains on a pipeline of 16 ranks with cards of 80 GB.
# A rank's share of the model takes 20 GB of state, and keeps 3 GB of activations for each microbatch in flight.
# A step has 64 microbatches; forward, I and W of a rank's share take 30 ms each; a message between ranks takes 1 ms, hidden behind nothing.
# The global norm of the gradient is clipped in every step.
#
# Go through 1F1B, ZB-H1, ZB-H2, ZB-V and DualPipe: which fit, and what bubble, in % of total and at first without the messages, do those have? (1 point)
# Then choose, and say what you would look at before you trust your figures, and what would make you choose differently. (1 point)
# This answer is read and graded by a person.

# %% [markdown] nbgrader={"grade": true, "grade_id": "choose", "locked": false, "points": 2, "schema_version": 3, "solution": true, "task": false}
# A microbatch in flight keeps 3 GB, so beside 20 GB of state there is room for 20 of them. 1F1B and ZB-H1 hold 16 on the rank that holds most: 20 + 48 = 68 GB fit. ZB-H2 holds 31: 113 GB do not. ZB-V holds 32 halves, so the 68 GB of 1F1B, on all ranks. DualPipe holds 17, and every weight twice: 40 + 51 = 91 GB do not fit.
# Of total: 1F1B 15/79 = 19.0 %; ZB-H1 15/(192+15) = 7.2 %; ZB-V half of its idle time, 7.5/(192+7.5) = 3.8 % (that it is zero in a rank's own span is no help: the norm makes all ranks wait for the last). With messages of 1 ms, simulated: 20.6, 8.1 and 4.9 %.
# I would take ZB-V, with 32 stages of 2 blocks; a step of 6.1 s where 1F1B takes 7.3. It sends twice as many messages, so with slower links (3 ms and more) its advantage over ZB-H1 shrinks; and it stands on f = i = w. So I would measure f, i and w, which differ with attention (no W there) and with embedding and output layer, and simulate with these and the real message time. If W were much shorter than F and I, or 5 GB were not left for fragmentation and logits, ZB-H1 or 1F1B with recomputation; with memory for 31 and a norm that is checked after the step, ZB-H2; with all-to-all messages of a mixture of experts as long as the computing, DualPipe or DualPipeV.
#
# *Half a point for which fit, with GB (68, 68, 113, 68, 91), half for the three bubbles (19, 7.2, 3.8 %) of total and not of own span. Half a point for a choice that follows from one's own figures (ZB-V, or ZB-H1 for its fewer messages), half for something to measure (f, i, w, messages, balance of stages) and a condition that would change the choice.*
