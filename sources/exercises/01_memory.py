# %% [markdown] nbgrader={"grade": false, "grade_id": "title", "locked": true, "schema_version": 3, "solution": false, "task": false}
# # Exercises 01: memory
#
# Six exercises, 20 points, about an hour; lesson 01 has all that you need.
#
# Each has a cell for your answer and a locked cell that checks it: replace what says `YOUR CODE HERE` or `None`, delete the line with `NotImplementedError`, run your cell, then the check.
# Checks say which property is right and what is wrong with the others, as often as you like.
# The grader runs some more cases than you see.
#
# Work with pencil and Python. `helpers.predict` and `helpers.compare` know most answers, so they are not allowed here; the rest of `helpers` is.

# %% nbgrader={"grade": false, "grade_id": "setup", "locked": true, "schema_version": 3, "solution": false, "task": false}
import torch
from torch.distributed.fsdp import fully_shard

from helpers.run.launch import launch, warm_up
from helpers.run.measure.meters import memory
from helpers.run.models import mlp

warm_up("helpers.checks.memory")

# %% [markdown] nbgrader={"grade": false, "grade_id": "table-statement", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## 1. Thirteen billion parameters on eight ranks (4 points)
#
# A model of $13 \cdot 10^9$ parameters is trained with Adam in mixed precision: bf16 parameters and gradients, fp32 master copy, momentum and variance.
#
# **How many GB** ($10^9$ bytes) of model state does one rank hold under DDP and under ZeRO stages 1, 2 and 3, on **8 ranks**?

# %% nbgrader={"grade": false, "grade_id": "table", "locked": false, "schema_version": 3, "solution": true, "task": false}
gb_per_rank = {"DDP": None, "ZeRO-1": None, "ZeRO-2": None, "ZeRO-3": None}
### BEGIN SOLUTION
params, ranks = 13, 8   # 10**9 parameters, so that bytes per parameter give GB
gb_per_rank = {"DDP": 16 * params, "ZeRO-1": (4 + 12 / ranks) * params,
               "ZeRO-2": (2 + 14 / ranks) * params, "ZeRO-3": 16 / ranks * params}
### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "table-check", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
from helpers.checks.memory import values as check

check.check_table(gb_per_rank)

# %% [markdown] nbgrader={"grade": false, "grade_id": "table-hints", "locked": true, "schema_version": 3, "solution": false, "task": false}
# <details><summary>Hint 1</summary>Write the five terms with their bytes, and beside each the stage from which on it is sharded.</details>
# <details><summary>Hint 2</summary>Under stage 1, which terms are divided by 8, and which are not?</details>
# <details><summary>Hint 3</summary>Stage 1 keeps 4 bytes a parameter whole and shards 12.</details>

# %% [markdown] nbgrader={"grade": false, "grade_id": "smallest-statement", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## 2. The smallest number of ranks for 24 GB (3 + 2 points)
#
# The same model under stage 3. On how many ranks at least does each hold **less than 24 GB** of model state, for three recipes:
#
# - `"mixed"`: as above;
# - `"mixed, fp32 gradients"`: the gradient in fp32 instead of bf16;
# - `"mixed, no master"`: as above, without the fp32 master copy?

# %% nbgrader={"grade": false, "grade_id": "smallest", "locked": false, "schema_version": 3, "solution": true, "task": false}
smallest = {"mixed": None, "mixed, fp32 gradients": None, "mixed, no master": None}
### BEGIN SOLUTION
def first_below(bytes_per_param, params=13, budget=24):
    ranks = 1
    while bytes_per_param * params / ranks >= budget:
        ranks += 1
    return ranks


smallest = {"mixed": first_below(16), "mixed, fp32 gradients": first_below(18), "mixed, no master": first_below(12)}
### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "smallest-check", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
from helpers.checks.memory import values as check

check.check_smallest(smallest)


# %% [markdown] nbgrader={"grade": false, "grade_id": "smallest-hints", "locked": true, "schema_version": 3, "solution": false, "task": false}
# <details><summary>Hint 1</summary>How many bytes a parameter does each recipe have?</details>
# <details><summary>Hint 2</summary>Divide the whole state by the budget. What do you do with the fraction?</details>
# <details><summary>Hint 3</summary>Ranks come whole, and exactly 24 GB is not less than 24 GB.</details>

# %% [markdown] nbgrader={"grade": false, "grade_id": "usable-statement", "locked": true, "schema_version": 3, "solution": false, "task": false}
# Now judge: would you train this model on cards of 24 GB with the number that you found for `"mixed"`?
# In three or four sentences: how much of each card is left, what else has to live there, and which number of ranks you would ask for.
# This answer is read and graded by a person.

# %% [markdown] nbgrader={"grade": true, "grade_id": "usable", "locked": false, "points": 2, "schema_version": 3, "solution": true, "task": false}
# On 9 ranks each holds 23.1 GB, so less than 1 GB of a card is left.
# Activations, the gathered parameters and the full gradient of one layer, communication buffers and the CUDA context must fit there, too, and will not.
# So 9 is where the model state fits, not where training runs.
# I would ask for 12 to 16 ranks: 16 leave 11 GB on each card, a real budget for activations, and 12 leave 6.7 GB.
#
# *One point for the remainder and what it must hold, one for a number with a reason (12 or more).*

# %% [markdown] nbgrader={"grade": false, "grade_id": "bytes-statement", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## 3. Bytes per rank, for any recipe (4 points)
#
# Write `bytes_per_rank(params, ranks, stage, recipe)`.
#
# `recipe` is a dict from term to bytes per parameter, such as `{"parameter": 2, "gradient": 2, "master": 4, "momentum": 4, "variance": 4}`.
# Terms may be missing: plain SGD has neither master nor moments.
# Parameters are sharded from stage 3 on, gradients from stage 2, all others from stage 1.
#
# You see the small cases (2 points). The grader holds your function against published figures (2 points).

# %% nbgrader={"grade": false, "grade_id": "bytes", "locked": false, "schema_version": 3, "solution": true, "task": false}
def bytes_per_rank(params, ranks, stage, recipe):
    """Bytes of model state on one rank.

    params  number of parameters
    ranks   number of data-parallel ranks
    stage   0 (DDP), 1, 2 or 3
    recipe  bytes per parameter of each term
    """
    ### BEGIN SOLUTION
    sharded_from = {"parameter": 3, "gradient": 2}
    return sum(params * num_bytes / (ranks if stage >= sharded_from.get(term, 1) else 1)
               for term, num_bytes in recipe.items())
    ### END SOLUTION


# %% id="bytes-try"
# Try it: bytes of one parameter under DDP.
bytes_per_rank(1, 1, 0, {"parameter": 2, "gradient": 2, "master": 4, "momentum": 4, "variance": 4})

# %% nbgrader={"grade": true, "grade_id": "bytes-check", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
from helpers.checks.memory import functions as check_functions

points = check_functions.check_bytes_per_rank(bytes_per_rank)
### BEGIN HIDDEN TESTS
points += check_functions.check_bytes_per_rank_unseen(bytes_per_rank)
### END HIDDEN TESTS
points

# %% [markdown] nbgrader={"grade": false, "grade_id": "bytes-hints", "locked": true, "schema_version": 3, "solution": false, "task": false}
# <details><summary>Hint 1</summary>Go through the terms of the recipe, one at a time, and add up.</details>
# <details><summary>Hint 2</summary>For each term there is one question: has its stage been reached?</details>
# <details><summary>Hint 3</summary>The check uses terms of 1, 10, 100, ... bytes, so that each digit of the result is one term.</details>

# %% [markdown] nbgrader={"grade": false, "grade_id": "mistake-statement", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## 4. Find the mistake (2 points)
#
# Somebody has written down what 30 billion parameters take **under ZeRO stage 1 on 16 ranks**, with Adam in mixed precision:
#
# | term | dtype | GB a rank |
# |---|---|---|
# | parameter | bf16 | 60 |
# | gradient | bf16 | 3.75 |
# | master | fp32 | 7.5 |
# | momentum | fp32 | 7.5 |
# | variance | fp32 | 7.5 |
# | **sum** | | **86.25** |
#
# One row is wrong. Which one, and what is the right sum, in GB a rank?

# %% nbgrader={"grade": false, "grade_id": "mistake", "locked": false, "schema_version": 3, "solution": true, "task": false}
wrong_term = None  # its name, as it stands in the table
right_gb = None
### BEGIN SOLUTION
wrong_term = "gradient"
right_gb = 2 * 30 + 2 * 30 + 12 * 30 / 16
### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "mistake-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
from helpers.checks.memory import values as check

check.check_mistake(wrong_term, right_gb)


# %% [markdown] nbgrader={"grade": false, "grade_id": "mistake-hints", "locked": true, "schema_version": 3, "solution": false, "task": false}
# <details><summary>Hint 1</summary>Work out each row yourself: bytes a parameter, and whether stage 1 shards it.</details>
# <details><summary>Hint 2</summary>Which terms does the optimizer alone need?</details>
# <details><summary>Hint 3</summary>The wrong row would be right under another stage.</details>

# %% [markdown] nbgrader={"grade": false, "grade_id": "layers-statement", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## 5. The largest model for a card (2 points)
#
# A transformer is $L$ equal layers of `layer_params` parameters, and `other_params` (embeddings). It is trained with 16 bytes a parameter under stage 3.
# Each card must hold at once:
#
# - its share of the state of all parameters, $16\,(L \cdot \text{layer\_params} + \text{other\_params}) / \text{ranks}$ bytes;
# - one gathered layer in bf16 and that layer's full bf16 gradient, $4 \cdot \text{layer\_params}$ bytes;
# - `reserve_bytes` for activations and all else.
#
# You see small cases (1 point); the grader runs some of real size (1 point).
# Return the largest whole $L$ for which this is **at most** `card_bytes`; 0 if not even one layer fits.

# %% nbgrader={"grade": false, "grade_id": "layers", "locked": false, "schema_version": 3, "solution": true, "task": false}
def most_layers(card_bytes, ranks, layer_params, other_params, reserve_bytes):
    """The largest number of layers (int, 0 or more) that fits on each of `ranks` cards."""
    ### BEGIN SOLUTION
    left = card_bytes - reserve_bytes - 4 * layer_params
    return max(0, (left * ranks - 16 * other_params) // (16 * layer_params))
    ### END SOLUTION


# %% id="layers-try"
# Try it: 64 cards of 80 GiB, 20 GiB reserved, the layers of Llama 3.1 70B, which has 80 of them.
most_layers(80 * 2**30, 64, layer_params=855_654_400, other_params=2_101_346_304, reserve_bytes=20 * 2**30)

# %% nbgrader={"grade": true, "grade_id": "layers-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
from helpers.checks.memory import functions as check_functions

points = check_functions.check_most_layers(most_layers)
### BEGIN HIDDEN TESTS
points += check_functions.check_most_layers_unseen(most_layers)
### END HIDDEN TESTS
points

# %% [markdown] nbgrader={"grade": false, "grade_id": "layers-hints", "locked": true, "schema_version": 3, "solution": false, "task": false}
# <details><summary>Hint 1</summary>Write down the inequality with all three parts, then solve it for L.</details>
# <details><summary>Hint 2</summary>Which of the three parts gets smaller with more ranks? Only that one.</details>
# <details><summary>Hint 3</summary>Whole numbers: // rounds down, also below zero, so mind the case in which nothing fits.</details>

# %% [markdown] nbgrader={"grade": false, "grade_id": "measure-statement", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## 6. Predict, then measure on two ranks (3 points)
#
# Take `mlp(width=512, depth=16)`, 16 matrices of 512 by 512 in fp32, and `torch.optim.SGD` with momentum.
#
# 1. **Predict** how many MiB of tensors each of two ranks holds after one step under FSDP: write `predicted_mib`.
# 2. Write the rank program `measure(rank, world_size)`: inside `with memory() as grown`, build the model, put `fully_shard` on each block and on the whole, make the optimizer, do one forward on a batch of 2, one backward and one step. Return `grown.tensors`, after the block.
#
# The grader runs your program on other numbers of ranks, too (1 point).

# %% nbgrader={"grade": false, "grade_id": "predict", "locked": false, "schema_version": 3, "solution": true, "task": false}
predicted_mib = None
### BEGIN SOLUTION
predicted_mib = 16 * 512**2 * (4 + 4 + 4) / 2 / 2**20
### END SOLUTION

# %% nbgrader={"grade": false, "grade_id": "measure", "locked": false, "schema_version": 3, "solution": true, "task": false}
def measure(rank, world_size):
    """Bytes of tensors that this rank holds after one step of SGD with momentum under FSDP."""
    ### BEGIN SOLUTION
    with memory() as grown:
        model = mlp(width=512, depth=16)
        for block in model:
            fully_shard(block)
        fully_shard(model)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        model(torch.ones(2, 512)).sum().backward()
        optimizer.step()
    return grown.tensors
    ### END SOLUTION


# %% id="measure-try"
# Try it: MiB on each of two ranks.
[num_bytes / 2**20 for num_bytes in launch(measure, 2).results]

# %% nbgrader={"grade": true, "grade_id": "measure-check", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
from helpers.checks.memory import measured as check_measured

points = check_measured.check_measured(measure, predicted_mib)
### BEGIN HIDDEN TESTS
points += check_measured.check_measured_unseen(measure)
### END HIDDEN TESTS
points

# %% [markdown] nbgrader={"grade": false, "grade_id": "measure-hints", "locked": true, "schema_version": 3, "solution": false, "task": false}
# <details><summary>Hint 1</summary>SGD with momentum keeps one number a parameter, in the parameter's own dtype.</details>
# <details><summary>Hint 2</summary>Lesson 01 has such a program, <code>train</code>: change the model's size, the batch, the optimizer, and what is returned.</details>
# <details><summary>Hint 3</summary>Everything must still be alive when the block ends: model, gradients and optimizer.</details>
