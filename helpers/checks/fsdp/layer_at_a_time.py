"""Checks of exercise set 06: a step whose layers are gathered one at a time, against autograd in one process.

All numbers are small whole ones, so that sums are exact in any order.
"""
from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from helpers.checks.judge import forbidden
from helpers.checks.judge.live_peak import LivePeak
from helpers.checks.judge.real_ranks import judged_on_ranks, too_little_sent
from helpers.checks.judge.verdict import Verdict, first_wrong, score, shown, unseen
from helpers.predict.collectives import step_elements_sent
from helpers.run.collectives import Chunks
from helpers.run.launch import Run
from helpers.run.measure.meters import wire

SOME_BYTES = 40_000             # sent: so many that the headers of messages hardly count
FULL_LAYERS = 3                 # that may be alive at once, of parameters and gradients together


@dataclass(frozen=True)
class LayerCase:
    """y = x W_1^T W_2^T ...: the widths between the layers, the samples of each rank, and the ranks."""

    widths: tuple[int, ...]
    num_samples: int = 2
    world_size: int = 4

    @property
    def shapes(self) -> list[tuple[int, int]]:
        """Shapes [out, in] of the weights, in the order of forward."""
        return [(out, into) for into, out in zip(self.widths, self.widths[1:], strict=False)]

    @property
    def num_params(self) -> int:
        """Elements of all weights together."""
        return sum(map(math.prod, self.shapes))

    @property
    def largest(self) -> int:
        """Elements of the largest weight."""
        return max(map(math.prod, self.shapes))

    @property
    def others(self) -> float:
        """Elements that may be alive besides full layers: shards of gradients, parts of messages, activations."""
        n = self.world_size
        return self.num_params / n + 2 * self.largest / n + 4 * self.num_samples * sum(self.widths) + 2000

    @property
    def most_bytes(self) -> float:
        """Bytes that may be alive at once: full layers, and what there is besides."""
        return 4 * (FULL_LAYERS * self.largest + self.others)

    def weights(self) -> list[Tensor]:
        """The weights, small whole numbers, the same on every rank."""
        generator = torch.Generator().manual_seed(3)
        return [torch.randint(-1, 2, shape, generator=generator).float() for shape in self.shapes]

    def sample(self, rank: int) -> tuple[Tensor, Tensor]:
        """x [B, widths[0]] and t [B, widths[-1]]: the loss has the gradient y + t with respect to y."""
        generator = torch.Generator().manual_seed(50 + rank)
        return tuple(torch.randint(-2, 3, (self.num_samples, width), generator=generator).float()
                     for width in (self.widths[0], self.widths[-1]))


PLAIN, LARGE = LayerCase((3, 5, 2, 4)), LayerCase((128,) * 9)
OTHERS = (LayerCase((2, 3), 1, 3), LayerCase((4, 1, 4, 1), 3, 3), LayerCase((5, 3), 2, 1),
          LayerCase((100, 90, 110, 100, 90, 110, 100), 2, 3))


def check_layer_at_a_time(function: object) -> float:
    """4 points: gradients as autograd has them, little alive at once, bytes of stage 3."""
    runs, wrong = judged_on_ranks(_step, function, (PLAIN, LARGE), forbidden.ZERO, _unlike)
    later = wrong and "judged once the gradients are right"
    alive, sent = (first_wrong(look(run, model) for model, run in runs.items()) for look in (_alive, _sent))
    return score([Verdict(1, "shards of the mean gradient", wrong), Verdict(2, "a layer at a time", later or alive),
                  Verdict(1, "gathered twice, reduced once", later or sent)], "Lent, used, given back.")


@unseen
def check_layer_at_a_time_unseen(function: object) -> float:
    """1 point: other widths, samples and numbers of ranks."""
    _, wrong = judged_on_ranks(_step, function, OTHERS, forbidden.ZERO,
                               lambda run, model: _unlike(run, model) or _alive(run, model) or _sent(run, model))
    return score([Verdict(1, "other widths and numbers of ranks", wrong)], "It holds anywhere.")


@dataclass
class LayerStep:
    """What one rank returned, what of its arguments was changed, the most that was alive, and what it sent."""

    returned: list | str
    changed: str | None
    peak: int
    sent: int


def _step(function, rank: int, world_size: int, model: LayerCase) -> LayerStep:
    shards = [Chunks(weight.reshape(-1), world_size)[rank].clone() for weight in model.weights()]
    x, t = model.sample(rank)
    before = [one.clone() for one in (*shards, x)]
    with wire() as sent, LivePeak((*shards, x, t), model.most_bytes) as alive:
        returned = function(list(zip(shards, model.shapes, strict=True)), x, lambda y: y + t)
    changed = next((number for number, pair in enumerate(zip((*shards, x), before, strict=True))
                    if not torch.equal(*pair)), None)
    plain = [_plain(one) for one in returned] if isinstance(returned, (list, tuple)) else shown(returned)
    name = "x" if changed == len(shards) else f"the shard of layer {changed}"
    return LayerStep(plain, None if changed is None else name, alive.peak, sent.sent)


def _plain(gradient: object) -> list[float] | str:
    """Its numbers, or what it is instead of a flat tensor."""
    if not isinstance(gradient, Tensor):
        return shown(gradient)
    return gradient.tolist() if gradient.ndim == 1 else f"one of shape {list(gradient.shape)}"


def _expected(model: LayerCase, ranks: list[int]) -> list[list[float]]:
    """Flat gradients of the mean over `ranks`, by autograd."""
    weights = [weight.requires_grad_() for weight in model.weights()]
    with torch.enable_grad():
        for rank in ranks:
            y, t = model.sample(rank)
            for weight in weights:
                y = y @ weight.T
            y.backward((y.detach() + t) / len(ranks))
    return [weight.grad.reshape(-1).tolist() for weight in weights]


def _unlike(run: Run, model: LayerCase) -> str | None:
    n, right = model.world_size, _expected(model, list(range(model.world_size)))
    for rank, seen in enumerate(run.results):
        if isinstance(seen.returned, str) or len(seen.returned) != len(right):
            what = seen.returned if isinstance(seen.returned, str) else f"{len(seen.returned)}"
            return f"rank {rank} returned {what}; a list of {len(right)} is asked for, a gradient for each layer"
        for layer, (got, flat) in enumerate(zip(seen.returned, right, strict=True)):
            expected = Chunks(torch.tensor(flat), n)[rank].tolist()
            where = f"layer {layer} of {list(model.shapes[layer])} on rank {rank} of {n}"
            if isinstance(got, str) or len(got) != len(expected):
                what = got if isinstance(got, str) else f"one of {len(got)} elements"
                return f"{where}: a flat tensor of {len(expected)} elements is asked for, its chunk, not {what}"
            if (place := _first_apart(got, expected)) is not None:
                return (f"{where}: element {place} is {got[place]:g}, expected {expected[place]:g}"
                        + _known_mistake(got, layer, model, rank))
        if seen.changed:
            return f"{seen.changed} on rank {rank} was changed; step reads its arguments only"
    return too_little_sent(run, _least(model) * 2 / 3)      # of layers that are kept, less is sent


def _known_mistake(got: list[float], layer: int, model: LayerCase, rank: int) -> str:
    """Which known mistake makes these numbers."""
    n, everybody = model.world_size, _expected(model, list(range(model.world_size)))[layer]
    own = _expected(model, [rank])[layer]
    turned = torch.tensor(everybody).view(model.shapes[layer]).T.reshape(-1).tolist()
    known = {": that is the sum over ranks, not the mean": [n * v for v in everybody],
             ": that is its own gradient": own, ": that is its own gradient, divided": [v / n for v in own],
             ": that is the transposed gradient": turned, ": that is divided twice": [v / n for v in everybody]}
    for words, flat in known.items():
        chunk = Chunks(torch.tensor(flat), n)[rank].tolist()
        if _first_apart(got, chunk) is None:
            return words
    return ""


def _first_apart(got: list[float], expected: list[float]) -> int | None:
    """Sums of deep models are too large to be exact."""
    close = 1e-4 * max(1.0, *map(abs, expected), 0.0)
    return next((place for place, (one, other) in enumerate(zip(got, expected, strict=True))
                 if not abs(one - other) <= close), None)


def _alive(run: Run, model: LayerCase) -> str | None:
    peak = max(seen.peak for seen in run.results)
    if peak <= model.most_bytes:
        return None
    return (f"with {len(model.shapes)} layers of {model.largest:,} elements on {model.world_size} ranks, "
            f"{(peak / 4 - model.others) / model.largest:.1f} full layers were alive at once, besides shards and "
            f"activations; {FULL_LAYERS} are allowed. Is a matrix kept, or a view of a whole gradient?")


def _least(model: LayerCase) -> float:
    """Bytes that a rank must send."""
    return 4 * step_elements_sent(model.num_params, 3, model.world_size)


def _sent(run: Run, model: LayerCase) -> str | None:
    least, sent = _least(model), max(seen.sent for seen in run.results)
    if least < SOME_BYTES or 0.96 * least <= sent <= 1.06 * least:
        return None
    an_all_reduce = abs(sent - 4 / 3 * least) <= 0.06 * least
    hint = ". It is as much as with an all_reduce, which gloo's reduce_scatter is, too" if an_all_reduce else ""
    hint = hint if sent > least else ". Is a matrix kept between forward and backward?"
    return (f"a rank sends {sent:,} bytes for {model.num_params:,} parameters on {model.world_size} ranks, expected "
            f"{least:,.0f} and some headers: two all_gathers and one reduce_scatter{hint}")
