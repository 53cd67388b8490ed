"""The messages of a schedule: a stage's output goes to the rank that needs it, its gradient comes back.

Nobody waits for a send, and a receive is posted one step ahead, so no order that `validate` accepts can deadlock.
A message's tag says what it is, so none can be taken for another, as long as a program's own messages of tags below
`num_tags` in the same process group are over before.

gloo cannot tell whether a send has arrived without waiting for it.  The schedule can: a rank whose result of some step
is here has had what it took for that step and for all before it.
"""
from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor

from helpers.facts.schedules import Action, Schedule, dependencies
from helpers.run.process_group import checked_group


class StageMessages:
    """One rank's messages while a schedule is played once; its ranks are those within `process_group`; None: all."""

    def __init__(self, schedule: Schedule, rank: int, boundary: tuple[int, ...], dtype: torch.dtype,
                 process_group: dist.ProcessGroup | None = None):
        self.rank, self.rank_of, self.boundary, self.dtype = rank, schedule.rank_of, boundary, dtype
        self.num_microbatches, self.process_group = schedule.num_microbatches, checked_group(process_group)
        self.num_tags = 2 * schedule.num_stages * schedule.num_microbatches
        self.number = {action: number for steps in schedule.steps for number, step in enumerate(steps)
                       for action in step.parts}
        self.source = {action: source for action in schedule.rank_of for source in dependencies(action, schedule)
                       if source.stage != action.stage}         # whose result an action takes
        self.taker = {source: action for action, source in self.source.items()}
        self.here: dict[Action, Tensor] = {}                    # made by this rank for this rank
        self.coming: dict[Action, tuple[dist.Work, Tensor]] = {}
        self.sending: dict[Action, tuple[dist.Work, Tensor]] = {}

    def expect(self, action: Action) -> None:
        """Post the receive of what the action takes, unless it comes from this rank or is posted already."""
        source = self.source.get(action)
        if source and self.rank_of[source] != self.rank and source not in self.coming:
            buffer = torch.empty(self.boundary, dtype=self.dtype)
            self.coming[source] = dist.irecv(buffer, group=self.process_group, group_src=self.rank_of[source],
                                             tag=self.tag(source)), buffer

    def take(self, action: Action) -> Tensor | None:
        """What the neighbouring stage made for this action: waits for it."""
        source = self.source.get(action)
        if source is None or source in self.here:
            return self.here.pop(source, None)
        work, buffer = self.coming.pop(source)
        work.wait()
        self.let_go(self.rank_of[source], self.number[source])
        return buffer

    def let_go(self, rank: int, number: int) -> None:
        """Keep nothing any longer that `rank` took for its steps up to `number`."""
        takers = [(made, self.taker[made]) for made in self.sending]
        for made in [made for made, taker in takers if self.rank_of[taker] == rank and self.number[taker] <= number]:
            self.sending.pop(made)[0].wait()

    def give(self, action: Action, tensor: Tensor | None) -> None:
        """Send what the action made to the rank that needs it, or keep it for this one."""
        taker = self.taker.get(action)
        if taker and self.rank_of[taker] == self.rank:
            self.here[action] = tensor
        elif taker:
            tensor = tensor.contiguous()
            self.sending[action] = dist.isend(tensor, group=self.process_group, group_dst=self.rank_of[taker],
                                              tag=self.tag(action)), tensor

    def finish(self) -> None:
        """Wait until all that was sent has arrived."""
        while self.sending:
            self.sending.popitem()[1][0].wait()

    def tag(self, action: Action) -> int:
        """One number for each message of the schedule."""
        return 2 * (action.stage * self.num_microbatches + action.microbatch) + (action.kind != "F")
