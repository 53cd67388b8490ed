"""Checks of exercise set 02: what an algorithm costs, and which one to choose."""
from __future__ import annotations

import math

from helpers.checks.judge.other_process import Raised, answers
from helpers.checks.judge.verdict import Verdict, is_number, number_verdict, plain, score, shown, unseen
from helpers.facts.measured import Wire
from helpers.facts.network import network
from helpers.facts.units import GB
from helpers.predict.collectives import cost
from helpers.run.collectives import run_on_gloo
from helpers.run.launch import RankFailed, RankHung

CHOICES = ("ring", "recursive doubling", "halving-doubling")
SEEN = ((8, 1e3, 5e-6, 25), (8, 1e9, 5e-6, 25), (3, 1e9, 5e-6, 25), (6, 1e6, 5e-6, 25), (64, 1e6, 1e-6, 100))
UNSEEN = ((2, 1e6, 5e-6, 25), (5, 1e3, 1e-5, 10), (5, 2e5, 1e-5, 10), (16, 1e4, 5e-5, 1), (32, 3e5, 5e-6, 25),
          (12, 1e8, 1e-6, 400), (16, 1e7, 5e-5, 1), (24, 1e9, 5e-6, 25), (64, 1e2, 5e-6, 25), (100, 1e9, 2e-5, 50))
CLOSE = 0.01                    # relative: who is this near to the fastest is as good


def check_predicted(algorithm: object, num_bytes: object, num_messages: object, measured: object) -> float:
    """3 points: bytes and messages of `gather_and_add` on 6 ranks, and its bytes on 3 real ranks."""
    n, size = 6, 2400
    mistakes = {"is what a ring all-reduce sends; here whole tensors travel": 2 * size * (n - 1) / n,
                "counts a message to itself; there are N-1 others": n * size,
                "is the number of elements; bytes are asked for": (n - 1) * size / 4,
                "is one chunk in each step; here each message is the whole tensor": size * (n - 1) / n,
                "is the sum over all ranks; one rank's is asked for": n * (n - 1) * size}
    steps = {"counts the messages of all ranks; at the same time they cost no time": n * (n - 1),
             "is a ring all-reduce's; here they go round once": 2 * (n - 1), "counts a message to itself": n}
    return score([number_verdict(1, "bytes on 6 ranks", num_bytes, (n - 1) * size, mistakes),
                  number_verdict(1, "messages one after another", num_messages, n - 1, steps),
                  Verdict(1, "measured on 3 ranks", _not_measured(algorithm, measured))],
                 "Prediction and measurement agree: N-1 whole tensors.")


def _not_measured(algorithm: object, measured: object) -> str | None:
    if measured is None or measured is ...:
        return "nothing here yet"
    if type(measured) is list and measured and all(type(one) is Wire for one in measured):
        return "these are the counters; the numbers are in each one's .sent"
    if type(measured) not in (list, tuple) or len(measured) != 3 or not all(is_number(plain(one)) for one in measured):
        return f"a list of three numbers is asked for, one for each rank, not {shown(measured)}"
    try:
        counted = run_on_gloo(algorithm_on_ones, 3, algorithm).wire
    except (RankFailed, RankHung) as error:
        return f"gather_and_add fails when it is run here; leave it as it was given. {error.headline}"
    except ValueError as error:
        return f"gather_and_add fails when it is run here; leave it as it was given. {error}"
    if not all(math.isclose(own.sent, 2 * 4_000_000, rel_tol=0.002) for own in counted):
        return f"gather_and_add sends {counted[0].sent:,} bytes when it is run here; leave it as it was given"
    for rank, (got, own) in enumerate(zip(map(plain, measured), counted, strict=True)):
        if got == 2 * 4_000_000 and own.counted_by == "kernel":
            return "8,000,000 is the formula; the kernel's count has the headers, too: run.wire[rank].sent"
        if not math.isclose(got, own.sent, rel_tol=0.002):
            return f"rank {rank} sent {own.sent:,} bytes when it was run here, not {got:,.0f}"
    return None


def algorithm_on_ones(mesh, algorithm) -> None:
    """A rank program: run `algorithm(mesh, tensor)` on a float32 tensor of ones, 4,000,000 bytes."""
    import torch

    algorithm(mesh, torch.ones(1_000_000))


def check_algorithm_choice(function: object) -> float:
    """1 point: the fastest algorithm for some networks."""
    return _choices(function, SEEN, "five networks")


@unseen
def check_choice_unseen(function: object) -> float:
    """2 points: more of them."""
    half = len(UNSEEN) // 2
    verdicts = [Verdict(1, f"networks {name}", _wrong_choice(function, some))
                for name, some in (("1 to 5", UNSEEN[:half]), ("6 to 10", UNSEEN[half:]))]
    return score(verdicts, "The fastest each time.")


def _choices(function: object, networks: tuple, what: str) -> float:
    return score([Verdict(1, what, _wrong_choice(function, networks))], "The fastest each time.")


def _wrong_choice(function: object, networks: tuple) -> str | None:
    cases = [{"num_bytes": size, "world_size": n, "alpha_s": alpha_s, "beta_s": 1 / (speed * GB)}
             for n, size, alpha_s, speed in networks]
    for (n, size, alpha_s, speed), case, got in zip(networks, cases, answers(function, cases, "a name"), strict=True):
        name = f"{n} ranks, {size:,.0f} bytes, {1e6 * alpha_s:g} us, {speed} GB/s"
        if isinstance(got, Raised):
            return got.told_of(f"{name}: the function")
        if got not in CHOICES:
            return f"{name}: one of {', '.join(CHOICES)} is asked for, not {shown(got)}"
        times = {choice: _seconds(choice, **case) for choice in CHOICES}
        if times[got] > min(times.values()) * (1 + CLOSE):
            fastest = min(times, key=times.get)
            return f"{name}: {got} takes {1e6 * times[got]:,.1f} us, but {fastest} {1e6 * times[fastest]:,.1f}"
    return None


def _seconds(choice: str, num_bytes: float, world_size: int, alpha_s: float, beta_s: float) -> float:
    """By formula, which is what the virtual clock plays: tests/predict/test_algorithms.py."""
    elements = 1600 * 64 * world_size                   # all chunks and halves divide it
    name = f"{choice.replace(' ', '_').replace('-', '_')}_all_reduce"
    return cost(name, elements, world_size, num_bytes / elements).seconds(network(alpha_s, beta_s))
