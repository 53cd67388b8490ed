"""Checks of exercise set 06: clipping by the global norm, of gradients that are partly sharded."""
from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from helpers.checks.judge import forbidden
from helpers.checks.judge.real_ranks import judged_on_ranks, too_little_sent
from helpers.checks.judge.verdict import Verdict, first_wrong, is_number, plain, score, shown, unseen
from helpers.run.collectives import Chunks
from helpers.run.launch import Run
from helpers.run.measure.meters import wire

CLOSE = 1e-5
MOST_LISTED = 8                 # numbers of a gradient, in a message
MOST_BYTES = 2000               # sent: a number or two, with headers


@dataclass(frozen=True)
class ClipGradients:
    """Whole gradients, of which the first are sharded and the others replicated, and the limit of their norm."""

    sharded: tuple[tuple[float, ...], ...]
    replicated: tuple[tuple[float, ...], ...]
    max_norm: float
    world_size: int = 4

    def norm(self, sharded: float = 1, replicated: float = 1) -> float:
        """The norm, each kind's squares counted so often."""
        squares = [sum(v * v for g in kind for v in g) for kind in (self.sharded, self.replicated)]
        return math.sqrt(sharded * squares[0] + replicated * squares[1])


BINDING = ClipGradients(((3.0, 0.0, 0.0, 4.0, 0.0), (0.0, 12.0)), ((84.0,),), 17.0)        # 5, 13, 85
PLAIN = ClipGradients(((3.0, 4.0),), (), 1.0)                       # two ranks have nothing
LOOSE = ClipGradients(((0.003,) * 10_001,), ((0.1, 0.2),), 10.0)    # so many that nobody sends them all unseen
OTHERS = (ClipGradients(((0.0,), (7.0, 24.0, 0.0)), ((60.0, 0.0), (0.0,)), 13.0, 3),
          ClipGradients(((6.0, 8.0),), ((1e-3,),), 5.0, 3), ClipGradients((), ((3.0, 4.0),), 1.0, 3),
          ClipGradients(((0.0,) * 6,), ((0.0,),), 1.0, 3), ClipGradients(((8.0, 15.0),), ((0.5,),), 20.0, 1))


def check_clip(function: object) -> float:
    """3 points: the global norm, scaled as torch scales, one small message."""
    runs, norm = judged_on_ranks(_clip, function, (PLAIN, BINDING, LOOSE), forbidden.ZERO, _not_norm)
    later = norm and "judged once the norm is right"
    scaled, cost = (first_wrong(look(run, case) for case, run in runs.items()) for look in (_not_scaled, _cost))
    return score([Verdict(1, "the norm of the whole gradient", norm),
                  Verdict(1, "scaled where it is above the limit", later or scaled),
                  Verdict(1, "one number travels", later or cost)], "One norm, and all ranks know it.")


@unseen
def check_clip_unseen(function: object) -> float:
    """1 point: other gradients and numbers of ranks, also all zero, or none sharded."""
    _, wrong = judged_on_ranks(_clip, function, OTHERS, forbidden.ZERO,
                               lambda run, case: _not_norm(run, case) or _not_scaled(run, case) or _cost(run, case))
    return score([Verdict(1, "other gradients and numbers of ranks", wrong)], "It holds anywhere.")


def _clip(function, rank: int, world_size: int, case: ClipGradients) -> tuple[object, list[list[float]], int]:
    """What it returned, in plain numbers; all gradients afterwards; bytes sent."""
    sharded = [Chunks(torch.tensor(g), world_size)[rank].clone() for g in case.sharded]
    replicated = [torch.tensor(g)[:, None] for g in case.replicated]
    kept = [*sharded, *replicated]
    with wire() as sent:
        returned = function(list(sharded), list(replicated), case.max_norm)
    returned = returned.item() if isinstance(returned, Tensor) and returned.numel() == 1 else plain(returned)
    return (returned if is_number(returned) else shown(returned)), [g.reshape(-1).tolist() for g in kept], sent.sent


def _not_norm(run: Run, case: ClipGradients) -> str | None:
    right, n = case.norm(), case.world_size
    for rank, (norm, _, _) in enumerate(run.results):
        if not is_number(norm):
            return f"rank {rank} returned {norm}; the norm, a number, is asked for"
        if not math.isclose(norm, right, rel_tol=CLOSE, abs_tol=1e-12):
            own = [_own(case, rank, kinds) for kinds in ((1, 1), (1, 0))]
            known = {": that is of its own shards": own[0], ": that leaves out the replicated ones": case.norm(1, 0),
                     ": that counts the replicated ones once for each rank": case.norm(1, n),
                     ": that is the sum of the ranks' norms, and squares add up": sum(_own(case, r) for r in range(n)),
                     ": that is the square": right**2}
            words = next((words for words, value in known.items() if math.isclose(norm, value, rel_tol=CLOSE)), "")
            return f"{_said(case)}: rank {rank} of {n} returned {norm:.7g}, expected {right:.7g}{words}"
    return too_little_sent(run, 8 * (n > 1 and bool(case.sharded)))


def _own(case: ClipGradients, rank: int, kinds: tuple[int, int] = (1, 1)) -> float:
    """The norm of what this rank holds."""
    shards = [Chunks(torch.tensor(g), case.world_size)[rank] for g in case.sharded] * kinds[0]
    squares = sum(float((shard.double() ** 2).sum()) for shard in shards)
    return math.sqrt(squares + kinds[1] * sum(v * v for g in case.replicated for v in g))


def _not_scaled(run: Run, case: ClipGradients) -> str | None:
    factor = min(1.0, case.max_norm / (case.norm() + 1e-6))
    for rank, (_, after, _) in enumerate(run.results):
        before = [*(Chunks(torch.tensor(g), case.world_size)[rank].tolist() for g in case.sharded),
                  *map(list, case.replicated)]
        for number, (got, was) in enumerate(zip(after, before, strict=True)):
            for one, value in zip(got, was, strict=True):
                if not math.isclose(one, value * factor, rel_tol=1e-4, abs_tol=1e-9):
                    kind = "sharded" if number < len(case.sharded) else "replicated"
                    return (f"{_said(case)}: on rank {rank} {value:g} of a {kind} gradient became {one:.6g}, expected "
                            f"{value * factor:.6g}{_known_mistake(one, value, case, factor)}")
    return None


def _known_mistake(got: float, value: float, case: ClipGradients, factor: float) -> str:
    if math.isnan(got):
        return ": is something divided by a norm of 0?"
    if math.isclose(got, value):
        return ": it is as it was. Is it changed in place?"
    if factor == 1:
        return ": a norm below the limit is no reason to scale"
    return ": it is scaled twice" if math.isclose(got, value * factor**2, rel_tol=1e-3) else ""


def _cost(run: Run, case: ClipGradients) -> str | None:
    calls = [span.kind for span in run.trace if span.rank == 0]
    if case.world_size > 1 and len(calls) > 1:
        return f"{len(calls)} calls of torch.distributed ({', '.join(calls[:3])}); one is enough"
    sent = max(sent for _, _, sent in run.results)
    return f"a rank sends {sent:,} bytes; one number is enough" if sent > MOST_BYTES else None


def _said(case: ClipGradients) -> str:
    return f"sharded {_listed(case.sharded)}, replicated {_listed(case.replicated)}, limit {case.max_norm:g}"


def _listed(gradients: tuple[tuple[float, ...], ...]) -> str:
    return " ".join("[" + ", ".join(f"{v:g}" for v in g[:MOST_LISTED]) + (", ...]" if len(g) > MOST_LISTED else "]")
                    for g in gradients) or "none"
