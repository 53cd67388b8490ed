"""Run a learner's function on real ranks, where what the exercise forbids cannot be imported."""
from __future__ import annotations

import contextlib
import os
import pickle
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from helpers.checks.judge.forbidden import forbid
from helpers.checks.judge.other_process import Raised, about_stub_or_import, pickled
from helpers.facts.measured import Wire
from helpers.facts.trace import Trace
from helpers.run.launch import RankFailed, RankHung, Run, launch
from helpers.run.measure import meters, recorder

DEADLINE_S = 15.0
CHECKS = Path(__file__).parent.parent           # whose lines no learner wants to read


def on_ranks(job: Callable[[Callable, int, int, Any], Any], function: object, case: object, world_size: int,
             forbidden: tuple[str, ...]) -> Run | Raised:
    """A run of `job(function, rank, world_size, case)`, or words about what went wrong with it."""
    (run,) = on_ranks_together(job, function, [case], world_size, forbidden)
    return run


def on_ranks_together(job: Callable[[Callable, int, int, Any], Any], function: object, cases: list,
                      world_size: int, forbidden: tuple[str, ...]) -> list[Run | Raised]:
    """A run of each case up to the first that fails, all of them in one launch; each case gets the function anew."""
    sent = pickled(function)
    try:
        run = launch(_on_each_rank, world_size, job, sent, cases, forbidden, timeout_s=DEADLINE_S)
        return _by_case(run.results)
    except (RankFailed, RankHung) as error:
        return [*_by_case([record.yielded for record in error.records]), Raised(_words(error, forbidden))]


def judged_on_ranks(job: Callable[[Callable, int, int, Any], Any], function: object, cases: tuple,
                    forbidden: tuple[str, ...], wrong: Callable[[Run, Any], str | None],
                    ) -> tuple[dict[Any, Run], str | None]:
    """Runs of the cases up to the first that fails or is wrong, so that one deadline is long enough; what is wrong.

    Each case has a `world_size`; neighbours that have the same one share a launch.
    """
    runs = {}
    for world_size, alike in groupby(cases, key=lambda case: case.world_size):
        together = list(alike)
        for case, run in zip(together, on_ranks_together(job, function, together, world_size, forbidden), strict=False):
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
    forbid(forbidden)
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
        for case in cases:
            before = len(recorder.spans())
            with meters.wire() as wire:
                result = job(pickle.loads(sent), rank, world_size, case)
            yield result, wire, recorder.spans()[before:]


def _by_case(yielded: list[Sequence[tuple[Any, Wire, Trace]]]) -> list[Run]:
    """A run of each case that all ranks are done with: results, bytes and calls."""
    runs = []
    for ranks in zip(*yielded, strict=False):
        results, wires, traces = zip(*ranks, strict=True)
        runs.append(Run(list(results), [], [span for trace in traces for span in trace], list(wires), [], 0.0))
    return runs
