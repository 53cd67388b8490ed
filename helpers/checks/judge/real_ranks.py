"""Run a learner's function on real ranks, where what the course has written itself cannot be imported."""
from __future__ import annotations

import contextlib
import os
import pickle
import re
from collections.abc import Callable
from typing import Any

from helpers.checks.judge.other_process import FORBIDDEN, Raised, forbid, packed
from helpers.run.launch import Run, launch
from helpers.run.launch.launcher import RankFailed, RankHung

DEADLINE_S = 15.0
OWN_DDP = (*FORBIDDEN, "helpers.run.ddp", "helpers.run.ddp_demo")
OWN_MODULES = "|".join(("ranks", "buckets", "accumulation", "means", "sampler", "sharded_adam", "gradient_shards",
                        "lending", "clipping", "wrapping", "alive", "leaks"))
OWN_FRAME = re.compile(rf'\n {{4}}File "(?:{OWN_MODULES})\.py", line [^\n]*'
                       rf'|\n {{2}}File "(?:{OWN_MODULES})\.py", line [^\n]*(?:\n {{4}}[^\n]*)?')
HALTED = re.compile(r"ModuleNotFoundError: (?:import of ([\w.]+) halted"
                    r"|No module named '([\w.]+)'; '[\w.]+' is not a package)")


def on_ranks(job: Callable[[Callable, int, int, Any], Any], function: object, case: object, world_size: int,
             forbidden: tuple[str, ...] = OWN_DDP) -> Run | Raised:
    """A run of `job(function, rank, world_size, case)`, or words about what went wrong with it."""
    try:
        return launch(_over_there, world_size, job, packed(function), case, forbidden, timeout_s=DEADLINE_S)
    except (RankFailed, RankHung) as error:
        words = OWN_FRAME.sub("", str(error))
        if used := HALTED.search(words):
            return Raised(f"uses {used[1] or used[2]}, which this exercise asks you to do without")
        unwritten = re.search(r"raised NotImplementedError$", words, re.MULTILINE)
        return Raised("is not written yet" if unwritten else f"on real ranks: {words}")


def judged_on_ranks(job: Callable[[Callable, int, int, Any], Any], function: object, cases: tuple,
                    forbidden: tuple[str, ...], wrong: Callable[[Run, Any], str | None],
                    ) -> tuple[dict[Any, Run], str | None]:
    """Runs of the cases up to the first that fails or is wrong, so that one deadline is long enough; what is wrong.

    Each case has a `world_size`.
    """
    runs = {}
    for case in cases:
        run = on_ranks(job, function, case, case.world_size, forbidden)
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


def _over_there(rank: int, world_size: int, job: Callable, sent: bytes, case: object,
                forbidden: tuple[str, ...]) -> Any:
    forbid(forbidden)
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
        return job(pickle.loads(sent), rank, world_size, case)
