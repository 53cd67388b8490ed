"""Run a learner's collective: played on the virtual clock for its cost, and on gloo for its values.

It is given a mesh that knows what the exercise allows, and nothing else.  Both
runs are in other processes, where what the course has written itself cannot be imported.
"""
from __future__ import annotations

import pickle
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from helpers.checks.elsewhere import FORBIDDEN, Raised, elsewhere, words_for
from helpers.checks.verdict import CheckFailed, shown
from helpers.facts.errors import BadValue
from helpers.facts.network import network
from helpers.run import parcel
from helpers.run.launch import RankFailed, RankHung
from helpers.run.mesh import Mesh, run_on_gloo
from helpers.run.virtual import play

OWN = (*FORBIDDEN, "helpers.run.collectives", "helpers.run.trees", "helpers.run.doubling", "helpers.run.pipelined_ring")
ALL_CALLS = ("send", "recv", "exchange", "isend", "irecv", "add")
GLOO_DEADLINE_S = 10.0


@dataclass(frozen=True)
class Case:
    """One run: what each rank holds, and what else the function is given."""

    tensors: list[list[float]]          # by rank
    args: tuple = ()
    calls: tuple[str, ...] = ALL_CALLS  # of the mesh
    hint: str = ""                      # how to read a wrong value

    @property
    def world_size(self) -> int:
        return len(self.tensors)

    @property
    def num_bytes(self) -> int:
        return 8 * len(self.tensors[0])         # float64


@dataclass(frozen=True)
class Outcome:
    """What became of it; lists are by rank."""

    held: list[list[float]]             # the tensor afterwards
    returned: list[Any]                 # lists of numbers, None, or words about anything else
    sent: list[float]                   # bytes
    ways: set[tuple[int, int]]          # source and destination of all messages
    messages: float                     # one after another, if latency is all that counts
    tensors_moved: float                # full tensors, one after another, if bandwidth is all that counts


def outcomes(function: object, cases: list[Case]) -> list[Outcome | Raised]:
    """Play the function on each case."""
    return elsewhere(_play, function, cases, OWN)


def _play(function: Callable, case: Case) -> Outcome | Raised:
    try:
        slow_start, slow_link = (play(_on_mesh, case.world_size, function, case, network=net, traced=True)
                                 for net in (network(1, 0), network(0, 1 / case.num_bytes)))
    except (Exception, SystemExit) as error:
        return Raised(_in_line(words_for(error)))
    held, returned = zip(*slow_start.results, strict=True)
    ways = {(span.rank, int(span.label.removeprefix("to "))) for span in slow_start.trace if span.kind == "send"}
    return Outcome(list(held), list(returned), [wire.sent for wire in slow_start.wire], ways, slow_start.time_s,
                   slow_link.time_s)


def on_gloo(function: object, case: Case) -> Outcome | Raised:
    """Run the function on real ranks; only what is held and returned is filled in."""
    try:
        results = run_on_gloo(_over_there, case.world_size, parcel.pack(function), case,
                              timeout_s=GLOO_DEADLINE_S).results
    except (RankFailed, RankHung, ValueError) as error:
        return Raised(f"on real ranks: {error}")
    except Exception as error:
        raise CheckFailed(f"the function cannot be sent to another process: {shown(error)}") from None
    held, returned = zip(*results, strict=True)
    return Outcome(list(held), list(returned), [], set(), 0, 0)


def _over_there(mesh: Mesh, sent: bytes, case: Case) -> tuple[list[float], Any]:
    for name in OWN:
        sys.modules[name] = None
    return _on_mesh(mesh, pickle.loads(sent), case)


def _on_mesh(mesh: Mesh, function: Callable, case: Case) -> tuple[list[float], Any]:
    tensor = torch.tensor(case.tensors[mesh.rank], dtype=torch.float64)
    returned = function(Allowed(mesh, case.calls), tensor, *case.args)
    if isinstance(returned, torch.Tensor):
        return tensor.tolist(), returned.tolist()
    return tensor.tolist(), returned if returned is None else shown(returned)


class Allowed:
    """A mesh with some of its calls only."""

    def __init__(self, mesh: Mesh, calls: tuple[str, ...]):
        self.rank, self.world_size = mesh.rank, mesh.world_size
        for name in ALL_CALLS:
            setattr(self, name, getattr(mesh, name) if name in calls else _refuse(name, calls))


def _refuse(name: str, calls: tuple[str, ...]) -> Callable:
    def refused(*args, **kwargs):
        raise BadValue(f"this exercise allows {', '.join(calls)}, not {name}")

    return refused


def _in_line(words: str) -> str:
    return words.replace("raised Deadlock: nobody can go on\n ", "hangs:")
