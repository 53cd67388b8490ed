"""Checks of exercise set 06: a step whose layers are gathered one at a time, against autograd in one process.

All numbers are small whole ones, so that sums are exact in any order.
"""
from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from helpers.checks.elsewhere import Raised
from helpers.checks.ranks import on_ranks
from helpers.checks.sharded_adam import OWN_ZERO
from helpers.checks.verdict import Verdict, first_wrong, score, unseen
from helpers.predict.comm import step_elements_sent
from helpers.run.collectives import Chunks
from helpers.run.launch import Run
from helpers.run.meters import wire
from helpers.run.residency import residency

SOME_BYTES = 40_000             # sent: so many that the headers of messages hardly count
FULL_LAYERS = 3                 # that may be alive at once, of parameters and gradients together


@dataclass(frozen=True)
class Model:
    """y = x W_1^T W_2^T ...: the widths between the layers, the samples of each rank, and the ranks."""

    widths: tuple[int, ...]
    num_samples: int = 2
    world_size: int = 4

    @property
    def shapes(self) -> list[tuple[int, int]]:
        return [(out, into) for into, out in zip(self.widths, self.widths[1:], strict=False)]

    @property
    def num_params(self) -> int:
        return sum(map(math.prod, self.shapes))

    def weights(self) -> list[Tensor]:
        generator = torch.Generator().manual_seed(3)
        return [torch.randint(-1, 2, shape, generator=generator).float() for shape in self.shapes]

    def sample(self, rank: int) -> tuple[Tensor, Tensor]:
        """x [B, widths[0]], and the gradient of the loss with respect to y [B, widths[-1]], before it knows y."""
        generator = torch.Generator().manual_seed(50 + rank)
        return tuple(torch.randint(-2, 3, (self.num_samples, width), generator=generator).float()
                     for width in (self.widths[0], self.widths[-1]))


PLAIN, LARGE = Model((3, 5, 2, 4)), Model((128,) * 9)
OTHERS = (Model((2, 3), 1, 3), Model((4, 1, 4, 1), 3, 2), Model((5, 3), 2, 1), Model((100, 90, 110, 100, 90), 2, 3))


def check_lending(function: object) -> float:
    """4 points: gradients as autograd has them, little alive at once, bytes of stage 3."""
    runs = _runs(function, (PLAIN, LARGE))
    wrong, alive, sent = (first_wrong(look(run, model) for model, run in runs.items())
                          for look in (_unlike, _alive, _sent))
    later = wrong and "judged once the gradients are right"
    return score([Verdict(2, "shards of the mean gradient", wrong), Verdict(1, "a layer at a time", later or alive),
                  Verdict(1, "gathered twice, reduced once", later or sent)], "Lent, used, given back.")


@unseen
def check_lending_unseen(function: object) -> float:
    """1 point: other widths, samples and numbers of ranks."""
    runs = _runs(function, OTHERS)
    wrong = first_wrong(look(run, model) for model, run in runs.items() for look in (_unlike, _alive, _sent))
    return score([Verdict(1, "other widths and numbers of ranks", wrong)], "It holds anywhere.")


def _runs(function: object, models: tuple[Model, ...]) -> dict[Model, Run | Raised]:
    """Until one fails: one deadline is long enough."""
    runs = {}
    for model in models:
        runs[model] = on_ranks(_step, function, model, model.world_size, OWN_ZERO)
        if isinstance(runs[model], Raised):
            break
    return runs


def _step(function, rank: int, world_size: int, model: Model) -> tuple[list, int, int]:
    """What came back, in plain numbers; the most that was alive; bytes sent."""
    shards = [Chunks(weight.reshape(-1), world_size)[rank].clone() for weight in model.weights()]
    x, upstream = model.sample(rank)
    with residency({}) as alive, wire() as sent:
        returned = function(list(zip(shards, model.shapes, strict=True)), x, lambda y: upstream + 0 * y)
    each = returned if isinstance(returned, (list, tuple)) else []
    plain = [gradient.detach().tolist() if isinstance(gradient, Tensor) else None for gradient in each]
    return plain, alive.peak_bytes, sent.sent


def _expected(model: Model, ranks: list[int]) -> list[list[float]]:
    """Flat gradients of the mean over `ranks`, by autograd."""
    weights = [weight.requires_grad_() for weight in model.weights()]
    for rank in ranks:
        y, upstream = model.sample(rank)
        for weight in weights:
            y = y @ weight.T
        y.backward(upstream / len(ranks))
    return [weight.grad.reshape(-1).tolist() for weight in weights]


def _unlike(run: Run | Raised, model: Model) -> str | None:
    if isinstance(run, Raised):
        return run.words
    n = model.world_size
    right = _expected(model, list(range(n)))
    for rank, (returned, _, _) in enumerate(run.results):
        if len(returned) != len(right):
            return f"rank {rank} returned {len(returned)} gradients, expected a list of {len(right)}, one a layer"
        for layer, (got, flat) in enumerate(zip(returned, right, strict=True)):
            expected = Chunks(torch.tensor(flat), n)[rank].tolist()
            where = f"layer {layer} of {list(model.shapes[layer])} on rank {rank} of {n}"
            if not isinstance(got, list) or len(got) != len(expected) or any(isinstance(v, list) for v in got):
                return f"{where}: a flat tensor of {len(expected)} elements is expected, this rank's chunk"
            if (place := _first_apart(got, expected)) is not None:
                return (f"{where}: element {place} is {got[place]:g}, expected {expected[place]:g}"
                        + _why(got, layer, model, rank))
    return None


def _why(got: list[float], layer: int, model: Model, rank: int) -> str:
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


def _alive(run: Run | Raised, model: Model) -> str | None:
    if isinstance(run, Raised):
        return run.words
    largest, n = max(map(math.prod, model.shapes)), model.world_size
    others = model.num_params / n + 2 * largest / n + 4 * model.num_samples * sum(model.widths) + 2000
    peak = max(peak for _, peak, _ in run.results)
    if peak <= 4 * (FULL_LAYERS * largest + others):
        return None
    return (f"with {len(model.shapes)} layers of {largest:,} elements on {n} ranks, "
            f"{(peak / 4 - others) / largest:.1f} full layers were alive at once, besides shards and activations; "
            f"{FULL_LAYERS} are allowed")


def _sent(run: Run | Raised, model: Model) -> str | None:
    if isinstance(run, Raised):
        return run.words
    least = 4 * step_elements_sent(model.num_params, 3, model.world_size)
    sent = max(sent for _, _, sent in run.results)
    if least < SOME_BYTES or sent <= 1.06 * least:
        return None
    return (f"a rank sends {sent:,} bytes for {model.num_params:,} parameters on {model.world_size} ranks, expected "
            f"{least:,.0f} and some headers: two all_gathers and one reduce_scatter")
