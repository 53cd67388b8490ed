# %% [markdown] nbgrader={"grade": false, "grade_id": "title", "locked": true, "schema_version": 3, "solution": false, "task": false}
# # Exercises 09: pipeline
#
# Five exercises, 18 points, about 75 minutes; lesson 09 has all that you need.
#
# Each has a cell for your answer and a locked cell that checks it: replace what says `YOUR CODE HERE` or `None`, delete the line with `NotImplementedError`, run your cell, then the check.
# Keep the names of functions and arguments.
# Checks say which property is right and what is wrong with the others, as often as you like.
# The grader runs some more cases than you see.
#
# The functions that you write may use neither `helpers.predict`, `helpers.compare`, `helpers.facts.schedules` nor `torch.distributed.pipelining`, nor anything computed with them (such as a table of orders); to try your functions out, all is allowed.

# %% nbgrader={"grade": false, "grade_id": "setup", "locked": true, "schema_version": 3, "solution": false, "task": false}
from helpers.facts.schedules import Action, Schedule, from_csv, grid, most_held
from helpers.facts.trace import duration_s
from helpers.predict.pipeline import simulate
from helpers.run.launch import warm_up

warm_up("helpers.checks.pipeline")


# %% [markdown] nbgrader={"grade": false, "grade_id": "order-statement", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## 1. The order of 1F1B (5 points)
#
# Rank $r$ of $p$ has stage $r$, and a step has $m$ microbatches.
# Write `order(rank, num_ranks, num_microbatches)`: what this rank does, from first to last, as a list of pairs such as `("F", 0)` and `("B", 0)`.
#
# Targets, with F of 1 unit and B of 2: the step takes **$3\,(m + p - 1)$ units**, and rank $r$ never holds more than **$p - r$ microbatches**, counted from their F to the end of their B.
# Any order that keeps to both is right; one of them is 1F1B.
# It must also work with fewer microbatches than ranks.
#
# You see 2 and 3 ranks with 3 microbatches and 4 with 8; then 2 ranks with 1 and 4 with 2 (4 points); the grader runs others (1 point).

# %% nbgrader={"grade": false, "grade_id": "order", "locked": false, "schema_version": 3, "solution": true, "task": false}
def order(rank, num_ranks, num_microbatches):
    """Pairs (kind, microbatch) of one rank, in its order."""
    ### BEGIN SOLUTION
    steps, ahead = [], min(num_ranks - rank, num_microbatches)      # as many forwards before the first backward
    steps.extend(("F", number) for number in range(ahead))
    for number in range(num_microbatches):
        steps.append(("B", number))
        if number + ahead < num_microbatches:
            steps.append(("F", number + ahead))
    return steps
    ### END SOLUTION


# %% id="order-try"
# Try it: rank 1 of 2 alternates from the start; rank 0 is one forward ahead. In the grid each step takes one slot.
# Below it: (units of the step, microbatches held by each rank).
rows = tuple(tuple(Action(kind, rank, k) for kind, k in order(rank, 2, 3)) for rank in range(2))
mine = Schedule("mine", rows, 2, 3)
print(grid(mine))
duration_s(simulate(mine, {"F": 1, "B": 2})), most_held(mine)

# %% nbgrader={"grade": true, "grade_id": "order-check", "locked": true, "points": 5, "schema_version": 3, "solution": false, "task": false}
from helpers.checks.pipeline import rank_order

points = rank_order.check_order(order)
### BEGIN HIDDEN TESTS
points += rank_order.check_order_unseen(order)
### END HIDDEN TESTS
points


# %% [markdown] nbgrader={"grade": false, "grade_id": "order-hints", "locked": true, "schema_version": 3, "solution": false, "task": false}
# <details><summary>Hint 1</summary>The last rank can do B0 right after F0. How many forwards can the rank before it do until that gradient arrives?</details>
# <details><summary>Hint 2</summary>Three parts: forwards alone, then one forward and one backward in turn, then backwards alone. The first part has p - 1 - r forwards.</details>
# <details><summary>Hint 3</summary>With few microbatches the first part ends with the last of them: min(p - 1 - r, m).</details>

# %% [markdown] nbgrader={"grade": false, "grade_id": "peak-statement", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## 2. The fullest moment (4 points)
#
# Write `peak(steps, kept, waiting)`: the most bytes that **one rank** holds for backward at any time.
#
# `steps` is what the rank does, in its order; a step is `(kind, stage, microbatch)`, since several stages may be on one rank.
# Of each microbatch in each stage there is an F, and later either a B or the two halves of a backward: I (the gradient for the input), and after it W (that for the weights).
#
# `kept` and `waiting` are dicts of bytes, by stage.
# F keeps `kept[stage]`, and B gives it back.
# I gives back all of it but `waiting[stage]`, and W gives back that.
# What F keeps counts as soon as it runs; what a backward gives back still counts while it runs.
#
# You see six orders (3 points); the grader runs others (1 point).

# %% nbgrader={"grade": false, "grade_id": "peak", "locked": false, "schema_version": 3, "solution": true, "task": false}
def peak(steps, kept, waiting):
    """The most bytes alive on the rank during any of its steps."""
    ### BEGIN SOLUTION
    alive = fullest = 0
    for kind, where, _ in steps:
        gained = {"F": kept[where], "B": -kept[where], "I": waiting[where] - kept[where], "W": -waiting[where]}
        alive += gained[kind]
        fullest = max(fullest, alive)
    return fullest
    ### END SOLUTION


# %% id="peak-try"
# Try it: two forwards, then two backwards, of 100 bytes each: 200.
peak([("F", 0, 0), ("F", 0, 1), ("B", 0, 0), ("B", 0, 1)], {0: 100}, {0: 60})

# %% nbgrader={"grade": true, "grade_id": "peak-check", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
from helpers.checks.pipeline import peaks

points = peaks.check_peak(peak)
### BEGIN HIDDEN TESTS
points += peaks.check_peak_unseen(peak)
### END HIDDEN TESTS
points

# %% [markdown] nbgrader={"grade": false, "grade_id": "peak-hints", "locked": true, "schema_version": 3, "solution": false, "task": false}
# <details><summary>Hint 1</summary>Go through the steps with one number: what is alive. Which steps make it more?</details>
# <details><summary>Hint 2</summary>After I and before W, a microbatch still weighs waiting[stage].</details>
# <details><summary>Hint 3</summary>F: + kept. B: - kept. I: waiting - kept. W: - waiting. Keep the largest value seen.</details>

# %% [markdown] nbgrader={"grade": false, "grade_id": "mend-statement", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## 3. Mend a schedule (3 points)
#
# `broken` is a schedule for 3 ranks (a line each) and 4 microbatches; `2F0` is the forward of microbatch 0 in stage 2.
# It has **three faults**: a backward before its own forward, two ranks that wait for each other for ever, and a rank that holds more than the **3 microbatches** that each has memory for.
#
# Give `mended`, a text of the same form with the same steps on the same ranks.
# Move steps along their lines, **at most six** (five are enough): a step has moved if it no longer stands in its old order among the others, so one that jumps over three others is one step moved.
# Targets: no rank holds more than 3 microbatches, and with F of 1 unit and B of 2 it takes **18 units**, the best for this size.

# %% nbgrader={"grade": false, "grade_id": "broken", "locked": true, "schema_version": 3, "solution": false, "task": false}
broken = """
0F1,0F0,0F3,0F2,0B1,0B0,0B3,0B2
1F1,1F0,1B1,1F3,1B0,1B2,1F2,1B3
2F1,2F0,2F3,2B1,2B0,2F2,2B3,2B2
"""

# %% nbgrader={"grade": false, "grade_id": "mend", "locked": false, "schema_version": 3, "solution": true, "task": false}
mended = None
### BEGIN SOLUTION
mended = """
0F1,0F0,0F3,0B1,0F2,0B0,0B3,0B2
1F1,1F0,1B1,1F3,1B0,1F2,1B3,1B2
2F1,2B1,2F0,2B0,2F3,2B3,2F2,2B2
"""
### END SOLUTION

# %% id="mend-try"
# Try it: the grid of your schedule, or of the broken one, what each rank holds at most, and the units it takes.
# What can never start stands after "stuck:"; then there is no length, and you get an error that says why.
attempt = from_csv((mended or broken).strip())
print(grid(attempt), most_held(attempt), sep="\n")
duration_s(simulate(attempt, {"F": 1, "B": 2}))

# %% nbgrader={"grade": true, "grade_id": "mend-check", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
from helpers.checks.pipeline import mended_order

mended_order.check_mended_whole_order(broken, mended)


# %% [markdown] nbgrader={"grade": false, "grade_id": "mend-hints", "locked": true, "schema_version": 3, "solution": false, "task": false}
# <details><summary>Hint 1</summary>Look at each line alone first: which B stands before its own F, and where are four forwards in a row?</details>
# <details><summary>Hint 2</summary>Rank 1 does B1 before F3. What does rank 2 do before its B1? One of these four has to move: 1B1, 1F3, 2F3, 2B1.</details>
# <details><summary>Hint 3</summary>18 units leave the last rank no gap: its first F, and then? Let the ranks above do first what it waits for. What would 1F1B do, with microbatches in this order, 1, 0, 3, 2?</details>

# %% [markdown] nbgrader={"grade": false, "grade_id": "balance-statement", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## 4. Balance the stages (4 points)
#
# A model has an embedding, `num_blocks` blocks and an output layer, in this order.
# Write `balance(num_blocks, num_stages, block_s, embedding_s, output_s)`: a list with the number of blocks of each stage.
# The first stage also has the embedding, the last one the output layer; a single stage has both.
# The arguments ending in `_s` are what one microbatch takes: each block, the embedding, the output layer.
#
# Target: **the slowest stage is as fast as can be**.
# A stage may have no block, if that is best; if several answers are best, any of them is right.
#
# You see seven models (3 points); the grader runs others, up to 8 stages and 40 blocks (1 point). All together have 20 s.

# %% nbgrader={"grade": false, "grade_id": "balance", "locked": false, "schema_version": 3, "solution": true, "task": false}
def balance(num_blocks, num_stages, block_s, embedding_s, output_s):
    """Blocks of each stage, so that the slowest one is as fast as can be."""
    ### BEGIN SOLUTION
    load = [0.0] * num_stages
    load[0] += embedding_s
    load[-1] += output_s
    blocks = [0] * num_stages
    for _ in range(num_blocks):                 # each block goes where the load is least
        least = load.index(min(load))
        blocks[least] += 1
        load[least] += block_s
    return blocks
    ### END SOLUTION


# %% id="balance-try"
# Try it: the output layer takes as long as two blocks, so the last of three stages has two blocks fewer.
balance(7, 3, block_s=1.0, embedding_s=0.0, output_s=2.0)

# %% nbgrader={"grade": true, "grade_id": "balance-check", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
from helpers.checks.pipeline import balancing

points = balancing.check_balance(balance)
### BEGIN HIDDEN TESTS
points += balancing.check_balance_unseen(balance)
### END HIDDEN TESTS
points

# %% [markdown] nbgrader={"grade": false, "grade_id": "balance-hints", "locked": true, "schema_version": 3, "solution": false, "task": false}
# <details><summary>Hint 1</summary>Start with no blocks: what does each stage take already?</details>
# <details><summary>Hint 2</summary>All blocks take the same time, so they can be given out one at a time. To whom?</details>
# <details><summary>Hint 3</summary>Always to the stage that is fastest so far. No other way of giving them out has a faster slowest stage.</details>

# %% [markdown] nbgrader={"grade": false, "grade_id": "choose-statement", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## 5. How many stages? (2 points)
#
# A model of 48 equal blocks does not fit on fewer than 6 cards.
# You have 48 cards, a batch of 192 samples, and microbatches of one sample; cards that are not needed for one pipeline hold copies of it, which share the batch.
#
# Compare 6 stages with 24 stages, both with 1F1B: the bubble of each as part of the total (1 point), and one other thing that speaks for one of them (1 point).
# This answer is read and graded by a person.

# %% [markdown] nbgrader={"grade": true, "grade_id": "choose", "locked": false, "points": 2, "schema_version": 3, "solution": true, "task": false}
# 6 stages make 8 pipelines of 24 microbatches each: 5/(24+5) = 17 % of total. 24 stages make 2 pipelines of 96 microbatches: 23/(96+23) = 19 %. Nearly the same, since stages and microbatches grow alike: (p-1)/(m+p-1) with m = 4p.
# For 6 stages: fewer boundaries with messages (5 instead of 23), and stages that are easier to balance (8 blocks instead of 2: one more or less is an eighth and not half of the stage's time). For 24: a quarter of the state on each card (the 6 cards are nearly full), and less to send for the sum of gradients, a quarter as many parameters over 2 copies instead of 8. No reason: rank 0 holds p microbatches of 1/p of the model in both, so activations are about alike.
#
# *Half a point for each bubble; one point for any true other reason with its direction.*
