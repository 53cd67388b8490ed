"""Run a learner's function on real ranks, where what the exercise forbids cannot be imported."""
from __future__ import annotations

import contextlib
import os
import pickle
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from torch.distributed import distributed_c10d

from helpers.checks.judge.forbidden import forbidding
from helpers.checks.judge.other_process import Raised, about_stub_or_import, pickled
from helpers.facts.measured import Wire
from helpers.facts.trace import Trace
from helpers.run.launch import RankFailed, RankHung, Run, launch
from helpers.run.measure import meters, recorder

DEADLINE_S = 15.0
IN_STEP_S = 2.0                 # for ranks to be done with the same case
CHECKS = Path(__file__).parent.parent           # whose lines no learner wants to read


def on_ranks(job: Callable[[Callable, int, int, Any], Any], function: object, case: object, world_size: int,
             forbidden: tuple[str, ...]) -> Run | Raised:
    """A run of `job(function, rank, world_size, case)`, or words about what went wrong with it."""
    (run,) = on_ranks_together(job, function, [case], world_size, forbidden)
    return run


def on_ranks_together(job: Callable[[Callable, int, int, Any], Any], function: object, cases: list,
                      world_size: int, forbidden: tuple[str, ...]) -> list[Run | Raised]:
    """A run of each case up to the first that fails, all of them in one launch; each case gets the function anew.

    If a rank is done with a case and another is not, ranks would disturb each other in the next one: the case is run
    by itself then, whose words are the right ones.
    """
    sent = pickled(function)
    try:
        yielded = launch(_on_each_rank, world_size, job, sent, cases, forbidden, timeout_s=DEADLINE_S).results
        failed = None
    except (RankFailed, RankHung) as error:
        yielded, failed = [record.yielded for record in error.records], error
    runs = _by_case(yielded)
    if len(runs) == len(cases):
        return runs
    if (len(cases) > 1 and len(set(map(len, yielded))) > 1) or not failed:
        return [*runs, on_ranks(job, function, cases[len(runs)], world_size, forbidden)]
    return [*runs, Raised(_words(failed, forbidden))]


def runs_in_order(job: Callable[[Callable, int, int, Any], Any], function: object, cases: Sequence,
                  forbidden: tuple[str, ...]) -> Iterator[tuple[Any, Run | Raised]]:
    """Each case with its run, up to the first that fails.

    Each case has a `world_size`; those that have the same one share a launch, when the first of them is asked for.
    """
    done: dict[Any, Run | Raised] = {}
    for case in cases:
        if case not in done:
            alike = [other for other in cases if other.world_size == case.world_size]
            done |= zip(alike, on_ranks_together(job, function, alike, case.world_size, forbidden), strict=False)
        yield case, done[case]
        if isinstance(done[case], Raised):
            return


def judged_on_ranks(job: Callable[[Callable, int, int, Any], Any], function: object, cases: tuple,
                    forbidden: tuple[str, ...], wrong: Callable[[Run, Any], str | None],
                    ) -> tuple[dict[Any, Run], str | None]:
    """Runs of the cases up to the first that fails or is wrong, so that one deadline is long enough; what is wrong.

    Each case has a `world_size`.
    """
    runs = {}
    for case, run in runs_in_order(job, function, cases, forbidden):
        if isinstance(run, Raised):
            return runs, run.words
        runs[case] = run
        if words := wrong(run, case):
            return runs, words
    return runs, None


def too_little_sent(run: Run, least: float) -> str | None:
    """Whoever has the others' numbers without their bytes has taken them from the check."""
    sent = max(wire.sent for wire in run.wire)
    if run.wire[0].counted_by != "kernel" or sent >= 0.9 * least:
        return None
    return f"no rank sends more than {sent:,} bytes, and {least:,.0f} are needed: where are the others' numbers from?"


def _words(error: RankFailed | RankHung, forbidden: tuple[str, ...]) -> str:
    if isinstance(error, RankFailed):
        for raised in error.errors:
            if words := about_stub_or_import(raised, forbidden):
                return words
    return f"on real ranks: {error.without(CHECKS)}"


def _on_each_rank(rank: int, world_size: int, job: Callable, sent: bytes, cases: list, forbidden: tuple[str, ...],
                  ) -> Iterator[tuple[Any, Wire, Trace]]:
    """Yields for each case the job's result, bytes on the wire, and calls of torch.distributed."""
    for number, case in enumerate(cases):
        if number and not _all_are_done(number, world_size):
            return
        before = len(recorder.spans())
        recorder.count_anew()
        with forbidding(forbidden), _silence(), meters.wire() as wire:
            result = job(pickle.loads(sent), rank, world_size, case)
        yield result, wire, recorder.spans()[before:]


def _all_are_done(number: int, world_size: int) -> bool:
    """Whether every rank comes to the case soon; by the store, since a call of a collective could meet a learner's."""
    deadline, come = time.monotonic() + IN_STEP_S, 0
    with contextlib.suppress(Exception):                # whatever a program has done to the group
        store = distributed_c10d._get_default_store()
        come = store.add(f"case {number}", 1)
        while come < world_size and time.monotonic() < deadline:
            time.sleep(0.001)
            come = store.add(f"case {number}", 0)
    return come >= world_size


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """What a learner's function prints is not the check's."""
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
        yield


def _by_case(yielded: list[Sequence[tuple[Any, Wire, Trace]]]) -> list[Run]:
    """A run of each case that all ranks are done with: results, bytes and calls."""
    runs = []
    for ranks in zip(*yielded, strict=False):
        results, wires, traces = zip(*ranks, strict=True)
        runs.append(Run(list(results), [], [span for trace in traces for span in trace], list(wires), [], 0.0))
    return runs
