"""Checks of exercise set 02: collectives that a learner has built from send and receive.

Values and cost are worth points of their own: a right sum that was bought with
too many bytes or messages gets the first, and is told so.  Inputs explain
themselves: where sums are formed, element j of rank r is (j+1) 10**r.
"""
from __future__ import annotations

from helpers.checks.collectives.mesh_runs import ALL_CALLS, MeshCase
from helpers.checks.collectives.properties import (
    holds_values,
    judge,
    judge_unseen,
    returns,
    sends_at_most,
    sends_to,
    tensors_at_most,
)
from helpers.checks.judge.verdict import score, unseen

NO_EXCHANGE = ("send", "recv", "add")


def check_all_gather(function: object) -> float:
    """3 points: values, cost and direction of an all-gather on 2, 3 and 4 ranks."""
    cases = [_own_chunk(n, 2) for n in (2, 3, 4)]
    return score(judge(function, cases, ("every rank has all chunks", holds_values(_summed)),
                       ("N-1 messages, (N-1)/N T bytes", sends_at_most(_all_but_one_chunk, _others)),
                       ("each rank sends to the one below only", sends_to(lambda rank, n: (rank - 1) % n))),
                 "A ring has two directions, and both work.")


@unseen
def check_all_gather_unseen(function: object) -> float:
    """1 point: other sizes, and real ranks."""
    return score(judge_unseen(function, "other numbers of ranks", [_own_chunk(1, 3), _own_chunk(7, 1)],
                              _own_chunk(3, 4), holds_values(_summed)), "It holds on gloo, too.")


def check_reduce_scatter(function: object) -> float:
    """3 points: chunks of one length, ragged ones, cost."""
    even, ragged = [_digits(2, 4), _digits(4, 8)], [_digits(2, 5), _digits(4, 7), _digits(4, 3), _digits(3, 8)]
    return score(judge(function, even, ("chunks of one length", returns(_scattered)))
                 + judge(function, ragged, ("ragged chunks", returns(_scattered)),
                         ("N-1 messages of a chunk", sends_at_most(_longest_chunks, _others))),
                 "No rank sends more than it must.")


@unseen
def check_reduce_scatter_unseen(function: object) -> float:
    """1 point: other sizes, and real ranks."""
    return score(judge_unseen(function, "other sizes", [_digits(1, 3), _digits(6, 8), _digits(7, 2)], _digits(3, 5),
                              returns(_scattered)), "It holds on gloo, too.")


def check_broadcast(function: object) -> float:
    """2 points: values from any source; ceil(log2 N) tensors one after another."""
    cases = [_from(n, source) for n, source in ((2, 1), (4, 0), (4, 2), (5, 4), (8, 3))]
    return score(judge(function, cases, ("every rank has the source's tensor", holds_values(_broadcast)),
                       ("ceil(log2 N) sends", tensors_at_most(_doublings))),
                 "Who has the data doubles in each step.")


@unseen
def check_broadcast_unseen(function: object) -> float:
    """1 point: other sizes, and real ranks."""
    return score(judge_unseen(function, "any source, any number of ranks",
                              [_from(1, 0), _from(7, 6), _from(16, 9), _from(13, 1)], _from(3, 1),
                              holds_values(_broadcast), tensors_at_most(_doublings)), "It holds on gloo, too.")


def check_mended_all_reduce(function: object) -> float:
    """2 points: an all-reduce by swaps, with send and recv alone, ends and waits as little as it can."""
    cases = [_digits(n, 2, NO_EXCHANGE) for n in (2, 4, 8)]
    return score(judge(function, cases, ("it ends, with the sum everywhere", holds_values(_summed)),
                       ("2 log2 N messages", sends_at_most(_one_tensor_a_swap, lambda case: 2 * _doublings(case)))),
                 "In every pair one sends while the other receives.")


@unseen
def check_mended_all_reduce_unseen(function: object) -> float:
    """1 point: more ranks, and real ones."""
    return score(judge_unseen(function, "16 ranks, and gloo", [_digits(16, 1, NO_EXCHANGE)],
                              _digits(4, 3, NO_EXCHANGE), holds_values(_summed)), "It holds on gloo, too.")


def _own_chunk(n: int, length: int) -> MeshCase:
    return MeshCase([[r + 1.0 if c == r else 0.0 for c in range(n) for _ in range(length)] for r in range(n)],
                hint="Rank r had r+1 in its own chunk, and 0 in the others.")


def _digits(n: int, length: int, calls: tuple[str, ...] = ALL_CALLS) -> MeshCase:
    return MeshCase([[(j + 1) * 10.0**r for j in range(length)] for r in range(n)], calls=calls,
                hint="Element j of rank r was (j+1) 10**r: digit r of a sum says what rank r gave.")


def _from(n: int, source: int) -> MeshCase:
    return MeshCase([[r + 1.0, 10.0 * (r + 1)] for r in range(n)], (source,), hint="Rank r had r+1 and 10 (r+1).")


def _summed(case: MeshCase) -> list[list[float]]:
    """Also what is gathered, where every other rank has zeros."""
    return [[sum(column) for column in zip(*case.tensors, strict=True)]] * case.world_size


def _scattered(case: MeshCase) -> list[list[float]]:
    size, num_longer = divmod(len(case.tensors[0]), case.world_size)
    starts = [r * size + min(r, num_longer) for r in range(case.world_size + 1)]
    return [_summed(case)[0][starts[r]:starts[r + 1]] for r in range(case.world_size)]


def _broadcast(case: MeshCase) -> list[list[float]]:
    return [case.tensors[case.args[0]]] * case.world_size


def _others(case: MeshCase) -> int:
    return case.world_size - 1


def _doublings(case: MeshCase) -> int:
    return (case.world_size - 1).bit_length()


def _all_but_one_chunk(case: MeshCase) -> float:
    return case.num_bytes * _others(case) / case.world_size


def _longest_chunks(case: MeshCase) -> float:
    return 8 * _others(case) * -(-len(case.tensors[0]) // case.world_size)


def _one_tensor_a_swap(case: MeshCase) -> float:
    return case.num_bytes * _doublings(case)
