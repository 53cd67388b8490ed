"""Run a learner's collective: played on the virtual clock for its cost, and on gloo for its values.

It is given a mesh that knows what the exercise allows, and nothing else.  Both
runs are in other processes, where what the course has written itself cannot be imported.
"""
from __future__ import annotations

import contextlib
import inspect
import os
import pickle
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy
import torch

from helpers.checks.judge import forbidden
from helpers.checks.judge.other_process import Raised, in_other_process, pickled, words_for
from helpers.checks.judge.real_ranks import CHECKS
from helpers.checks.judge.verdict import shown
from helpers.facts.errors import BadValue
from helpers.facts.network import Network, network
from helpers.run.collectives import Deadlock, Mesh, Played, VirtualMesh, play, run_on_gloo
from helpers.run.launch import RankFailed, RankHung

ALL_CALLS = ("send", "recv", "exchange", "isend", "irecv", "add")
GLOO_DEADLINE_S = 10.0
MOST_ELEMENTS = 10_000          # of a tensor that is looked at


@dataclass(frozen=True)
class MeshCase:
    """One run: what each rank holds, and what else the function is given."""

    tensors: list[list[float]]          # by rank
    args: tuple = ()
    calls: tuple[str, ...] = ALL_CALLS  # of the mesh
    hint: str = ""                      # how to read a wrong value

    @property
    def world_size(self) -> int:
        """How many ranks there are."""
        return len(self.tensors)

    @property
    def num_bytes(self) -> int:
        """Bytes of one rank's tensor, in float64."""
        return 8 * len(self.tensors[0])         # float64


@dataclass(frozen=True)
class MeshOutcome:
    """What became of it; lists are by rank."""

    held: list[list[float]]             # the tensor afterwards
    returned: list[Any]                 # lists of numbers, None, or words about anything else
    sent: list[float]                   # bytes
    ways: set[tuple[int, int]]          # source and destination of all messages
    messages: float                     # one after another, if latency is all that counts
    tensors_moved: float                # full tensors, one after another, if bandwidth is all that counts


def outcomes(function: object, cases: list[MeshCase]) -> list[MeshOutcome | Raised]:
    """Play the function on each case."""
    return in_other_process(_play, function, cases, forbidden.COLLECTIVES)


def _play(function: Callable, case: MeshCase) -> MeshOutcome | Raised:
    networks = network(1, 0), network(0, 1 / case.num_bytes)
    try:
        slow_start, slow_link = (_quietly(function, case, net) for net in networks)
    except BaseException as error:      # also what would end this process
        return Raised(_in_line(error) + _place(error, function))
    held, returned = zip(*slow_start.results, strict=True)
    first, second = (str(([row for row, _ in played.results], played.wire)) for played in (slow_start, slow_link))
    if first != second:                 # as text, since nan is not equal to nan
        return Raised("called again, it holds or sends something else: does it keep anything from call to call?")
    ways = {(span.rank, int(span.label.removeprefix("to "))) for span in slow_start.trace if span.kind == "send"}
    return MeshOutcome(list(held), list(returned), [wire.sent for wire in slow_start.wire], ways, _end_s(slow_start),
                   _end_s(slow_link))


def _quietly(function: Callable, case: MeshCase, net: Network) -> Played:
    """All ranks of all plays are one process, so what they print would be said to be rank 0's."""
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
        return play(_on_mesh, case.world_size, function, case, network=net, traced=True)


def _end_s(played: Played) -> float:
    """When the last message has arrived, also if nobody waited for it."""
    return max([played.time_s, *(span.end for span in played.trace)])


def on_gloo(function: object, case: MeshCase) -> MeshOutcome | Raised:
    """Run the function on real ranks; only what is held and returned is filled in."""
    try:
        results = run_on_gloo(_over_there, case.world_size, pickled(function), case,
                              timeout_s=GLOO_DEADLINE_S).results
    except (RankFailed, RankHung) as error:
        return Raised(f"on real ranks: {error.without(CHECKS)}")
    held, returned = zip(*results, strict=True)
    return MeshOutcome(list(held), list(returned), [], set(), 0, 0)


def _over_there(mesh: Mesh, sent: bytes, case: MeshCase) -> tuple[list[float], Any]:
    with forbidden.forbidding(forbidden.COLLECTIVES):
        return _on_mesh(mesh, pickle.loads(sent), case)


def _on_mesh(mesh: Mesh, function: Callable, case: MeshCase) -> tuple[list[float], Any]:
    tensor = torch.tensor(case.tensors[mesh.rank], dtype=torch.float64)
    returned = function(Allowed(mesh, case.calls), tensor, *case.args)
    return _numbers(tensor), None if returned is None else _numbers(returned)


def _numbers(value: object) -> list | str:
    """The elements of a tensor; words about all else, and about a tensor too large to be an answer."""
    if not isinstance(value, torch.Tensor):
        return shown(value)
    if torch.Tensor.numel(value) > MOST_ELEMENTS:
        return f"a tensor of {torch.Tensor.numel(value):,} elements"
    if value.layout != torch.strided or value.is_meta:
        return shown(value)
    return torch.Tensor.tolist(value)


class Allowed:
    """A mesh with some of its calls only."""

    def __init__(self, mesh: Mesh, calls: tuple[str, ...]):
        self.rank, self.world_size = mesh.rank, mesh.world_size
        for name in ALL_CALLS:
            setattr(self, name, _of(mesh, name) if name in calls else _refuse(name, calls))


def _of(mesh: Mesh, name: str) -> Callable:
    """A call of a mesh; of a virtual one no bound method, whose `__self__` has all calls, and the clock.

    The clock asks a tensor for its size, so no class of the learner's may answer.
    """
    call = getattr(mesh, name)
    if not isinstance(mesh, VirtualMesh):
        return call                     # so that a rank which hangs is shown at the learner's line
    signature = inspect.signature(call)

    def called(*args, **kwargs):
        for name, value in signature.bind(*args, **kwargs).arguments.items():
            if name not in ("to", "source") and type(value) not in (torch.Tensor, numpy.ndarray):
                raise BadValue(f"a mesh sends, receives and adds tensors, not {shown(value)}")
        return call(*args, **kwargs)

    return called


def _refuse(name: str, calls: tuple[str, ...]) -> Callable:
    def refused(*args, **kwargs):
        raise BadValue(f"this exercise allows {', '.join(calls)}, not {name}")

    return refused


def _in_line(error: BaseException) -> str:
    if isinstance(error, Deadlock):
        return "hangs: " + "\n  ".join(error.lines) if error.waiting and error.lines else str(error)
    return words_for(error)


def _place(error: BaseException, function: Callable) -> str:
    """The line of the learner's cell that it was raised from, if there is one."""
    file = getattr(getattr(function, "__code__", None), "co_filename", None)
    frames = [one for one in traceback.extract_tb(error.__traceback__) if one.filename == file]
    if not frames or isinstance(error, NotImplementedError):
        return ""
    return f" (line {frames[-1].lineno}, in {frames[-1].name})"
