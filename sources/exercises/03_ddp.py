# %% [markdown] nbgrader={"grade": false, "grade_id": "title", "locked": true, "schema_version": 3, "solution": false, "task": false}
# # Exercises 03: data parallel
#
# Six exercises, 19 points, about an hour and a quarter; lesson 03 has all that you need.
#
# Your functions run on real ranks, joined by gloo; call `torch.distributed` as the lesson does.
# Checks give points for right values, and some give more for the cost, which is judged once the values are right.
# The grader also runs hidden cases.
#
# To look inside, print in the cells where you try: checks hide what ranks print.
# `helpers.run.ddp`, `helpers.predict` and `helpers.compare` are not allowed in what you write.

# %% nbgrader={"grade": false, "grade_id": "setup", "locked": true, "schema_version": 3, "solution": false, "task": false}
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel

from helpers.run.launch import launch, warm_up
from helpers.run.measure.fingerprint import first_difference
from helpers.run.measure.meters import wire
from helpers.run.models import perceptron

warm_up("helpers.checks.ddp")


# %% [markdown] nbgrader={"grade": false, "grade_id": "buckets-statement", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## 1. Buckets (4 points)
#
# Write `reduce_gradients(gradients, bucket_bytes)`: when it returns, every tensor in the list `gradients` holds, **in place**, its mean over all ranks.
#
# Fill buckets from the **last** gradient to the first, as backward does.
# A bucket is closed once it holds `bucket_bytes` or more; with 0, every gradient, even one without elements, is a bucket and is sent.
# Target: **one all_reduce for each bucket**, and no other collective.
#
# All ranks have the same shapes and one dtype.
# A gradient may be empty, or have no dimension.
#
# You see 4 ranks (3 points); the grader runs other shapes, limits and numbers of ranks (1 point).

# %% nbgrader={"grade": false, "grade_id": "buckets", "locked": false, "schema_version": 3, "solution": true, "task": false}
def reduce_gradients(gradients, bucket_bytes):
    """Replace each tensor's values by their mean over all ranks; one all_reduce for each bucket."""
    ### BEGIN SOLUTION
    waiting, held = [], 0
    for place, gradient in enumerate(reversed(gradients)):
        waiting.append(gradient)
        held += gradient.numel() * gradient.element_size()
        if held >= bucket_bytes or place == len(gradients) - 1:
            flat = torch.cat([one.reshape(-1) for one in waiting])
            dist.all_reduce(flat)
            flat /= dist.get_world_size()
            for one, part in zip(waiting, flat.split([one.numel() for one in waiting]), strict=True):
                one.copy_(part.view_as(one))
            waiting, held = [], 0
    ### END SOLUTION


# %% id="buckets-try"
# Try it: gradient k of rank r is (k+1) 10**r, so on 4 ranks the mean of gradient 0 is 1111 / 4. With 24, two all_reduces.
def tried(rank, world_size):
    gradients = [torch.full(shape, (k + 1) * 10.0**rank) for k, shape in enumerate([(4, 3), (4,), (2, 4), (2,)])]
    reduce_gradients(gradients, 24)
    return [gradient.unique().tolist() for gradient in gradients]


run = launch(tried, 4)
run.results[0], [(span.kind, span.nbytes) for span in run.trace if span.rank == 0]

# %% nbgrader={"grade": true, "grade_id": "buckets-check", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
from helpers.checks.ddp import buckets

points = buckets.check_buckets(reduce_gradients)
### BEGIN HIDDEN TESTS
points += buckets.check_buckets_unseen(reduce_gradients)
### END HIDDEN TESTS
points


# %% [markdown] nbgrader={"grade": false, "grade_id": "buckets-hints", "locked": true, "schema_version": 3, "solution": false, "task": false}
# <details><summary>Hint 1</summary>Flatten the gradients of a bucket into one tensor: torch.cat of their reshape(-1). What must happen to it after the all_reduce?</details>
# <details><summary>Hint 2</summary>flat.split(sizes) gives parts that you can copy back with copy_ and view_as.</details>
# <details><summary>Hint 3</summary>The last bucket may never become full. It must go all the same. A gradient without elements is a gradient: with bucket_bytes 0 it has a bucket of its own.</details>

# %% [markdown] nbgrader={"grade": false, "grade_id": "accumulate-statement", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## 2. One step from many microbatches (4 points)
#
# Write `step(ddp, optimizer, microbatches)`: one optimizer step with the gradient of the **mean of `mse_loss` over all samples** of all microbatches of all ranks.
#
# `ddp` is PyTorch's `DistributedDataParallel`, `microbatches` a list of pairs `(inputs, targets)`.
# They fit into memory one at a time only, so you cannot put them together.
# All ranks have microbatches of the same sizes, but **one may be smaller than another**.
# `.grad` may still hold old gradients when it is called.
#
# Target: gradients are sent **once**.
#
# You see 2 ranks with microbatches of 4, 4, 4 and 2 samples, for two steps (3 points); the grader runs other sizes and 3 ranks (1 point).

# %% nbgrader={"grade": false, "grade_id": "accumulate", "locked": false, "schema_version": 3, "solution": true, "task": false}
def step(ddp, optimizer, microbatches):
    """One step of `optimizer`; each pair has inputs [B, ...] and targets [B, ...], with a B of its own."""
    ### BEGIN SOLUTION
    optimizer.zero_grad()
    num_samples = sum(len(inputs) for inputs, _ in microbatches)
    *first, last = microbatches
    with ddp.no_sync():
        for inputs, targets in first:
            (mse_loss(ddp(inputs), targets) * len(inputs) / num_samples).backward()
    inputs, targets = last
    (mse_loss(ddp(inputs), targets) * len(inputs) / num_samples).backward()
    optimizer.step()
    ### END SOLUTION


# %% id="accumulate-try"
# Try it: how many bytes does each of 2 ranks send for four microbatches? The gradients have 4 * 4,225 bytes.
def tried_steps(rank, world_size):
    ddp = DistributedDataParallel(nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1)))
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    with wire() as sent:
        step(ddp, optimizer, [(torch.randn(4, 64), torch.randn(4, 1)) for _ in range(4)])
    return sent.sent


launch(tried_steps, 2).results

# %% nbgrader={"grade": true, "grade_id": "accumulate-check", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
from helpers.checks.ddp import accumulation

points = accumulation.check_accumulation(step)
### BEGIN HIDDEN TESTS
points += accumulation.check_accumulation_unseen(step)
### END HIDDEN TESTS
points


# %% [markdown] nbgrader={"grade": false, "grade_id": "accumulate-hints", "locked": true, "schema_version": 3, "solution": false, "task": false}
# <details><summary>Hint 1</summary>Gradients of several backward calls add up. By what must each loss be multiplied, so that the sum is the mean? And what was in .grad before?</details>
# <details><summary>Hint 2</summary>The mean over a microbatch of b samples, out of n in all, counts b / n.</details>
# <details><summary>Hint 3</summary>with ddp.no_sync(): around forward and backward of all microbatches but the last.</details>

# %% [markdown] nbgrader={"grade": false, "grade_id": "rate-statement", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## 3. Scale the rate, or not (3 points)
#
# A job moves to another number of ranks.
# Write `new_rate(rate, before, after)`: its new learning rate for SGD, by the linear scaling rule.
# The rate for the **mean** of all ranks' gradients is proportional to the samples in a step of all ranks.
# A job that takes the **sum** needs a rate that is $N$ times smaller than one that takes the mean.
#
# `before` and `after` are dicts with `world_size`, `batch_size` (of each rank), and `reduction`, `"mean"` or `"sum"`: what becomes of the ranks' gradients.
# Each rank's loss is the mean over its own samples.
#
# You see five changes (1 point); the grader has eight more (2 points).

# %% nbgrader={"grade": false, "grade_id": "rate", "locked": false, "schema_version": 3, "solution": true, "task": false}
def new_rate(rate, before, after):
    """The learning rate for `after`, if `rate` was right for `before`."""
    ### BEGIN SOLUTION
    def batch(job):
        return job["world_size"] * job["batch_size"]

    def as_mean(job):
        return job["world_size"] if job["reduction"] == "sum" else 1

    return rate * batch(after) / batch(before) * as_mean(before) / as_mean(after)
    ### END SOLUTION


# %% id="rate-try"
# Try it: one process with 32 samples becomes 4 ranks with 8, who take the mean.
new_rate(0.1, {"world_size": 1, "batch_size": 32, "reduction": "mean"},
         {"world_size": 4, "batch_size": 8, "reduction": "mean"})

# %% nbgrader={"grade": true, "grade_id": "rate-check", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
from helpers.checks.ddp import rates

points = rates.check_rate(new_rate)
### BEGIN HIDDEN TESTS
points += rates.check_rate_unseen(new_rate)
### END HIDDEN TESTS
points

# %% [markdown] nbgrader={"grade": false, "grade_id": "rate-hints", "locked": true, "schema_version": 3, "solution": false, "task": false}
# <details><summary>Hint 1</summary>How many samples has a step before, and after? If that does not change, and both take the mean, nothing changes.</details>
# <details><summary>Hint 2</summary>A sum over N ranks is N times the mean, so its rate is that of the mean divided by N.</details>
# <details><summary>Hint 3</summary>Turn the old rate into that of a mean, scale it by the samples of a step, and turn it into what the new job needs.</details>

# %% [markdown] nbgrader={"grade": false, "grade_id": "predict-statement", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## 4. Predict, then measure (3 points)
#
# `perceptron(64, 8192, 64, 8192, 32)` has four linear layers with biases, in fp32.
#
# 1. **Predict** for 3 ranks: how many **bytes** does each rank send in a step of DDP?
# 2. **Predict**: how many **all_reduces** is that, if a bucket is closed at 4 MiB or more, and the first one at 1 MiB or more?
# 3. **Measure** on 3 ranks with PyTorch's DDP: `measured` is the list of bytes that each rank has sent in forward and backward of **one** step, without what DDP sends at construction.

# %% nbgrader={"grade": false, "grade_id": "predict", "locked": false, "schema_version": 3, "solution": true, "task": false}
predicted_bytes = None         # sent by each of 3 ranks in a step
predicted_all_reduces = None
measured = None                # bytes sent by each of 3 ranks: a list
### BEGIN SOLUTION
predicted_bytes = 2 * (3 - 1) / 3 * 4 * sum(p.numel() for p in perceptron(64, 8192, 64, 8192, 32).parameters())
predicted_all_reduces = 3      # layer 4; layers 3 and 2; layer 1


def one_step(rank, world_size):
    ddp = DistributedDataParallel(perceptron(64, 8192, 64, 8192, 32))
    with wire() as sent:
        ddp(torch.randn(4, 64)).sum().backward()
    return sent.sent


measured = launch(one_step, 3).results
### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "predict-check", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
from helpers.checks.ddp import step_numbers

step_numbers.check_ddp_step(predicted_bytes, predicted_all_reduces, measured)


# %% [markdown] nbgrader={"grade": false, "grade_id": "predict-hints", "locked": true, "schema_version": 3, "solution": false, "task": false}
# <details><summary>Hint 1</summary>Parameters: weights and biases of all four layers, 4 bytes each. An all_reduce sends 2 (N-1)/N of them.</details>
# <details><summary>Hint 2</summary>Sizes from the last: bias of layer 4, its weight of 1 MiB, bias and weight of layer 3 (2 MiB), of layer 2 (2 MiB), of layer 1 (2 MiB).</details>
# <details><summary>Hint 3</summary>Make the DDP first, then open the wire() block around forward and backward.</details>

# %% [markdown] nbgrader={"grade": false, "grade_id": "part-statement", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## 5. Where do they part? (3 points)
#
# `careless` trains on 4 ranks, and where a rank's own loss is high, it does not trust that step and spares the output layer.
# It is a generator: after each step it yields the model.
# Nothing fails, and the losses fall.
#
# Find, with `first_difference` (which all ranks must call), after which **step** (counted from 0) the ranks are no longer one model, which **rank** is the odd one, and what the first **tensor** is called that differs.

# %% nbgrader={"grade": false, "grade_id": "given", "locked": true, "schema_version": 3, "solution": false, "task": false}
def careless(rank, world_size):
    """Ten steps of data parallel; yields the model after each."""
    torch.manual_seed(5)
    model = perceptron(16, 32, 4)
    data = torch.randn(10, world_size, 8, 20, generator=torch.Generator().manual_seed(23))
    for batch in data[:, rank]:
        model.zero_grad()
        loss = mse_loss(model(batch[:, :16]), batch[:, 16:])
        loss.backward()
        for name, parameter in model.named_parameters():
            dist.all_reduce(parameter.grad)
            if name.startswith("0.") or loss < 1.6:     # an outlier should not spoil the output layer
                parameter.data -= 0.1 * parameter.grad / world_size
        yield model


# %% nbgrader={"grade": false, "grade_id": "part", "locked": false, "schema_version": 3, "solution": true, "task": false}
parting_step = None      # counted from 0
odd_rank = None
tensor = None            # its name, such as "0.bias"
### BEGIN SOLUTION
def watched(rank, world_size):
    for number, model in enumerate(careless(rank, world_size)):
        if found := first_difference(model):
            return number, found.groups[0][0], found.what.removeprefix("parameter ")


parting_step, odd_rank, tensor = launch(watched, 4).results[0]
### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "part-check", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
from helpers.checks.ddp import divergence

divergence.check_divergence(careless, parting_step, odd_rank, tensor)

# %% [markdown] nbgrader={"grade": false, "grade_id": "part-hints", "locked": true, "schema_version": 3, "solution": false, "task": false}
# <details><summary>Hint 1</summary>Write a program for launch that goes through careless(rank, world_size) and compares the ranks after each step.</details>
# <details><summary>Hint 2</summary>enumerate(careless(rank, world_size)) gives number and model; return at the first difference that is not None.</details>
# <details><summary>Hint 3</summary>print(difference) reads as a sentence; difference.what and difference.groups are its parts, and the smallest group comes first.</details>

# %% [markdown] nbgrader={"grade": false, "grade_id": "whose-statement", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## 6. Whose fault? (2 points)
#
# A job on 8 ranks accumulates over 4 microbatches with `no_sync`, and should average once before each step.
# Its ranks start equal; after some hundred steps their parameters differ, a little more every step, though each rank's loss falls.
#
# Name two mistakes that would do this, one in the accumulation and one elsewhere in the loop, and say for each what you would look at to tell it from the other.
# Half a point for each mistake that makes equal ranks part, and half for each observation.
# This answer is read and graded by a person.

# %% [markdown] nbgrader={"grade": true, "grade_id": "whose", "locked": false, "points": 2, "schema_version": 3, "solution": true, "task": false}
# One: the last microbatch of a window is inside `no_sync` too, or the window is cut short at the end of an epoch, so a rank steps with gradients of its own. Then the bytes on the wire of that step are 0 (or missing at the end of each epoch), and a fingerprint differs right after it.
# Two: ranks do not step alike: one skips a step for its own loss, clips by the norm of its own gradient before the reduction or has another learning rate; or it has loaded a checkpoint by itself. Then the bytes are as they should be, gradients after the reduction are equal on all ranks, and the fingerprint with the optimizer names the rank, or the rate.
# Different initial weights are no answer for DDP, which broadcasts them.
#
# *Half a point for each mistake that makes ranks part, half for what tells it. No points for mistakes that keep ranks equal, such as a missing division.*
