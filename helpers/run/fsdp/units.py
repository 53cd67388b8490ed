"""Cut a stack of blocks into FSDP2 units, and watch what a rank holds during a step.

    shard(model, num_units=4)                    with watched(model) as moments:
                                                     model(inputs).sum().backward()

A moment ends where a block's forward or backward does.  Its peak is the kernel's: the
most resident memory since the moment before (`VmHWM`), over that at the block's entry.

Source: PyTorch documentation, `fully_shard`; Linux, proc_pid_status(5) and `clear_refs` in proc(5).
"""
from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from statistics import median_low

import torch
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard

from helpers.facts.errors import BadValue


@dataclass(frozen=True)
class Moment:
    """What a rank held at most, over what it held before the step, while a block computed."""

    phase: str              # "forward" or "backward"
    block: int
    peak_bytes: int


def shard(model: nn.Sequential, num_units: int, **options) -> nn.Sequential:
    """Shard a stack of blocks as `num_units` units of equally many blocks; options are those of `fully_shard`."""
    if num_units < 1 or len(model) % num_units:
        raise BadValue(f"num_units is a divisor of the {len(model)} blocks, not {num_units!r}")
    size = len(model) // num_units
    if num_units > 1:
        for first in range(0, len(model), size):
            fully_shard(list(model[first:first + size]), **options)
    return fully_shard(model, **options)


@contextmanager
def watched_bytes(blocks: nn.Sequential) -> Iterator[list[Moment]]:
    """Note a moment for each block's forward and each block's backward; read the list after the block."""
    if sys.platform != "linux":
        raise OSError("only Linux tells a process's peak from now on; run this in Binder, Docker or WSL 2")
    gc.collect()
    before, moments = _status("VmRSS"), []
    _forget_peak()

    def note(phase: str, block: int) -> None:
        moments.append(Moment(phase, block, _status("VmHWM") - before))
        _forget_peak()

    def after_forward(block: int, output: Tensor) -> None:
        note("forward", block)
        if block + 1 < len(blocks):         # the gradient of what it gave has come: the next block's backward is over
            output.register_hook(lambda _: note("backward", block + 1))

    with ExitStack() as hooks:
        for block, module in enumerate(blocks):
            hooks.enter_context(module.register_forward_hook(
                lambda _module, _inputs, output, block=block: after_forward(block, output)))
        yield moments
    note("backward", 0)


def peak_of(moments: list[Moment], phase: str = "") -> int:
    """The most bytes of all moments, or of those of a phase."""
    return max(moment.peak_bytes for moment in moments if phase in ("", moment.phase))


def typical_peak(ranks: list[list[Moment]], phase: str = "") -> int:
    """The most bytes of all moments, or of those of a phase, on the median rank."""
    return median_low(peak_of(moments, phase) for moments in ranks)


def watch_steps(model: nn.Sequential, width: int, num_steps: int = 4) -> list[Moment]:
    """Train with Adam; the moments of the median step.

    The first does not count, since much happens for the first time.  gloo's threads may let go of a message late, or
    be late with the next one, so single steps may hold more or less.
    """
    optimizer, steps = torch.optim.Adam(model.parameters(), foreach=False), []
    for _ in range(num_steps):
        with watched_bytes(model) as moments:
            model(torch.ones(1, width)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        steps.append(moments)
    return sorted(steps[1:], key=peak_of)[(num_steps - 1) // 2]


def _status(field: str) -> int:
    with open("/proc/self/status") as status:
        return next(1024 * int(line.split()[1]) for line in status if line.startswith(field))


def _forget_peak() -> None:
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
