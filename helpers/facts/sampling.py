"""Who draws which sample in which step, and what is wrong with it.

A right epoch of data parallel draws every sample once, on one rank, in the same
number of steps everywhere, and the next epoch draws them in another order.
"""
from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property

Draws = list[list[list[int]]]           # of one rank: the samples of each step of each epoch


@dataclass(frozen=True)
class Finding:
    kind: str                   # "same batches", "not split", "overlap", "missing", "uneven steps", "same order", ...
    words: str
    harmless: bool = False      # worth knowing, but no reason not to train

    def __str__(self) -> str:
        return f"{self.kind}: {self.words}"


@dataclass(frozen=True)
class Sampling:
    """What all ranks draw.  Properties are about the first epoch."""

    num_samples: int
    draws: tuple[Draws, ...]            # by rank
    may_leave_out: int = 0              # samples that drop_last may leave out on purpose
    items: tuple[list[int], ...] = ()   # by rank: items, such as tokens, in each step; without them, samples count

    @property
    def steps(self) -> list[int]:
        """Number of steps of each rank."""
        return [len(rank[0]) for rank in self.draws]

    @property
    def num_draws(self) -> int:
        """Of all ranks together."""
        return sum(self._times.values())

    @property
    def num_missing(self) -> int:
        """Samples that nobody draws."""
        return self.num_samples - len(self._times)

    @property
    def num_repeats(self) -> int:
        """Draws of a sample that was drawn before, by whatever rank."""
        return self.num_draws - len(self._times)

    @property
    def unique_share(self) -> float:
        """Different samples in a global batch, over samples in it; the mean over all steps."""
        batches = [self._global_batch(step) for step in range(max(self.steps, default=0))]
        return sum(len(set(batch)) / len(batch) for batch in batches) / len(batches) if batches else 0.0

    @property
    def faults(self) -> list[Finding]:
        """What makes training wrong, without any error; the worst first."""
        return [finding for finding in self.findings if not finding.harmless]

    @property
    def findings(self) -> list[Finding]:
        return [found for look in (self._uneven_steps, self._shared, self._missing, self._order, self._uneven_batches)
                if (found := look()) is not None]

    def __str__(self) -> str:
        steps = " or ".join(map(str, sorted(set(self.steps))))
        summary = (f"{self.num_samples} samples, {len(self.draws)} ranks: {steps} steps, {self.num_draws} draws, "
                   f"{self.unique_share:.1%} of a global batch unique")
        return "\n".join([summary, *(f"  {'note' if f.harmless else 'FAULT'}  {f}" for f in self.findings)])

    __repr__ = __str__

    @cached_property
    def _times(self) -> Counter[int]:
        """How often each sample is drawn."""
        return Counter(index for rank in self.draws for step in rank[0] for index in step)

    def _global_batch(self, step: int) -> list[int]:
        return [index for rank in self.draws for index in (rank[0][step] if step < len(rank[0]) else [])]

    def _uneven_steps(self) -> Finding | None:
        if len(set(self.steps)) == 1:
            return None
        return Finding("uneven steps", f"ranks have {', '.join(map(str, self.steps))} steps, so some will wait for the "
                       "others for ever. Pad or drop_last in the sampler, or train inside Join")

    def _shared(self) -> Finding | None:
        """Samples that several ranks, or one rank several times, draw in an epoch."""
        own = [Counter(index for step in rank[0] for index in step) for rank in self.draws]
        if not self.num_repeats:
            return None
        if len(own) > 1 and all(one.keys() == own[0].keys() for one in own):
            return _unsplit(all(rank[0] == self.draws[0][0] for rank in self.draws), len(own[0]))
        if self.num_repeats < len(own) and not self.num_missing:
            return Finding("padding", f"{self.num_repeats} of {self.num_draws} draws repeat a sample, so that all "
                           "ranks have as many. In an evaluation, count each sample once", harmless=True)
        return Finding("overlap", f"{self.num_repeats} draws repeat a sample that another rank has, and "
                       f"{self.num_missing} samples are never drawn. Give the sampler of every rank the same seed")

    def _missing(self) -> Finding | None:
        if not self.num_missing or self.num_repeats:
            return None
        if self.num_missing <= self.may_leave_out:
            return Finding("left out", f"drop_last leaves {self.num_missing} samples out of this epoch", harmless=True)
        return Finding("missing", f"{self.num_missing} of {self.num_samples} samples are never drawn. "
                       "Is the data split twice?")

    def _order(self) -> Finding | None:
        if any(len(rank) < 2 or rank[0] != rank[1] for rank in self.draws):
            return None
        flat = [[index for step in rank[0] for index in step] for rank in self.draws]
        if all(one == sorted(one) for one in flat):
            return Finding("not shuffled", "every epoch goes through the samples in their own order", harmless=True)
        return Finding("same order", "epoch 1 repeats the order of epoch 0. Call sampler.set_epoch(epoch) before each "
                       "epoch")

    def _uneven_batches(self) -> Finding | None:
        own = self.items or [[len(step) for step in rank[0]] for rank in self.draws]
        for step in range(min(self.steps)):
            counts = [rank[step] for rank in own]
            if len(set(counts)) > 1:
                return Finding("uneven batches", f"in step {step} ranks have {', '.join(map(str, counts))} "
                               f"{'items' if self.items else 'samples'}, so the mean of their means is not the mean. "
                               "Weight the loss: global_mean")
        return None


def _unsplit(alike: bool, num_samples: int) -> Finding:
    if alike:
        return Finding("same batches", "all ranks draw the same samples in every step, so a global batch has no more "
                       "of them than one rank's. Use a DistributedSampler")
    return Finding("not split", f"every rank draws all {num_samples} samples, each in an order of its own, so an epoch "
                   "is as many times longer as there are ranks. Use a DistributedSampler")
