"""What is alive when: every allocation of a step, from torch's profiler.

    with residency(zero.held()) as alive:           # what is there already, by kind
        loss = zero(x).sum()
        loss.backward()
        zero.step()
    alive.bytes["gradient"]                         # after each allocation and each release

The profiler reports addresses and sizes.  What an address is for, code says by
`holds`, which costs nothing when nobody measures; what nobody has named is
"other": activations, and what lives for a moment.
"""
from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import accumulate

import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile, record_function

from helpers.run.measure.timeline import NODE, REST_S

HOLDS, OTHER = "holds ", "other"
ALLOCATION = "[memory]"
STEP = "Optimizer.step"
PHASES = {"backward": NODE, "step": STEP}        # after the forward, which begins the block


@dataclass
class Residency:
    """Bytes alive by kind, before the first event and after each; and the event at which each phase began."""

    bytes: dict[str, list[int]] = field(default_factory=dict)
    phases: dict[str, int] = field(default_factory=dict)            # forward, backward, step

    @property
    def num_events(self) -> int:
        """How many allocations and releases there were."""
        return len(next(iter(self.bytes.values()), []))

    @property
    def peak(self) -> int:
        """The event after which most is alive."""
        return max(range(self.num_events), key=lambda event: sum(self.at(event).values()))

    @property
    def peak_bytes(self) -> int:
        """Bytes alive at the fullest moment."""
        return sum(self.at(self.peak).values())

    def at(self, event: int) -> dict[str, int]:
        """Bytes of each kind after an event; -1 is the last one."""
        return {kind: sizes[event] for kind, sizes in self.bytes.items()}


def holds(kind: str, tensor: Tensor) -> None:
    """Say what the memory of a tensor is for."""
    if torch.autograd._profiler_enabled():
        storage = tensor.untyped_storage()
        with record_function(f"{HOLDS}{kind} {storage.data_ptr()} {storage.nbytes()}"):
            pass


@contextmanager
def residency(held: dict[str, list[Tensor]]) -> Iterator[Residency]:
    """Watch a block; `held` are the tensors that live already, by kind.  Read the result after the block."""
    result = Residency()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        for kind, tensors in held.items():
            for tensor in tensors:
                holds(kind, tensor)
        yield result
        time.sleep(REST_S)
    _fill(result, _in_order(profiler.profiler.kineto_results.experimental_event_tree()))


def _in_order(tree: list) -> Iterator:
    """All events, an outer one before what it contains: by the time at which they began."""
    for event in tree:
        yield event
        yield from _in_order(event.children)


@dataclass
class _Block:
    """A piece of memory from its allocation to its release; both count events, and either may lie outside."""

    nbytes: int
    start: int = 0
    end: int | None = None
    kind: str = OTHER


def _fill(result: Residency, events: Iterator) -> None:
    blocks, live, count = [], {}, 0
    result.phases["forward"] = 0
    for event in events:
        if event.name == ALLOCATION:
            count += 1
            address, nbytes = event.extra_fields.ptr, event.extra_fields.alloc_size
            if nbytes > 0:
                live[address] = _Block(nbytes, count)
                blocks.append(live[address])
            elif address in live:
                live.pop(address).end = count
        elif event.name.startswith(HOLDS):
            kind, address, nbytes = event.name.removeprefix(HOLDS).split()
            if int(address) not in live:                    # it was there before the block
                live[int(address)] = _Block(int(nbytes))
                blocks.append(live[int(address)])
            live[int(address)].kind = kind
        elif phase := next((phase for phase, name in PHASES.items() if event.name.startswith(name)), None):
            result.phases.setdefault(phase, count)
    for kind in dict.fromkeys(block.kind for block in blocks):
        changes = [0] * (count + 2)
        for block in (b for b in blocks if b.kind == kind):
            changes[block.start] += block.nbytes
            changes[count + 1 if block.end is None else block.end] -= block.nbytes
        result.bytes[kind] = list(accumulate(changes[:-1]))
