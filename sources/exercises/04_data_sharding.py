# %% [markdown] nbgrader={"grade": false, "grade_id": "title", "locked": true, "schema_version": 3, "solution": false, "task": false}
# # Exercises 04: data sharding
#
# Six exercises, 18 points, about an hour; lesson 04 has all that you need.
#
# Checks give points for right values, and some give more for the cost, or for shuffling.
# The grader also runs hidden cases.
# Some of your functions run on real ranks, joined by gloo.
#
# To look inside, print in the cells where you try: checks hide what ranks print.
# `helpers.run.data_sharding`, `helpers.predict` and `helpers.compare` are not allowed in what you write, nor is `DistributedSampler` in the first exercise.

# %% nbgrader={"grade": false, "grade_id": "setup", "locked": true, "schema_version": 3, "solution": false, "task": false}
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, Subset, random_split

from helpers.run.data_sharding import check_sampling
from helpers.run.launch import launch, warm_up

warm_up("helpers.checks.data_sharding")


# %% [markdown] nbgrader={"grade": false, "grade_id": "sampler-statement", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## 1. A sampler (4 points)
#
# Write `indices(num_samples, rank, world_size, epoch, seed)`: the list of samples that this rank draws in this epoch.
#
# - Over all ranks, every sample is there. If $N$ does not divide their number, as few as possible are repeated, so that **all ranks have equally many**.
# - They are shuffled, in another order in each epoch and for each seed; `seed + epoch` will do.
# - Asked again, it gives the same. It must neither depend on the global random generators (torch's, numpy's, Python's) nor move them.
#
# You see 24, 1003 and 10 samples (3 points); the grader has fewer samples than ranks, and others (1 point).

# %% nbgrader={"grade": false, "grade_id": "sampler", "locked": false, "schema_version": 3, "solution": true, "task": false}
def indices(num_samples, rank, world_size, epoch, seed):
    """Samples of this rank: ceil(num_samples / world_size) whole numbers below num_samples."""
    ### BEGIN SOLUTION
    generator = torch.Generator().manual_seed(1000 * seed + epoch)
    order = torch.randperm(num_samples, generator=generator).tolist()
    each = -(-num_samples // world_size)
    order = (order * world_size)[:each * world_size]
    return order[rank::world_size]
    ### END SOLUTION


# %% id="sampler-try"
# Try it: ten samples on 3 ranks, in two epochs.
[[indices(10, rank, 3, epoch, 0) for rank in range(3)] for epoch in (0, 1)]

# %% nbgrader={"grade": true, "grade_id": "sampler-check", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
from helpers.checks.data_sharding import sampler

points = sampler.check_sampler(indices)
### BEGIN HIDDEN TESTS
points += sampler.check_sampler_unseen(indices)
### END HIDDEN TESTS
points


# %% [markdown] nbgrader={"grade": false, "grade_id": "sampler-hints", "locked": true, "schema_version": 3, "solution": false, "task": false}
# <details><summary>Hint 1</summary>All ranks need the same permutation. What may its seed depend on, and what not?</details>
# <details><summary>Hint 2</summary>torch.randperm(n, generator=torch.Generator().manual_seed(...)) leaves the global generator alone.</details>
# <details><summary>Hint 3</summary>Make the list long enough for N equal parts by beginning it anew, then take every N-th from rank on: order[rank::world_size].</details>

# %% [markdown] nbgrader={"grade": false, "grade_id": "proof-statement", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## 2. The proof (2 points)
#
# Write `not_once(parts, num_samples)`, the proof that no loss curve gives.
# `parts` is a list with the samples that each rank draws in an epoch.
# Return a dict with how often each sample is drawn, for those only that are **not drawn exactly once**: 0 if it is missing.
# A number that is no sample, below 0 or too large, is in it, too, with the number of its draws.
#
# `{}` then means: a partition.
#
# You see five divisions (1 point); the grader has six more (1 point).

# %% nbgrader={"grade": false, "grade_id": "proof", "locked": false, "schema_version": 3, "solution": true, "task": false}
def not_once(parts, num_samples):
    """{sample: times} of all samples from 0 to num_samples - 1 with times != 1, and of all that are no samples."""
    ### BEGIN SOLUTION
    times = dict.fromkeys(range(num_samples), 0)
    for own in parts:
        for index in own:
            times[index] = times.get(index, 0) + 1
    return {index: count for index, count in times.items() if count != 1 or not 0 <= index < num_samples}
    ### END SOLUTION


# %% id="proof-try"
# Try it: sample 1 is drawn twice, and 3 never.
not_once([[0, 1], [1, 2]], 4)

# %% nbgrader={"grade": true, "grade_id": "proof-check", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}
from helpers.checks.data_sharding import partition

points = partition.check_proof(not_once)
### BEGIN HIDDEN TESTS
points += partition.check_proof_unseen(not_once)
### END HIDDEN TESTS
points

# %% [markdown] nbgrader={"grade": false, "grade_id": "proof-hints", "locked": true, "schema_version": 3, "solution": false, "task": false}
# <details><summary>Hint 1</summary>Count first, for all samples, starting from 0, then leave out the samples that were drawn once. Other numbers stay.</details>
# <details><summary>Hint 2</summary>dict.fromkeys(range(num_samples), 0) is a good start.</details>
# <details><summary>Hint 3</summary>A number that is no sample has no entry yet: times.get(index, 0) + 1.</details>

# %% [markdown] nbgrader={"grade": false, "grade_id": "script-statement", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## 3. Which script is wrong? (3 points)
#
# Five scripts make their loaders for 4 ranks as follows; each returns a loader, and what to call at the start of each epoch, or None.
# (Without `num_replicas` and `rank`, a `DistributedSampler` asks `torch.distributed`.)
# They train without an error. One of them has a FAULT; the others have notes at most.
#
# 1. `wrong`: which one, `"a"` to `"e"`?
# 2. `kind`: which kind of fault, as `check_sampling` names it?
# 3. `never_drawn`: in the wrong one, how many of all 1003 samples does no rank draw in epoch 0?
#
# Keep `scripts` as it is.

# %% nbgrader={"grade": false, "grade_id": "given", "locked": true, "schema_version": 3, "solution": false, "task": false}
samples = range(1003)


def script_a(rank, world_size):
    torch.manual_seed(rank)                                 # for dropout
    sampler = DistributedSampler(samples, seed=3)
    return DataLoader(samples, 8, sampler=sampler), sampler.set_epoch


def script_b(rank, world_size):
    train, _ = random_split(samples, [900, 103], torch.Generator().manual_seed(0))
    sampler = DistributedSampler(train, drop_last=True)
    return DataLoader(train, 8, sampler=sampler, drop_last=True), sampler.set_epoch


def script_c(rank, world_size):
    torch.manual_seed(rank)
    mine = Subset(samples, range(rank, 1003, world_size))   # 251 samples, or 250
    return DataLoader(mine, 10, shuffle=True, drop_last=True), None


def script_d(rank, world_size):
    torch.manual_seed(rank)                                 # for augmentation
    train, _ = random_split(samples, [900, 103])
    sampler = DistributedSampler(train)
    return DataLoader(train, 8, sampler=sampler), sampler.set_epoch


def script_e(rank, world_size):
    sampler = DistributedSampler(samples, shuffle=False)
    return DataLoader(samples, 8, sampler=sampler), None


scripts = {"a": script_a, "b": script_b, "c": script_c, "d": script_d, "e": script_e}

# %% nbgrader={"grade": false, "grade_id": "script", "locked": false, "schema_version": 3, "solution": true, "task": false}
wrong = None           # "a" to "e"
kind = None            # as the report has it
never_drawn = None     # samples
### BEGIN SOLUTION
def reported(rank, world_size, make):
    loader, before_epoch = make(rank, world_size)
    return check_sampling(loader, before_epoch=before_epoch)


reports = {name: launch(reported, 4, make).results[0] for name, make in scripts.items()}
wrong = next(name for name, report in reports.items() if report.faults)
kind = reports[wrong].faults[0].kind
never_drawn = reports[wrong].num_missing
### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "script-check", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
from helpers.checks.data_sharding import partition

partition.check_script(scripts, wrong, kind, never_drawn)


# %% [markdown] nbgrader={"grade": false, "grade_id": "script-hints", "locked": true, "schema_version": 3, "solution": false, "task": false}
# <details><summary>Hint 1</summary>Write a program for launch: make the loader and return check_sampling(loader, before_epoch=...). Run it for each script and print the reports.</details>
# <details><summary>Hint 2</summary>A note is harmless, a FAULT is not.</details>
# <details><summary>Hint 3</summary>The kind stands after FAULT, before the colon; report.faults[0].kind has it, and report.num_missing the number.</details>

# %% [markdown] nbgrader={"grade": false, "grade_id": "ragged-statement", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## 4. A ragged last batch (4 points)
#
# Under PyTorch's DDP, every rank calls `backward(losses)` with the losses of its own samples, a tensor `[n]` with an `n` that may **differ between ranks**, and may be 0.
# Write it: it calls `.backward()` on something, once, such that DDP leaves the gradient of the **mean over all samples of all ranks**.
#
# Target: beyond DDP's own gradients, each rank sends one number only.
#
# You see 2 ranks with 200 samples each, and 4 ranks with 400, 400, 150 and 50 (3 points); the grader has a rank without samples, and other numbers of ranks (1 point).

# %% nbgrader={"grade": false, "grade_id": "ragged", "locked": false, "schema_version": 3, "solution": true, "task": false}
def backward(losses):
    """Call backward once; `losses` [n] are those of this rank's samples."""
    ### BEGIN SOLUTION
    count = torch.tensor(float(len(losses)))
    dist.all_reduce(count)
    (losses.sum() * dist.get_world_size() / count).backward()
    ### END SOLUTION


# %% id="ragged-try"
# Try it: the loss is weight * x, so the gradient should be the mean of all x: (1 + 1 + 1 + 5) / 4 = 2.
def tried(rank, world_size):
    ddp = DistributedDataParallel(nn.Linear(1, 1, bias=False))
    x = torch.ones(3, 1) if rank == 0 else torch.full((1, 1), 5.0)
    backward(ddp(x).squeeze(1))
    return ddp.module.weight.grad.item()


launch(tried, 2).results

# %% nbgrader={"grade": true, "grade_id": "ragged-check", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
from helpers.checks.data_sharding import means

points = means.check_backward(backward)
### BEGIN HIDDEN TESTS
points += means.check_backward_unseen(backward)
### END HIDDEN TESTS
points


# %% [markdown] nbgrader={"grade": false, "grade_id": "ragged-hints", "locked": true, "schema_version": 3, "solution": false, "task": false}
# <details><summary>Hint 1</summary>DDP sums the ranks' gradients and divides by N. What must the sum be? (An all_reduce of the loss itself has no gradient.)</details>
# <details><summary>Hint 2</summary>Sum of all losses / number of all samples = (1/N) sum over ranks of (N times own sum / number of all).</details>
# <details><summary>Hint 3</summary>One all_reduce of the number of samples. losses.sum() of an empty tensor is 0, and backward works.</details>

# %% [markdown] nbgrader={"grade": false, "grade_id": "accuracy-statement", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## 5. An accuracy that does not depend on N (3 points)
#
# After an evaluation on several ranks, each has the `indices` [n] of the samples that it has looked at, and `correct` [n], whether it was right.
# Write `accuracy(indices, correct, num_samples)`: the share of right ones among all `num_samples`, the same number on every rank.
#
# Every sample was looked at by some rank, and by several if a sampler has padded; they agree then.
# `n` may differ between ranks, and may be 0.
#
# You see padded and unpadded divisions (2 points); the grader has others (1 point).

# %% nbgrader={"grade": false, "grade_id": "accuracy", "locked": false, "schema_version": 3, "solution": true, "task": false}
def accuracy(indices, correct, num_samples):
    """Share of right samples.  indices [n], int64; correct [n], bool."""
    ### BEGIN SOLUTION
    right = torch.zeros(num_samples, dtype=torch.int32)
    right[indices] = correct.int()
    dist.all_reduce(right, op=dist.ReduceOp.MAX)
    return right.sum().item() / num_samples
    ### END SOLUTION


# %% id="accuracy-try"
# Try it: 9 samples on 4 ranks, padded to 12; all but samples 0, 1 and 2 are right, so 6 of 9.
def evaluated(rank, world_size):
    mine = torch.tensor(list(DistributedSampler(range(9), world_size, rank, shuffle=False)))
    return accuracy(mine, mine > 2, 9)


launch(evaluated, 4).results

# %% nbgrader={"grade": true, "grade_id": "accuracy-check", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
from helpers.checks.data_sharding import evaluations

points = evaluations.check_accuracy(accuracy)
### BEGIN HIDDEN TESTS
points += evaluations.check_accuracy_unseen(accuracy)
### END HIDDEN TESTS
points

# %% [markdown] nbgrader={"grade": false, "grade_id": "accuracy-hints", "locked": true, "schema_version": 3, "solution": false, "task": false}
# <details><summary>Hint 1</summary>Adding up counts counts a padded sample twice. What could each rank write down, so that twice does no harm?</details>
# <details><summary>Hint 2</summary>A tensor with a place for each sample, filled with what this rank knows, and 0 elsewhere.</details>
# <details><summary>Hint 3</summary>all_reduce with op=dist.ReduceOp.MAX keeps a 1 wherever some rank has one.</details>

# %% [markdown] nbgrader={"grade": false, "grade_id": "same-statement", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## 6. The same curve (2 points)
#
# Two colleagues train on 8 ranks with DDP and one seed everywhere. One uses a `DistributedSampler`, the other `shuffle=True` without one.
# After 500 steps, within the first epoch, the loss curves of their rank 0 cannot be told apart, and the fingerprints of all ranks are equal.
#
# Explain why the curves are alike, why the fingerprints are, which share of the work was wasted, and what would have shown it before the first step: half a point each.
# This answer is read and graded by a person.

# %% [markdown] nbgrader={"grade": true, "grade_id": "same", "locked": false, "points": 2, "schema_version": 3, "solution": true, "task": false}
# The loss of a step is that of one rank's samples, drawn from the same distribution either way; the mean of 8 equal gradients is a gradient as good as one rank's, only noisier than one of 8 times as many samples, and noise hardly shows in a curve of few steps. Fingerprints ask whether ranks have the same model, and they do: equal gradients keep equal models equal.
# It has cost 7 of 8 ranks: each global batch has only one rank's different samples, so the job has seen an eighth of the data for the same money, with the noise of the small batch at the rate of the large one.
# Comparing which samples each rank draws shows it at once (check_sampling: same batches, 12.5 % unique).
#
# *Half a point each: curves, fingerprints, the share, the check.*
