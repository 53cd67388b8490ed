# %% [markdown] nbgrader={"grade": false, "grade_id": "title", "locked": true, "schema_version": 3, "solution": false, "task": false}
# # Exercises 05: ZeRO
#
# Five exercises, 18 points, about 80 minutes; lesson 05 has all that you need.
#
# Each has a cell for your answer and a locked cell that checks it: replace what says `YOUR CODE HERE` or `None`, delete the line with `NotImplementedError`, run your cell, then the check.
# Checks say which property is right and what is wrong with the others, as often as you like.
# The grader runs some more cases than you see.
#
# `helpers.predict`, `helpers.compare` and our own ZeRO (`helpers.run.zero`) are what you are asked to write, so exercises 1 and 2 do without them; our ring and `Chunks` are yours to use.

# %% nbgrader={"grade": false, "grade_id": "setup", "locked": true, "schema_version": 3, "solution": false, "task": false}
import torch
from torch import nn

from helpers.run.collectives import Chunks, GlooMesh, ring_all_gather, ring_reduce_scatter
from helpers.run.launch import launch, warm_up
from helpers.run.measure.meters import wire
from helpers.run.measure.state import bytes_by_term
from helpers.run.models import perceptron
from helpers.run.zero import Zero2

warm_up("helpers.checks.zero")


# %% [markdown] nbgrader={"grade": false, "grade_id": "optimizer-statement", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## 1. Adam, a shard on each rank (5 points)
#
# Write the class `ShardedAdam(parameters, lr)` with one method, `step()`.
#
# `parameters` is a list of fp32 tensors of any shapes, the same on all ranks, $P$ elements in all; $P$ need not divide by the number of ranks $N$.
# Before `step()`, each has this rank's own gradient in `.grad`.
# After it, each holds on every rank what `torch.optim.Adam(parameters, lr)` would make of the **mean** gradient.
# Other code holds views of the parameters, so change them **in place**: `p.data = ...` would cut that tie.
#
# Targets: between steps a rank keeps at most $3\lceil P/N\rceil$ elements of its own (two moments and, if you like, a copy of its shard), and a step sends $2P\,(N-1)/N$ elements.
#
# You see 4 ranks with 23 and with 100,003 elements, three steps (4 points); the grader runs other shapes and numbers of ranks (1 point).

# %% nbgrader={"grade": false, "grade_id": "optimizer", "locked": false, "schema_version": 3, "solution": true, "task": false}
class ShardedAdam:
    """`torch.optim.Adam` on the mean gradient, whose moments are sharded over the ranks."""

    def __init__(self, parameters, lr):
        ### BEGIN SOLUTION
        self.parameters, self.mesh = parameters, GlooMesh()
        self.shard = self.chunk(self.flat(p.detach() for p in parameters)).clone()
        self.adam = torch.optim.Adam([self.shard], lr=lr)
        ### END SOLUTION

    def step(self):
        ### BEGIN SOLUTION
        gradient = self.flat(p.grad for p in self.parameters) / self.mesh.world_size
        self.shard.grad = ring_reduce_scatter(self.mesh, gradient)
        self.adam.step()
        self.shard.grad = None
        everything = gradient                                   # used up; takes the new parameters
        self.chunk(everything).copy_(self.shard)
        ring_all_gather(self.mesh, everything)
        parts = everything.split([p.numel() for p in self.parameters])
        for parameter, part in zip(self.parameters, parts, strict=True):
            parameter.detach().copy_(part.view_as(parameter))

    def flat(self, tensors):
        return torch.cat([tensor.reshape(-1) for tensor in tensors])

    def chunk(self, flat):
        return Chunks(flat, self.mesh.world_size)[self.mesh.rank]
        ### END SOLUTION


# %% id="optimizer-try"
# Try it: rank r's gradient is r + 1, so the mean on 4 ranks is 2.5. Adam's first step is lr, whatever the gradient.
def tried(rank, world_size):
    parameters = [torch.ones(2, 3), torch.ones(5)]
    for parameter in parameters:
        parameter.grad = torch.full_like(parameter, rank + 1.0)
    ShardedAdam(parameters, lr=0.1).step()
    return [parameter.unique().tolist() for parameter in parameters]


launch(tried, 4).results

# %% nbgrader={"grade": true, "grade_id": "optimizer-check", "locked": true, "points": 5, "schema_version": 3, "solution": false, "task": false}
from helpers.checks.zero import sharded_adam

points = sharded_adam.check_optimizer(ShardedAdam)
### BEGIN HIDDEN TESTS
points += sharded_adam.check_optimizer_unseen(ShardedAdam)
### END HIDDEN TESTS
points


# %% [markdown] nbgrader={"grade": false, "grade_id": "optimizer-hints", "locked": true, "schema_version": 3, "solution": false, "task": false}
# <details><summary>Hint 1</summary>Put all gradients end to end: torch.cat of their reshape(-1). Which part of that does this rank need, and what gives it the mean of that part?</details>
# <details><summary>Hint 2</summary>Give torch.optim.Adam one tensor: a clone of this rank's chunk of the parameters. A view of a flat copy of everything would keep the whole copy alive.</details>
# <details><summary>Hint 3</summary>After Adam's step, put the shard into its chunk of a flat tensor, ring_all_gather that, split it by numel(), and copy each part into its parameter with p.detach().copy_(part.view_as(p)).</details>

# %% [markdown] nbgrader={"grade": false, "grade_id": "hook-statement", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## 2. Reduce and free, from inside backward (5 points)
#
# Write `shard_gradients(buckets)`, stage 2's half of backward.
#
# `buckets` is a list of lists of parameters, in the order in which backward completes them.
# Register hooks, and return a dict `shards`, which they fill.
# After every backward, `shards[b]` is this rank's chunk (as `Chunks` cuts) of the **mean** gradient of bucket `b`, all its parameters end to end in the order of the list, and every `.grad` is `None`.
# A second backward **adds** to the shards, as it would to `.grad`.
#
# Targets: at no time are gradients of more than one bucket alive, and a backward sends $P\,(N-1)/N$ elements.
#
# `parameter.register_post_accumulate_grad_hook(hook)` has `hook(parameter)` called when `parameter.grad` is complete.
#
# You see 4 ranks and three buckets (4 points); the grader runs others (1 point).

# %% nbgrader={"grade": false, "grade_id": "hook", "locked": false, "schema_version": 3, "solution": true, "task": false}
def shard_gradients(buckets):
    """Have each backward leave shards of the mean gradient; returns {number of the bucket: shard}."""
    ### BEGIN SOLUTION
    mesh, shards = GlooMesh(), {}

    def watch(number, bucket):
        missing = set(bucket)

        def ready(parameter):
            missing.remove(parameter)
            if missing:
                return
            missing.update(bucket)
            whole = torch.cat([p.grad.reshape(-1) for p in bucket]).div_(mesh.world_size)
            for p in bucket:
                p.grad = None
            reduced = ring_reduce_scatter(mesh, whole).clone()  # a view would keep the bucket
            shards[number] = shards[number] + reduced if number in shards else reduced

        for parameter in bucket:
            parameter.register_post_accumulate_grad_hook(ready)

    for number, bucket in enumerate(buckets):
        watch(number, bucket)
    return shards
    ### END SOLUTION


# %% id="hook-try"
# Try it: rank r's gradients are 10**r, so on 4 ranks the mean is 1111 / 4. Five elements: the first rank has two.
def tried_hook(rank, world_size):
    weight, bias = nn.Parameter(torch.zeros(4)), nn.Parameter(torch.zeros(1))
    shards = shard_gradients([[bias, weight]])
    (10.0**rank * (weight.sum() + bias.sum())).backward()
    return shards[0].tolist(), weight.grad


launch(tried_hook, 4).results

# %% nbgrader={"grade": true, "grade_id": "hook-check", "locked": true, "points": 5, "schema_version": 3, "solution": false, "task": false}
from helpers.checks.zero import gradient_shards

points = gradient_shards.check_hook(shard_gradients)
### BEGIN HIDDEN TESTS
points += gradient_shards.check_hook_unseen(shard_gradients)
### END HIDDEN TESTS
points

# %% [markdown] nbgrader={"grade": false, "grade_id": "hook-hints", "locked": true, "schema_version": 3, "solution": false, "task": false}
# <details><summary>Hint 1</summary>A hook sees one parameter. How does it know that its bucket is complete? Keep a set of those that are missing, and fill it again for the next backward.</details>
# <details><summary>Hint 2</summary>When the bucket is complete: torch.cat, divide by the number of ranks, set every .grad to None, ring_reduce_scatter.</details>
# <details><summary>Hint 3</summary>ring_reduce_scatter returns a view of the whole bucket. Clone it, or the bucket stays alive with it. The clone is added to the shard, if there is one already.</details>

# %% [markdown] nbgrader={"grade": false, "grade_id": "predict-statement", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## 3. Predict, then measure (3 points)
#
# `perceptron(64, 8192, 64, 8192, 32)` has 1,851,488 parameters; Adam, fp32, stage 2, 4 ranks.
#
# 1. **Predict** the bytes of state that a rank holds after a step: parameters, its shards of gradient, momentum and variance. (Leave out Adam's step counters.)
# 2. **Predict** the bytes that a rank sends in a step.
# 3. **Measure** on 4 ranks with `Zero2(model, torch.optim.Adam)`: `measured` is a list with a pair for each rank, `(bytes of state, bytes sent)`, of **one** step, without what is sent at construction. `zero.held()` has the tensors by term, `bytes_by_term` their sizes; the term `"counter"` does not count.

# %% nbgrader={"grade": false, "grade_id": "predict", "locked": false, "schema_version": 3, "solution": true, "task": false}
predicted_state = None         # bytes on each of 4 ranks
predicted_sent = None          # bytes sent by each of 4 ranks in a step
measured = None                # [(bytes of state, bytes sent), ...], by rank
### BEGIN SOLUTION
P = 1_851_488
predicted_state = 4 * P + (4 + 4 + 4) * P / 4
predicted_sent = 2 * 4 * P * 3 / 4


def measure(rank, world_size):
    zero = Zero2(perceptron(64, 8192, 64, 8192, 32), torch.optim.Adam)
    with wire() as sent:
        zero(torch.ones(4, 64)).sum().backward()
        zero.step()
    sizes = bytes_by_term(zero.held())
    return sum(sizes.values()) - sizes["counter"], sent.sent


measured = launch(measure, 4).results
### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "predict-check", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
from helpers.checks.zero import step_numbers

step_numbers.check_zero_step(predicted_state, predicted_sent, measured)

# %% [markdown] nbgrader={"grade": false, "grade_id": "predict-hints", "locked": true, "schema_version": 3, "solution": false, "task": false}
# <details><summary>Hint 1</summary>In fp32 there is no master copy. Which of the four terms are whole under stage 2?</details>
# <details><summary>Hint 2</summary>A reduce_scatter of gradients and an all_gather of parameters: P elements each, times (N-1)/N.</details>
# <details><summary>Hint 3</summary>Make the Zero2 first, then open wire() around forward, backward and step(). bytes_by_term(zero.held()) after it.</details>

# %% [markdown] nbgrader={"grade": false, "grade_id": "which-statement", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## 4. Which is which? (3 points)
#
# Six jobs train a billion parameters on 8 ranks: bf16 parameters and gradients, Adam, fp32 master copy.
# Of each you know what was measured on a rank:
#
# | job | GB of state | GB sent in a step |
# |---|---|---|
# | A | 5.5 | 3.5 |
# | B | 2 | 5.25 |
# | C | 16 | 3.5 |
# | D | 5.5 | 5.25 |
# | E | 3.75 | 3.5 |
# | F | 2 | 3.5 |
#
# Say of each what it is: `"DDP"`, `"stage 1"`, `"stage 1, gradients all_reduced"` (as PyTorch's `ZeroRedundancyOptimizer` beside DDP), `"stage 2"`, `"stage 3"`, `"stage 3, kept for backward"` (parameters are not freed between forward and backward).

# %% nbgrader={"grade": false, "grade_id": "which", "locked": false, "schema_version": 3, "solution": true, "task": false}
jobs = {"A": None, "B": None, "C": None, "D": None, "E": None, "F": None}
### BEGIN SOLUTION
jobs = {"A": "stage 1", "B": "stage 3", "C": "DDP", "D": "stage 1, gradients all_reduced",
        "E": "stage 2", "F": "stage 3, kept for backward"}
### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "which-check", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
from helpers.checks.zero import step_numbers

step_numbers.check_jobs(jobs)

# %% [markdown] nbgrader={"grade": false, "grade_id": "which-hints", "locked": true, "schema_version": 3, "solution": false, "task": false}
# <details><summary>Hint 1</summary>State first: 16P, 4P + 12P/8, 2P + 14P/8, 16P/8, with P a billion.</details>
# <details><summary>Hint 2</summary>In bf16, P elements are 2 GB, times 7/8. How often is that sent?</details>
# <details><summary>Hint 3</summary>State that is left after the step does not show whether parameters were kept for backward; what is sent does.</details>

# %% [markdown] nbgrader={"grade": false, "grade_id": "why-statement", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## 5. It fits, and then it does not (2 points)
#
# A job under stage 2 on 16 ranks has 30 GB of state on each rank and dies on cards of 40 GB, in the middle of backward, always.
# With microbatches half as large it dies at the same line.
#
# Name the likely cause and how you would show that it is the cause (1 point), and two cures with the price of each (1 point).
# This answer is read and graded by a person.

# %% [markdown] nbgrader={"grade": true, "grade_id": "why", "locked": false, "points": 2, "schema_version": 3, "solution": true, "task": false}
# It is not activations, or half of them would have helped. What grows during backward besides them are gradients that are not reduced yet: a bucket that is too large (or one for everything), so that 2P bytes of bf16 gradients stand beside the state before the first of them is freed. To show it: draw what is alive in a step, or print live bytes at each bucket; the gradient's band rises to the size of the bucket. Halving the bucket must lower the peak by that much.
# Cures: smaller buckets, at the price of more messages, each with its latency, and less bandwidth on fast links; stage 3, which shards parameters as well, at the price of half as much traffic again; more ranks lower the shards but not the bucket.
#
# *Half a point for the cause (unreduced gradients, bucket), half for an observation that tells it from activations; half a point for each cure with a price. Smaller microbatches or activation checkpointing are no cures here.*
