"""Check of exercise set 04: a sampler that cuts every epoch into parts, one for each rank.

Each rank asks in a process of its own, so nothing but the arguments can make them agree.
"""
from __future__ import annotations

import itertools
import pickle
import random
from collections import Counter
from dataclasses import dataclass

import numpy
import torch
from torch.utils.data import DistributedSampler

from helpers.checks.judge import forbidden
from helpers.checks.judge.other_process import Raised
from helpers.checks.judge.real_ranks import runs_in_order
from helpers.checks.judge.verdict import Verdict, first_wrong, plain, score, shown, unseen
from helpers.facts.data_sharding import count
from helpers.facts.errors import BadValue

ASKED = {"epoch 0": (0, 0), "epoch 1": (1, 0), "epoch 0 again": (0, 0), "another seed": (0, 1)}    # epoch, seed added
ENOUGH = 400                    # samples, of which no shuffle leaves many in their order
MOST_IN_A_ROW = 0.3             # share of neighbours with one and the same difference
MOST_RISING = 0.7               # share of neighbours of which the second is larger


@dataclass(frozen=True)
class SamplerCase:
    """What the sampler is asked for, on every rank."""

    num_samples: int
    world_size: int
    seed: int = 0


SEEN = SamplerCase(24, 4), SamplerCase(1003, 4), SamplerCase(10, 4)
OTHERS = (SamplerCase(1, 5, 3), SamplerCase(3, 5, 3), SamplerCase(64, 5, 3), SamplerCase(501, 5, 3),
          SamplerCase(450, 1, 3))
Parts = dict[str, list[list[int]]]      # by what was asked: of each rank


def check_sampler(function: object) -> float:
    """3 points: every sample once, equal parts, an order of its own in each epoch."""
    cover, even, order = _looked_at(function, SEEN)
    later = cover and "judged once every sample is there"
    return score([Verdict(1, "every sample, and none twice but to pad", cover),
                  Verdict(1, "as many on every rank", later or even),
                  Verdict(1, "an order for each epoch, the same when asked again", later or order)],
                 "A partition, in every epoch.")


@unseen
def check_sampler_unseen(function: object) -> float:
    """1 point: fewer samples than ranks, one rank, another seed."""
    return score([Verdict(1, "other sizes and seeds", first_wrong(_looked_at(function, OTHERS)))], "It holds anywhere.")


def _looked_at(function: object, cases: tuple[SamplerCase, ...]) -> list[str | None]:
    """What is wrong with coverage, with the numbers, and with the order, of the first size that is wrong."""
    wrongs: list[str | None] = [None, None, None]
    for case, run in runs_in_order(_asked, function, cases, forbidden.SAMPLERS):
        said = [run] if isinstance(run, Raised) else [one for one in run.results if isinstance(one, Raised)]
        if said:
            return [said[0].words] * 3
        parts = {name: [rank[name] for rank in run.results] for name in ASKED}
        where = f"{count(case.num_samples, 'sample')} on {count(case.world_size, 'rank')}"
        wrongs = [before or (wrong and f"{where}: {wrong}") for before, wrong in zip(
            wrongs, (_not_covering(parts, case.num_samples), _uneven(parts), _odd_order(parts)), strict=True)]
        if wrongs[0]:                           # which comes before all else that may be wrong
            break
    return wrongs


def _asked(function, rank: int, world_size: int, case: SamplerCase) -> dict[str, list[int]] | Raised:
    num_samples, seed = case.num_samples, case.seed
    for own in ("__init__", "__iter__"):
        setattr(DistributedSampler, own, _refused)
    answers = {}
    for name, (epoch, added) in ASKED.items():
        random.seed(rank), numpy.random.seed(rank), torch.manual_seed(rank)     # it must not depend on these
        before = _global_states()
        value = function(num_samples=num_samples, rank=rank, world_size=world_size, epoch=epoch, seed=seed + added)
        if value is None:
            return Raised("returned None: is there a return?")
        if not hasattr(value, "__iter__"):
            return Raised(f"returned {shown(value)}; a list is asked for")
        value = value.tolist() if hasattr(value, "tolist") else value
        drawn = [plain(one) for one in itertools.islice(value, 10 * num_samples + 10)]
        if _global_states() != before:
            return Raised("draws from, or seeds, a global random generator: make one of your own, torch.Generator()")
        if not all(type(one) is int for one in drawn):
            return Raised(f"returned {shown(drawn)}; whole numbers are asked for")
        answers[name] = drawn
    return answers


def _global_states() -> bytes:
    return pickle.dumps((random.getstate(), numpy.random.get_state(), torch.get_rng_state().numpy()))


def _refused(*args, **kwargs):
    raise BadValue("in this exercise you write what DistributedSampler does")


def _not_covering(parts: Parts, num_samples: int) -> str | None:
    for name in ("epoch 0", "epoch 1"):
        drawn, num_ranks = [index for part in parts[name] for index in part], len(parts[name])
        if odd := [index for index in drawn if not 0 <= index < num_samples]:
            return f"in {name}, {odd[0]} is no sample"
        alike = num_ranks > 1 and all(sorted(part) == sorted(parts[name][0]) for part in parts[name])
        if missing := sorted(set(range(num_samples)) - set(drawn)):
            hint = ". All ranks draw the same samples: is rank used?" if alike else \
                ". Do all ranks cut the same permutation?" if len(set(drawn)) < len(drawn) else \
                ". Repeat some, do not drop any" if len(missing) == num_samples % num_ranks else ""
            return f"in {name}, {count(len(missing), 'sample is', 'samples are')} never drawn, {missing[0]} first{hint}"
        fewest = -num_samples % num_ranks
        if len(drawn) - num_samples > fewest:
            everyone = ". Every rank draws all of them" if alike else ""
            return f"in {name}, {count(len(drawn) - num_samples, 'draw repeats', 'draws repeat')} a sample; " \
                   f"{fewest} are enough{everyone}"
    return None


def _uneven(parts: Parts) -> str | None:
    counts = [len(part) for part in parts["epoch 0"]]
    return None if len(set(counts)) == 1 else f"ranks have {', '.join(map(str, counts))} samples"


def _odd_order(parts: Parts) -> str | None:
    if parts["epoch 0"] != parts["epoch 0 again"]:
        return "epoch 0, asked again, is another one: make a generator of its own from seed and epoch"
    if sum(map(len, parts["epoch 0"])) < ENOUGH:        # few samples may come in order by chance
        return None
    for name in ("epoch 0", "epoch 1"):
        if any(map(_in_order, parts[name])):
            return f"in {name}, samples come in their own order, or nearly: shuffle them"
    if parts["epoch 0"] == parts["epoch 1"]:
        return "epoch 1 has the order of epoch 0"
    return "another seed gives the same order" if parts["epoch 0"] == parts["another seed"] else None


def _in_order(samples: list[int]) -> bool:
    """Whether most samples stand as no shuffle leaves them: rising, falling, or a fixed step apart."""
    steps = Counter(second - first for first, second in itertools.pairwise(samples))
    rising = sum(times for step, times in steps.items() if step > 0) / steps.total()
    return max(steps.values()) / steps.total() > MOST_IN_A_ROW or not 1 - MOST_RISING < rising < MOST_RISING
