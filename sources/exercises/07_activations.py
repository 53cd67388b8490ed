# %% [markdown] nbgrader={"grade": false, "grade_id": "title", "locked": true, "schema_version": 3, "solution": false, "task": false}
# # Exercises 07: activations
#
# Five exercises, 16 points, about 95 minutes; lesson 07 has all that you need.
#
# Each has a cell for your answer and a locked cell that checks it: replace what says `YOUR CODE HERE` or `None`, delete the line with `NotImplementedError`, run your cell, then the check.
# Checks say which property is right and what is wrong with the others, as often as you like.
# The grader runs some more cases than you see.
#
# `helpers.predict` and `helpers.compare` know most answers, so they are not allowed here; the rest of `helpers` is.

# %% nbgrader={"grade": false, "grade_id": "setup", "locked": true, "schema_version": 3, "solution": false, "task": false}
import torch
from torch import nn
from torch.nn.functional import silu

from helpers.run.launch import launch, warm_up
from helpers.run.measure.residency import residency
from helpers.run.measure.saved_tensors import counted_flops, saved
from helpers.run.models import GPT, perceptron

warm_up("helpers.checks.activations")


# %% [markdown] nbgrader={"grade": false, "grade_id": "kept-statement", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## 1. Another block (4 points)
#
# The block below differs from the lesson's: its MLP is *gated*, as in Llama, with `inner` units; its linear layers have no biases; and of its dropouts one is left, at the end.
#
# Write `kept_bytes(seq, batch, hidden, heads, inner, element_bytes)`: the bytes that its forward keeps for backward on this CPU, **to the byte**, its norms' statistics included.
# All is in fp32 or all in bf16, so each entry of anything that is kept has `element_bytes`.
#
# Your function calculates: the grader asks for sizes that no machine can run.
#
# You see four shapes (3 points); the grader runs others (1 point).

# %% nbgrader={"grade": false, "grade_id": "given-block", "locked": true, "schema_version": 3, "solution": false, "task": false}
class GatedBlock(nn.Module):
    """A transformer block: x [batch, seq, hidden] -> [batch, seq, hidden]."""

    def __init__(self, hidden, heads, inner):
        super().__init__()
        self.heads, self.norm, self.mlp_norm = heads, nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.q, self.k, self.v, self.out = (nn.Linear(hidden, hidden, bias=False) for _ in range(4))
        self.gate, self.up = (nn.Linear(hidden, inner, bias=False) for _ in range(2))
        self.down, self.dropout = nn.Linear(inner, hidden, bias=False), nn.Dropout(0.1)

    def attention(self, x):
        q, k, v = (matrix(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for matrix in (self.q, self.k, self.v))
        probabilities = (q @ k.transpose(-2, -1) / q.shape[-1]**0.5).softmax(-1)
        return self.out((probabilities @ v).transpose(1, 2).flatten(-2))

    def forward(self, x):
        x = x + self.attention(self.norm(x))
        normed = self.mlp_norm(x)
        return x + self.dropout(self.down(silu(self.gate(normed)) * self.up(normed)))


# %% nbgrader={"grade": false, "grade_id": "kept", "locked": false, "schema_version": 3, "solution": true, "task": false}
def kept_bytes(seq, batch, hidden, heads, inner, element_bytes):
    """Bytes that GatedBlock(hidden, heads, inner) keeps of `batch` sequences of `seq` tokens."""
    ### BEGIN SOLUTION
    tokens = seq * batch
    norms = 2 * (hidden + 2)                    # input, mean, deviation
    attention = hidden + 3 * hidden + hidden    # common input; q, k, v; out's input
    gated = hidden + 4 * inner                  # common input; gate's result, silu's, up's, their product
    mask = hidden
    return element_bytes * (tokens * (norms + attention + gated + mask) + heads * seq * tokens)
    ### END SOLUTION


# %% id="kept-try"
# Try it: what a real block keeps, tensor by tensor, and your number.
block = GatedBlock(hidden=32, heads=4, inner=96)
with saved(block) as kept:
    block(torch.ones(3, 16, 32, requires_grad=True))
for tensor in kept.tensors:
    print(tensor.module, tensor.shape, tensor.num_bytes)
kept.num_bytes, kept_bytes(seq=16, batch=3, hidden=32, heads=4, inner=96, element_bytes=4)

# %% nbgrader={"grade": true, "grade_id": "kept-check", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
from helpers.checks.activations import saved_bytes

points = saved_bytes.check_saved_bytes(kept_bytes, GatedBlock)
### BEGIN HIDDEN TESTS
points += saved_bytes.check_saved_bytes_unseen(kept_bytes, GatedBlock)
### END HIDDEN TESTS
points


# %% [markdown] nbgrader={"grade": false, "grade_id": "kept-hints", "locked": true, "schema_version": 3, "solution": false, "task": false}
# <details><summary>Hint 1</summary>Go through forward line by line. For each operation: what does its backward need, its inputs, its output, or nothing? Is that kept already, for somebody else?</details>
# <details><summary>Hint 2</summary>A product a * b needs both factors. silu needs what it got, softmax what it gave. A sum needs nothing.</details>
# <details><summary>Hint 3</summary>The try-it cell lists what a real block keeps. Whose is each row, and which letters is its shape made of?</details>

# %% [markdown] nbgrader={"grade": false, "grade_id": "plan-statement", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## 2. The least that fits (4 points)
#
# Blocks need not all be recomputed alike.
#
# Write `plan(layers, seq, batch, hidden, heads, budget_bytes)`.
# It returns how many of the `layers` equal blocks recompute nothing, selectively and in full, as a tuple `(none, selective, full)`, such that all blocks together keep **at most** `budget_bytes` at the end of forward, and **as few FLOPs as possible** run again.
# If nothing fits, it returns `None`.
#
# The blocks are the lesson's (MLP of `4 * hidden`, stored attention), without dropout, in bf16; leave the norms' statistics out.
# What comes back while a block runs again in backward does not count here.
# Two matrix products of attention's core, and four linear layers (qkv, projection, two of the MLP) count as FLOPs; all run forward again in full recomputation.
#
# You see seven models (3 points); the grader runs others, up to 40 blocks (1 point).

# %% nbgrader={"grade": false, "grade_id": "plan", "locked": false, "schema_version": 3, "solution": true, "task": false}
def plan(layers, seq, batch, hidden, heads, budget_bytes):
    """(none, selective, full): numbers of blocks; None if nothing fits."""
    ### BEGIN SOLUTION
    sbh, probabilities = seq * batch * hidden, heads * seq * seq * batch
    kept_by_way = (32 * sbh + 2 * probabilities, 32 * sbh, 2 * sbh)
    core_flops = 4 * batch * seq**2 * hidden
    flops_by_way = (0, core_flops, core_flops + 24 * sbh * hidden)

    def total(split, each):
        return sum(blocks * cost for blocks, cost in zip(split, each, strict=True))

    splits = [(layers - core_only - whole, core_only, whole)
              for core_only in range(layers + 1) for whole in range(layers + 1 - core_only)]
    fitting = [split for split in splits if total(split, kept_by_way) <= budget_bytes]
    return min(fitting, key=lambda split: total(split, flops_by_way), default=None)
    ### END SOLUTION



# %% id="plan-try"
# Try it: four blocks that keep 8 MiB each, half of it probabilities.
[plan(layers=4, seq=128, batch=16, hidden=64, heads=8, budget_bytes=mib * 2**20) for mib in (32, 31, 16, 10, 1)]

# %% nbgrader={"grade": true, "grade_id": "plan-check", "locked": true, "points": 4, "schema_version": 3, "solution": false, "task": false}
from helpers.checks.activations import recompute

points = recompute.check_plan(plan)
### BEGIN HIDDEN TESTS
points += recompute.check_plan_unseen(plan)
### END HIDDEN TESTS
points



# %% [markdown] nbgrader={"grade": false, "grade_id": "plan-hints", "locked": true, "schema_version": 3, "solution": false, "task": false}
# <details><summary>Hint 1</summary>Write down, for one block and each of the three ways, the bytes that it keeps and the FLOPs that run again. The lesson's table has both, with dropout.</details>
# <details><summary>Hint 2</summary>Without dropout in bf16, 34 is 32 and 5 is 2. A linear layer from m to n units costs 2 m n FLOPs a token; attention's two products cost 4 seq hidden a token.</details>
# <details><summary>Hint 3</summary>Rules such as "first all selective, then some full" waste FLOPs. There are few splits of the blocks into three numbers: try them all, and take the cheapest that fits.</details>

# %% [markdown] nbgrader={"grade": false, "grade_id": "predict-statement", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## 3. Predict, then measure (3 points)
#
# Of the six blocks of `mixed_gpt()`, two recompute in full and four selectively; fp32, no dropout.
# It gets 4 sequences of 64 tokens (and the next one, as a target).
#
# 1. **Predict** the bytes that the six blocks keep together. (The norms' statistics are too small to matter here.)
# 2. **Predict** the FLOPs that a step runs a second time.
# 3. **Measure** both on this machine: `measured` is a pair, bytes of the modules whose name begins with `blocks.`, and FLOPs of a step beyond those of the same model without recomputation.

# %% nbgrader={"grade": false, "grade_id": "given-gpt", "locked": true, "schema_version": 3, "solution": false, "task": false}
def mixed_gpt():
    """Six blocks: two recompute in full, four selectively."""
    gpt = GPT(layers=6, hidden=96, heads=6, vocab=512, max_seq=64, recompute="selective")
    for block in gpt.blocks[:2]:
        block.recompute = "full"
    return gpt


numbers = torch.randint(512, (4, 65))

# %% nbgrader={"grade": false, "grade_id": "predict", "locked": false, "schema_version": 3, "solution": true, "task": false}
predicted_bytes = None         # kept by the six blocks
predicted_flops = None         # of a step, run a second time
measured = None                # (bytes, FLOPs)
### BEGIN SOLUTION
sbh_here, core_here = 64 * 4 * 96, 4 * 4 * 64**2 * 96
predicted_bytes = 4 * sbh_here * (2 * 1 + 4 * 16)
predicted_flops = 6 * core_here + 2 * 24 * sbh_here * 96


def kept_and_flops(gpt):
    with counted_flops() as done, saved(gpt) as kept_here:
        gpt.loss(numbers).backward()
    return sum(size for name, size in kept_here.by_module.items() if name.startswith("blocks.")), done.num_flops


(measured_bytes, with_it), (_, without_it) = map(kept_and_flops, (mixed_gpt(), GPT(6, 96, 6, 512, 64)))
measured = measured_bytes, with_it - without_it
### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "predict-check", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
from helpers.checks.activations import gpt_numbers

gpt_numbers.check_gpt(predicted_bytes, predicted_flops, measured)


# %% [markdown] nbgrader={"grade": false, "grade_id": "predict-hints", "locked": true, "schema_version": 3, "solution": false, "task": false}
# <details><summary>Hint 1</summary>In fp32 an element has 4 bytes. How many elements does a block keep that recomputes in full, and one whose attention's core runs again?</details>
# <details><summary>Hint 2</summary>Selective: 4 b s s h FLOPs a block. Full: those, and 24 b s h h for the four linear layers. Once each, not three times.</details>
# <details><summary>Hint 3</summary>with saved(gpt) as kept, counted_flops() as done: around gpt.loss(numbers).backward(); kept.by_module has bytes by the module's name. Another GPT, with recompute "none", gives the FLOPs to subtract.</details>

# %% [markdown] nbgrader={"grade": false, "grade_id": "leak-statement", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## 4. It grows and grows (3 points)
#
# `leaky` trains and, after each step, yields the losses so far, those of training and those on held-out samples.
# Nothing is wrong with them, but each step leaves memory behind.
#
# 1. **Which line** of A, B and C leaves it behind, and **how many bytes** does each step? Calculate; then look.
# 2. Write `mended(num_steps)`, a generator as well, with the **same losses** in both lists (as numbers or tensors). Target: each step leaves at most **1,000 bytes**.
#
# Python cannot see what a graph keeps, so `alive_after` counts allocations and releases.

# %% nbgrader={"grade": false, "grade_id": "given-leak", "locked": true, "schema_version": 3, "solution": false, "task": false}
def error(output, targets):
    return (output - targets).square().mean()


def leaky(num_steps):
    """Trains; after each step yields two lists: losses of training, and of validation."""
    torch.manual_seed(3)
    model = perceptron(32, 256, 128, 8)
    sgd = torch.optim.SGD(model.parameters(), lr=0.05)
    inputs, targets = torch.randn(num_steps, 64, 32), torch.randn(num_steps, 64, 8)
    held_out, held_out_targets = torch.randn(512, 32), torch.randn(512, 8)
    curve, norms, checks = [], [], []
    for step in range(num_steps):
        sgd.zero_grad()
        loss = error(model(inputs[step]), targets[step])
        loss.backward()
        sgd.step()
        curve.append(loss)                                              # line A
        norms.append(model[0].weight.detach().norm())                   # line B
        checks.append(error(model(held_out), held_out_targets))         # line C
        yield curve, checks


def alive_after(rank, world_size, trains, num_steps):
    """Bytes that a training, of 8 steps in all, has allocated and not released after some of them."""
    steps = trains(8)
    with residency({}) as alive:
        for _ in range(num_steps):
            losses = next(steps)
    return sum(sizes[-1] for sizes in alive.bytes.values()) if losses else 0


# %% nbgrader={"grade": false, "grade_id": "leak", "locked": false, "schema_version": 3, "solution": true, "task": false}
line = None             # "A", "B" or "C"
bytes_a_step = None     # that each step leaves behind


def mended(num_steps):
    """As leaky, but each step forgets what it no longer needs."""
    ### BEGIN SOLUTION
    torch.manual_seed(3)
    model = perceptron(32, 256, 128, 8)
    sgd = torch.optim.SGD(model.parameters(), lr=0.05)
    inputs, targets = torch.randn(num_steps, 64, 32), torch.randn(num_steps, 64, 8)
    held_out, held_out_targets = torch.randn(512, 32), torch.randn(512, 8)
    curve, checks = [], []
    for step in range(num_steps):
        sgd.zero_grad()
        loss = error(model(inputs[step]), targets[step])
        loss.backward()
        sgd.step()
        curve.append(loss.item())
        with torch.no_grad():
            checks.append(error(model(held_out), held_out_targets).item())
        yield curve, checks
    ### END SOLUTION


### BEGIN SOLUTION
line = "C"
bytes_a_step = 512 * (256 + 128 + 8) * 4        # what both ReLUs gave, and the difference that is squared
### END SOLUTION

# %% id="leak-try"
# Try it: MB that are alive after 2, 4 and 6 steps. 12 bytes a step are the numbers in the three lists; leave them out.
{trains.__name__: [launch(alive_after, 1, trains, n).results[0] / 1e6 for n in (2, 4, 6)] for trains in (leaky, mended)}

# %% nbgrader={"grade": true, "grade_id": "leak-check", "locked": true, "points": 3, "schema_version": 3, "solution": false, "task": false}
from helpers.checks.activations import leaks

leaks.check_leak(leaky, line, bytes_a_step, mended)

# %% [markdown] nbgrader={"grade": false, "grade_id": "leak-hints", "locked": true, "schema_version": 3, "solution": false, "task": false}
# <details><summary>Hint 1</summary>A tensor in a list keeps its graph, and a graph keeps what forward kept, until backward has been through it. For which of the three lists does backward never come?</details>
# <details><summary>Hint 2</summary>A linear layer keeps its input, a ReLU what it gave, and that is the next layer's input: one tensor. A square keeps what it got. What is there anyway does not count.</details>
# <details><summary>Hint 3</summary>Copy leaky. Validation belongs into torch.no_grad(), and .item() makes a number of a tensor.</details>

# %% [markdown] nbgrader={"grade": false, "grade_id": "choose-statement", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## 5. What to buy (2 points)
#
# A model of 7.5 billion parameters (36 blocks, width 4,096, 32 heads) trains in bf16 with Adam under ZeRO-3 on 64 cards of 80 GB, with flash attention, one sequence of 8,192 tokens a card, a vocabulary of 51,200: 45 GB are in use.
# Now sequences of 32,768 tokens are wanted, still one a card, and it runs out of memory.
#
# Three proposals: 256 cards instead of 64; selective recomputation; full recomputation.
# Say for each what it saves, in GB (1 point); then what you would do, what it costs, and what you would do if 131,072 tokens were wanted next (1 point).
# This answer is read and graded by a person.

# %% [markdown] nbgrader={"grade": true, "grade_id": "choose", "locked": false, "points": 2, "schema_version": 3, "solution": true, "task": false}
# State is 16 P / 64 = 1.9 GB a card; activations are 34 s b h a block: 41 GB with 8,192 tokens, 164 GB with 32,768 (or 39 and 155 GB without dropout, with 32 for 34).
# 256 cards bring the state to 0.5 GB and save 1.4 GB, of more than 160. Selective recomputation saves next to nothing: flash attention keeps no probabilities, which is what selective recomputation would drop. Full recomputation keeps 2 for 34: 9.7 GB, so it saves some 155 GB; one block of 4.6 GB comes back in backward, and the logits are another 7 GB or so: it fits.
# I would recompute in full, for a third more FLOPs (with PyTorch's default early_stop about a quarter), or only as many blocks as must: 164 + 1.9 + 6.7 + 4.6 = 177 GB less 4.3 for each, so some 23 of the 36, for two thirds of that. With 131,072 tokens the inputs alone are 39 GB, a block that comes back 18 GB and the logits 27 GB: more than the card. Then the sequence itself must be divided, by tensor and sequence (or context) parallelism: 8 ranks keep an eighth.
#
# *Half a point for 256 cards save about 1.4 GB, a quarter each for selective (nothing) and full (about 155 GB). One point for full recomputation (or of some blocks) with its price, a third or a quarter more FLOPs, and division of the sequence over ranks for the last step. More data-parallel ranks are no cure.*
