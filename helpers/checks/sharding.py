"""Checks of exercise set 04: a sampler, its proof, a script with a fault, means and accuracies that are right."""
from __future__ import annotations

import functools

import torch
from torch.utils.data import DistributedSampler

from helpers.checks.elsewhere import FORBIDDEN, Raised, elsewhere, words_for
from helpers.checks.verdict import Verdict, first_wrong, number_verdict, plain, score, shown, unseen
from helpers.facts.errors import BadValue
from helpers.facts.sampling import Sampling
from helpers.run.launch import launch
from helpers.run.sampling import check_sampling

OWN_DATA = (*FORBIDDEN, "helpers.run.data", "helpers.run.sampling", "helpers.facts.sampling")


def check_sampler(function: object) -> float:
    """3 points: every sample once, equal steps, an order of its own in each epoch."""
    epochs = {size: _indices(function, size, world_size) for size, world_size in ((24, 4), (1003, 4), (10, 3))}
    cover = first_wrong(_not_covering(epochs[size], size) for size in (24, 1003, 10))
    later = cover and "judged once every sample is there"
    return score([Verdict(1, "every sample, and none twice but to pad", cover),
                  Verdict(1, "as many on every rank", later or first_wrong(map(_uneven, epochs.values()))),
                  Verdict(1, "an order for each epoch, the same when asked again",
                          later or first_wrong(map(_odd_order, epochs.values())))], "A partition, in every epoch.")


@unseen
def check_sampler_unseen(function: object) -> float:
    """1 point: fewer samples than ranks, one rank, other seeds."""
    wrongs = []
    for size, world_size in ((3, 5), (7, 1), (64, 8), (1, 2), (501, 7)):
        parts = _indices(function, size, world_size, seed=3)
        wrongs += [_not_covering(parts, size) or _uneven(parts) or (_odd_order(parts) if size > 20 else None)]
    return score([Verdict(1, "other sizes and seeds", first_wrong(wrongs))], "It holds anywhere.")


def _indices(function: object, num_samples: int, world_size: int, seed: int = 0) -> dict[str, list] | Raised:
    """By epoch, and once more for epoch 0 and for another seed: what each rank gets."""
    asked = {"epoch 0": (0, seed), "epoch 1": (1, seed), "epoch 0 again": (0, seed), "another seed": (0, seed + 1)}
    cases = [{"num_samples": num_samples, "rank": rank, "world_size": world_size, "epoch": epoch, "seed": other}
             for epoch, other in asked.values() for rank in range(world_size)]
    got = elsewhere(_list_of_numbers, function, cases, OWN_DATA)
    bad = next((one for one in got if isinstance(one, Raised)), None)
    return bad or {name: got[k * world_size:(k + 1) * world_size] for k, name in enumerate(asked)}


def _list_of_numbers(function, case: dict) -> list[int] | Raised:
    torch.manual_seed(case["rank"])                     # a sampler must not depend on what came before
    before, DistributedSampler.__init__ = torch.get_rng_state(), _refused
    try:
        value = function(**case)
        if not torch.equal(torch.get_rng_state(), before):
            return Raised("changes torch's global generator: make one of your own, torch.Generator()")
        value = value.tolist() if hasattr(value, "tolist") else list(value)
    except BaseException as error:              # also what would end this process
        return Raised(words_for(error))
    value = [plain(one) for one in value]
    return value if all(type(one) is int for one in value) else Raised(f"returned {shown(value)}; whole numbers are "
                                                                       "asked for")


def _refused(*args, **kwargs):
    raise BadValue("in this exercise you write what DistributedSampler does")


def _not_covering(parts: dict | Raised, num_samples: int) -> str | None:
    if isinstance(parts, Raised):
        return parts.words
    for name in ("epoch 0", "epoch 1"):
        drawn = [index for part in parts[name] for index in part]
        where = f"{num_samples} samples on {len(parts[name])} ranks, {name}: "
        if odd := [index for index in drawn if not 0 <= index < num_samples]:
            return f"{where}{odd[0]} is no sample"
        if missing := set(range(num_samples)) - set(drawn):
            hint = ". Do all ranks cut the same permutation?" if len(set(drawn)) < len(drawn) else ""
            return f"{where}sample {min(missing)} is never drawn, and so {len(missing)} in all{hint}"
        if len(drawn) - num_samples >= len(parts[name]):
            return f"{where}{len(drawn)} draws, so {len(drawn) - num_samples} repeat a sample; padding needs fewer"
    return None


def _uneven(parts: dict | Raised) -> str | None:
    if isinstance(parts, Raised):
        return parts.words
    counts = [len(part) for part in parts["epoch 0"]]
    return None if len(set(counts)) == 1 else f"ranks have {', '.join(map(str, counts))} samples"


def _odd_order(parts: dict | Raised) -> str | None:
    if isinstance(parts, Raised):
        return parts.words
    if parts["epoch 0"] != parts["epoch 0 again"]:
        return "epoch 0, asked again, is another one: make a generator of its own from seed and epoch"
    together = [[index for row in zip(*parts[name], strict=False) for index in row]
                for name in ("epoch 0", "epoch 1", "another seed")]
    if together[0] == sorted(together[0]) or parts["epoch 0"][0] == sorted(parts["epoch 0"][0]):
        return "samples come in their own order: shuffle them"
    if parts["epoch 0"] == parts["epoch 1"]:
        return "epoch 1 has the order of epoch 0"
    return "another seed gives the same order" if parts["epoch 0"] == parts["another seed"] else None


PARTS = [([[0, 3], [1, 2]], 4), ([[2], [0]], 3), ([[0, 1], [1, 2]], 3), ([[0, 0], [2]], 3), ([[], []], 2)]
MORE_PARTS = [([[0, 4], [1, 2, 3]], 5), ([[0, 5], [1]], 2), ([[-1, 0]], 1), ([[1], [1], [1]], 2), ([], 0), ([[7]], 8)]


def check_proof(function: object) -> float:
    """1 point: what is missing, and what is drawn twice."""
    return score([Verdict(1, "five divisions", _wrong_proof(function, PARTS))], "An empty answer is the proof.")


@unseen
def check_proof_unseen(function: object) -> float:
    """1 point: unknown samples, empty parts, no samples."""
    return score([Verdict(1, "other divisions", _wrong_proof(function, MORE_PARTS))], "It holds anywhere.")


def _wrong_proof(function: object, cases: list[tuple[list, int]]) -> str | None:
    got = elsewhere(_times, function, [{"parts": parts, "num_samples": size} for parts, size in cases], OWN_DATA)
    for (parts, size), answer in zip(cases, got, strict=True):
        if isinstance(answer, Raised):
            return answer.words
        drawn = [index for part in parts for index in part]
        right = {index: drawn.count(index) for index in {*range(size), *drawn}
                 if drawn.count(index) != 1 or not 0 <= index < size}
        if answer != right:
            return f"parts {parts} of {size} samples: {shown(answer)}, expected {right}"
    return None


def _times(function, case: dict) -> dict | Raised:
    try:
        value = function(**case)
    except BaseException as error:              # also what would end this process
        return Raised(words_for(error))
    if not isinstance(value, dict):
        return Raised("returned None: is there a return?" if value is None else
                      f"returned {shown(value)}; a dict is asked for")
    return {plain(key): plain(times) for key, times in value.items()}


def check_script(scripts: dict, wrong: object, kind: object, never_drawn: object) -> float:
    """3 points: which of the loaders is wrong, how, and how many samples it never draws in epoch 0."""
    name, report = _the_wrong_one(tuple(scripts.items()))
    fault, = report.faults
    said = [Verdict(1, what, None if got == right else "nothing here yet" if got is None or got is ... else
                    f"not {shown(got)}: {hint}")
            for what, got, right, hint in (
        ("the script", wrong, name, "run check_sampling on it and look for FAULT"),
        ("the kind of fault", kind, fault.kind, "as the report names it, after FAULT"))]
    return score([*said, number_verdict(1, "never drawn", never_drawn, report.num_missing, {
        "is the number of repeats": report.num_repeats, "is the number of draws": report.num_draws,
        "is what is drawn, not what is not": report.num_samples - report.num_missing})],
        "No message, no other loss curve, and it is wrong.")


@functools.cache
def _the_wrong_one(scripts: tuple) -> tuple[str, Sampling]:
    reports = launch(_reports, 4, dict(scripts)).results[0]
    (found,) = [(name, report) for name, report in reports.items() if report.faults]
    return found


def _reports(rank: int, world_size: int, scripts: dict) -> dict[str, Sampling]:
    return {name: check_sampling(loader, before_epoch=before_epoch)
            for name, (loader, before_epoch) in ((name, make(rank, world_size)) for name, make in scripts.items())}
