"""A pipeline schedule: for every rank, what it does, in order.

    F  forward
    B  backward            gradient for the input and for the weights
    I  backward, input     what the stage before waits for
    W  backward, weights   what nobody waits for                        B = I, then W

A schedule holds no times: bubbles are not written down, they appear when `predict.simulate` or `run.pipeline` plays it.
A model is cut into stages 0 .. num_stages - 1; stage s feeds stage s + 1.  A rank may hold several stages, and two
ranks may hold the same one: who computes what is read from the actions.

Letters, and `2F5` for the forward of microbatch 5 on stage 2, are those of torch.distributed.pipelining.
The zero-bubble paper (arXiv:2401.10241) writes B for I.
"""
from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from helpers.facts.errors import BadValue

KINDS, PAIR = ("F", "B", "I", "W"), "F&B"
_ACTION = re.compile(r"(\d+)([FBIW])(\d+)")
_PAIR = re.compile(r"\(([^();]*);([^();]*)\)OVERLAP_F_B")   # as PyTorch writes it


class Action(NamedTuple):
    """One kind of work on one microbatch in one stage; `str` writes it as "2F5"."""

    kind: str                   # "F", "B", "I" or "W"
    stage: int
    microbatch: int

    @property
    def parts(self) -> tuple[Action, ...]:
        """This action alone: what `Pair.parts` is for two."""
        return (self,)

    def __str__(self) -> str:
        return f"{self.stage}{self.kind}{self.microbatch}"


class Pair(NamedTuple):
    """A forward and a backward that overlap: both need their inputs at its start, and both are done at its end.

    `str` writes it as "(0F4;7B1)OVERLAP_F_B", as PyTorch does.
    """

    forward: Action
    backward: Action
    kind = PAIR

    @property
    def stage(self) -> int:
        """The stage of the forward."""
        return self.forward.stage

    @property
    def parts(self) -> tuple[Action, ...]:
        """The forward, then the backward."""
        return (self.forward, self.backward)

    def __str__(self) -> str:
        return f"({self.forward};{self.backward})OVERLAP_F_B"


Step = Action | Pair


@dataclass(frozen=True)
class Schedule:
    """For each rank what it does, in order: `steps[rank]`; immutable, without times."""

    name: str
    steps: tuple[tuple[Step, ...], ...]
    num_stages: int
    num_microbatches: int

    @property
    def num_ranks(self) -> int:
        """The number of ranks: each has a row of steps."""
        return len(self.steps)

    @cached_property
    def rank_of(self) -> dict[Action, int]:
        """Who does what, {action: rank}; the keys are all actions of the schedule."""
        return {action: rank for rank, steps in enumerate(self.steps) for step in steps for action in step.parts}

    @cached_property
    def stages_of(self) -> tuple[tuple[int, ...], ...]:
        """The stages that each rank holds, by rank, in ascending order."""
        return tuple(tuple(sorted({a.stage for step in steps for a in step.parts})) for steps in self.steps)

    @cached_property
    def holders(self) -> tuple[tuple[int, ...], ...]:
        """The ranks that hold each stage, by stage: two where two directions run through the same pipeline."""
        return tuple(tuple(r for r, stages in enumerate(self.stages_of) if s in stages) for s in range(self.num_stages))


def dependencies(action: Action, schedule: Schedule) -> list[Action]:
    """The actions of `schedule` that must end before `action` may start.

    F needs F of the stage before; B and I need their own F, and B or I of the next stage; W needs its own I.
    The only place in the course that knows this: simulator, executor and checks all ask here.
    """
    kind, s, m = action
    if kind == "F":
        needed = [Action("F", s - 1, m)]
    elif kind == "W":
        needed = [Action("I", s, m)]
    else:
        needed = [Action("F", s, m), Action("B", s + 1, m), Action("I", s + 1, m)]
    return [a for a in needed if a in schedule.rank_of]


def parse(text: str) -> Step:
    """The step that `str` writes so: "2F5" is an `Action`, "(0F4;7B1)OVERLAP_F_B" a `Pair`.

    Raises `BadValue` for any other text.
    """
    if match := _PAIR.fullmatch(text.strip()):
        return Pair(*map(parse, match.groups()))
    if match := _ACTION.fullmatch(text.strip()):
        stage, kind, microbatch = match.groups()
        return Action(kind, int(stage), int(microbatch))
    raise BadValue(f"{text.strip()!r} is no action: write stage, kind (F, B, I or W) and microbatch, as in 2F5; or two "
                   "that overlap, as in (0F4;7B1)OVERLAP_F_B")
