# %% [markdown] nbgrader={"grade": false, "grade_id": "title", "locked": true, "schema_version": 3, "solution": false, "task": false}
# # Exercises 06: FSDP
#
# Five exercises, 19 points, about 90 minutes; lessons 05 and 06 have all that you need.
#
# Each has a cell for your answer and a locked cell that checks it: replace what says `YOUR CODE HERE` or `None`, delete the line with `NotImplementedError`, run your cell, then the check.
# Checks say which property is right and what is wrong with the others, as often as you like.
# The grader runs some more cases than you see.
#
# `helpers.predict`, `helpers.compare` and our own ZeRO are not allowed here; the rest of `helpers` is.

# %% nbgrader={"grade": false, "grade_id": "setup", "locked": true, "schema_version": 3, "solution": false, "task": false}
import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from torch.nn.functional import cross_entropy

from helpers.run.collectives import Chunks, GlooMesh, ring_all_gather, ring_reduce_scatter
from helpers.run.launch import launch, warm_up
from helpers.run.measure.meters import wire
from helpers.run.models import GPT, mlp

warm_up("helpers.checks.fsdp")


# %% [markdown] nbgrader={"grade": false, "grade_id": "lend-statement", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## 1. Lend a layer (5 points)
#
# A step of FSDP by hand, without autograd.
# The model is a chain of matrices, $y = x\,W_1^T W_2^T \cdots$, and of each matrix this rank has a chunk, as `Chunks` cuts the flat matrix.
#
# Write `step(layers, x, loss_gradient)`.
# `layers` is a list of pairs `(shard, (rows, columns))`; `x` `[B, columns of the first]` is this rank's; `loss_gradient(y)` gives $\partial L/\partial y$.
# Return a list with this rank's chunk of each matrix's gradient, flat: the **mean** over ranks.
# Leave shards and `x` as they are.
#
# With $a$ the input of a layer and $g$ the gradient of its output, the matrix has gradient $g^T a$, and $a$ has gradient $g\,W$.
#
# Targets: at most **three** full layers alive at any time, matrices and their gradients together; $3P\,(N-1)/N$ elements sent.
#
# You see 4 ranks with three and with eight layers (4 points); the grader runs others (1 point).

# %% nbgrader={"grade": false, "grade_id": "lend", "locked": false, "schema_version": 3, "solution": true, "task": false}
def step(layers, x, loss_gradient):
    """Shards of the mean gradient of each layer; its matrix exists only while it is needed."""
    ### BEGIN SOLUTION
    mesh, inputs, shards = GlooMesh(), [], []

    def lent(shard, shape):
        whole = shard.new_empty(shape[0] * shape[1])
        Chunks(whole, mesh.world_size)[mesh.rank].copy_(shard)
        ring_all_gather(mesh, whole)
        return whole.view(shape)

    for layer in layers:
        inputs.append(x)
        x = x @ lent(*layer).T
    upstream = loss_gradient(x) / mesh.world_size
    for layer, activation in zip(reversed(layers), reversed(inputs), strict=True):
        shards.insert(0, ring_reduce_scatter(mesh, (upstream.T @ activation).view(-1)).clone())
        upstream = upstream @ lent(*layer)
    return shards
    ### END SOLUTION


# %% id="lend-try"
# Try it: one matrix [2, 2] of ones on 2 ranks, x = (1, 2) on rank 0 and (3, 4) on rank 1, dL/dy = 1.
def tried(rank, world_size):
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])[rank:rank + 1]
    return step([(torch.ones(2), (2, 2))], x, torch.ones_like)


launch(tried, 2).results      # the mean of (1, 2) and (3, 4) in both rows: rank 0 has the first row, rank 1 the second

# %% nbgrader={"grade": true, "grade_id": "lend-check", "locked": true, "points": 5, "schema_version": 3, "solution": false, "task": false}
from helpers.checks.fsdp import layer_at_a_time

points = layer_at_a_time.check_layer_at_a_time(step)
### BEGIN HIDDEN TESTS
points += layer_at_a_time.check_layer_at_a_time_unseen(step)
### END HIDDEN TESTS
points

# %% [markdown] nbgrader={"grade": false, "grade_id": "lend-hints", "locked": true, "schema_version": 3, "solution": false, "task": false}
# <details><summary>Hint 1</summary>Write a small function that makes a full matrix of a shard: an empty flat tensor, the shard into its chunk, ring_all_gather, view(shape). Call it in forward and again in backward.</details>
# <details><summary>Hint 2</summary>Keep the input of each layer in forward. Backward goes through layers and inputs from the last: gradient of the matrix first, then the gradient of the input, which needs the matrix.</details>
# <details><summary>Hint 3</summary>ring_reduce_scatter returns a view of all of its input: clone it. Divide once, by the number of ranks.</details>

# %% [markdown] nbgrader={"grade": false, "grade_id": "bytes-statement", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## 2. Freed or kept (4 points)
#
# `mlp(width=512, depth=8)` has eight blocks, each a 512 by 512 matrix, in fp32.
# Each block is sharded by its own `fully_shard`, then the whole model, on **4 ranks of gloo**, once with `reshard_after_forward=True` for all (`"freed"`), once with `False` (`"kept"`).
#
# 1. **Predict** the bytes that each rank sends in forward and backward of one step. (Mind what gloo's reduce_scatter sends.)
# 2. **Predict** the number of all_gathers in it. (Nothing is left for the whole model to gather.)
# 3. **Measure** the bytes: a list by rank for each of the two.

# %% nbgrader={"grade": false, "grade_id": "bytes", "locked": false, "schema_version": 3, "solution": true, "task": false}
predicted_bytes = {"freed": None, "kept": None}
predicted_gathers = {"freed": None, "kept": None}
measured = {"freed": None, "kept": None}            # lists of bytes, by rank
### BEGIN SOLUTION
full = 4 * 8 * 512**2
predicted_bytes = {"freed": (2 + 2) * full * 3 / 4, "kept": (1 + 2) * full * 3 / 4}
predicted_gathers = {"freed": 16, "kept": 8}


def one_step(rank, world_size, reshard):
    model = mlp(width=512, depth=8)
    for block in model:
        fully_shard(block, reshard_after_forward=reshard)
    fully_shard(model, reshard_after_forward=reshard)
    with wire() as counted:
        model(torch.ones(4, 512)).sum().backward()
    return counted.sent


measured = {"freed": launch(one_step, 4, True).results, "kept": launch(one_step, 4, False).results}
### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "bytes-check", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
from helpers.checks.fsdp import step_numbers

step_numbers.check_fsdp_step(predicted_bytes, predicted_gathers, measured)


# %% [markdown] nbgrader={"grade": false, "grade_id": "bytes-hints", "locked": true, "schema_version": 3, "solution": false, "task": false}
# <details><summary>Hint 1</summary>With T bytes of parameters on N ranks: an all_gather of all units sends T (N-1)/N from each rank, and gloo's reduce_scatter twice that.</details>
# <details><summary>Hint 2</summary>What is freed after forward is gathered again in backward. What is kept is not.</details>
# <details><summary>Hint 3</summary>Shard first, then open wire() around forward and backward. fully_shard(block, reshard_after_forward=...) for each block, then for the model.</details>

# %% [markdown] nbgrader={"grade": false, "grade_id": "wrap-statement", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## 3. Mend the wrap (4 points)
#
# `careless` prepares a small GPT for training on several ranks.
# Nothing fails, but the loss does not fall, and at its peak a rank holds as much as if all blocks were gathered at once.
#
# Write `wrap(model, lr)`, which returns the model and an Adam optimizer that train as one process does, with **a unit for each block**, freed after its forward.
#
# `model.blocks` is an `nn.Sequential`; `model.tokens.weight` and `model.output.weight` are one tensor and must stay one.
#
# You see six blocks on 2 ranks (3 points); the grader runs others (1 point).

# %% nbgrader={"grade": false, "grade_id": "given", "locked": true, "schema_version": 3, "solution": false, "task": false}
def careless(model, lr):
    optimizer = torch.optim.Adam(model.parameters(), lr)
    fully_shard(model.blocks, reshard_after_forward=False)
    fully_shard(model)
    return model, optimizer


# %% nbgrader={"grade": false, "grade_id": "wrap", "locked": false, "schema_version": 3, "solution": true, "task": false}
def wrap(model, lr):
    """The sharded model, and Adam for what it trains."""
    ### BEGIN SOLUTION
    for each_block in model.blocks:
        fully_shard(each_block)
    fully_shard(model)                      # embeddings, last norm, and the tied output layer
    return model, torch.optim.Adam(model.parameters(), lr)
    ### END SOLUTION


# %% id="wrap-try"
# Try it: the loss of ten steps on one sequence, on 2 ranks. With careless in its place, it stays where it was.
def tried_wrap(rank, world_size):
    torch.manual_seed(0)
    model, optimizer = wrap(GPT(layers=2, hidden=64, heads=4, vocab=64, max_seq=8), lr=1e-2)
    numbers, curve = torch.randint(64, (1, 9)), []
    for _ in range(10):
        optimizer.zero_grad()
        loss = cross_entropy(model(numbers[:, :-1]).flatten(0, 1), numbers[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        curve.append(round(loss.item(), 2))
    return curve


launch(tried_wrap, 2).results[0]

# %% nbgrader={"grade": true, "grade_id": "wrap-check", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
from helpers.checks.fsdp import wrapping

points = wrapping.check_wrap(wrap)
### BEGIN HIDDEN TESTS
points += wrapping.check_wrap_unseen(wrap)
### END HIDDEN TESTS
points


# %% [markdown] nbgrader={"grade": false, "grade_id": "wrap-hints", "locked": true, "schema_version": 3, "solution": false, "task": false}
# <details><summary>Hint 1</summary>fully_shard replaces the parameters of a module. What does an optimizer have that was made before?</details>
# <details><summary>Hint 2</summary>One call of fully_shard makes one unit, of everything in the module that is in no unit yet.</details>
# <details><summary>Hint 3</summary>First each block, then the model, then Adam. reshard_after_forward is True by default for all but the outermost.</details>

# %% [markdown] nbgrader={"grade": false, "grade_id": "clip-statement", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## 4. Clip what is scattered (4 points)
#
# Write `clip(sharded, replicated, max_norm)`.
# `sharded` is a list of this rank's chunks of gradients (some may be empty); `replicated` is a list of whole gradients, of any shape, that every rank has alike, as of small parameters that are not worth sharding.
#
# Return the norm of the whole gradient, each element counted **once**, and scale all tensors **in place** as `torch.nn.utils.clip_grad_norm_` does: by `max_norm / (norm + 1e-6)`, if that is below 1.
#
# Target: one call of `torch.distributed`, and not more than a number or two sent.
#
# You see three cases on 4 ranks (3 points); the grader runs others (1 point).

# %% nbgrader={"grade": false, "grade_id": "clip", "locked": false, "schema_version": 3, "solution": true, "task": false}
def clip(sharded, replicated, max_norm):
    """Scale all gradients so that their norm over all ranks is at most max_norm; return the norm before that."""
    ### BEGIN SOLUTION
    square = torch.zeros((), dtype=torch.float64)
    for shard in sharded:
        square += shard.double().square().sum()
    dist.all_reduce(square)
    for everywhere in replicated:           # equal on all ranks, so it is added after the sum over ranks
        square += everywhere.double().square().sum()
    norm = square.sqrt().item()
    factor = min(1.0, max_norm / (norm + 1e-6))
    for each in [*sharded, *replicated]:
        each.mul_(factor)
    return norm
    ### END SOLUTION


# %% id="clip-try"
# Try it: 3 on rank 0, 4 on rank 1, and 12 that both have: the norm is 13. With limit 6.5, all are halved.
def tried_clip(rank, world_size):
    sharded, replicated = [torch.tensor([3.0 + rank])], [torch.tensor([12.0])]
    return clip(sharded, replicated, 6.5), sharded, replicated


launch(tried_clip, 2).results

# %% nbgrader={"grade": true, "grade_id": "clip-check", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
from helpers.checks.fsdp import clipping

points = clipping.check_clip(clip)
### BEGIN HIDDEN TESTS
points += clipping.check_clip_unseen(clip)
### END HIDDEN TESTS
points

# %% [markdown] nbgrader={"grade": false, "grade_id": "clip-hints", "locked": true, "schema_version": 3, "solution": false, "task": false}
# <details><summary>Hint 1</summary>Norms do not add up; squares do.</details>
# <details><summary>Hint 2</summary>all_reduce the sum of squares of the shards. What would happen to the replicated ones in that sum?</details>
# <details><summary>Hint 3</summary>Add the squares of the replicated gradients after the all_reduce, take the root, scale everything by the same factor with mul_.</details>

# %% [markdown] nbgrader={"grade": false, "grade_id": "choose-statement", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## 5. Which mode, and why? (2 points)
#
# A model of 8 billion parameters in bf16 trains with FSDP on 64 cards of 80 GB; state takes 2 GB of each, activations 30 GB.
# The network is the bottleneck: communication is not hidden.
#
# Say which `reshard_after_forward` you would take, with the bytes that it saves or costs in traffic and in memory (1 point), and what else could lower the traffic for each sample, with its price (1 point).
# This answer is read and graded by a person.

# %% [markdown] nbgrader={"grade": true, "grade_id": "choose", "locked": false, "points": 2, "schema_version": 3, "solution": true, "task": false}
# Off: parameters are kept from forward to backward. A rank then sends 2 times 16 GB times 63/64 in a step instead of 3 times, a third less, and holds up to 16 GB of gathered parameters at the end of forward: 2 + 30 + 16 GB fit into 80 GB with room for the gathered messages.
# Traffic is for each step, not for each sample: with more samples a rank in a step (activations have 30 GB of room) or with accumulation in which gradients are reduced once, the same bytes serve more samples; the price is memory, or a larger global batch. Others: sharding inside a node and replicating between nodes, for the price of more state on each card; gradients reduced in a smaller dtype.
#
# *Half a point for the mode, half for both figures (about a third less traffic, about 16 GB); half a point for one way that lowers traffic per sample, half for its price.*
