"""Who draws which sample in which step: in a right epoch each is drawn once, in equally many steps on every rank."""
from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property

from helpers.facts.errors import BadValue

Draws = list[list[list[int]]]           # of one rank: the samples of each step of each epoch


@dataclass(frozen=True)
class DrawFault:
    """Something to know about the draws: a fault, or a note if `harmless`; `str` gives "kind: words"."""

    kind: str                   # "same batches", "not split", "overlap", "missing", "uneven steps", "same order", ...
    words: str
    harmless: bool = False      # worth knowing, but no reason not to train

    def __str__(self) -> str:
        return f"{self.kind}: {self.words}"


@dataclass(frozen=True)
class Epoch:
    """What all ranks draw in one epoch; raises `BadValue` for more different samples than `num_samples`."""

    num_samples: int
    draws: tuple[list[list[int]], ...]  # by rank: the samples of each step
    may_leave_out: int = 0              # samples that drop_last may leave out on purpose
    items: tuple[list[int], ...] = ()   # by rank: items, such as tokens, in each step; without them, samples count

    def __post_init__(self):
        if self.num_missing < 0:
            raise BadValue(f"{len(self._times)} different samples are drawn of {self.num_samples}: is num_samples "
                           "right?")

    @property
    def steps(self) -> list[int]:
        """Number of steps of each rank."""
        return [len(rank) for rank in self.draws]

    @property
    def num_draws(self) -> int:
        """Draws of all ranks together, repeats included."""
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
        """Different samples in a global batch, over samples in it, from 0 to 1; the mean over all steps."""
        batches = [batch for step in range(max(self.steps, default=0)) if (batch := self._global_batch(step))]
        return sum(len(set(batch)) / len(batch) for batch in batches) / len(batches) if batches else 1.0

    @property
    def findings(self) -> list[DrawFault]:
        """All that stands out in this epoch, faults and harmless notes, in the order in which they should be read."""
        return [found for look in (self._uneven_steps, self._repeated, self._missing, self._uneven_batches)
                if (found := look()) is not None]

    @cached_property
    def _times(self) -> Counter[int]:
        return sum(self._own, Counter())

    @cached_property
    def _own(self) -> list[Counter[int]]:
        return [Counter(index for step in rank for index in step) for rank in self.draws]

    def _global_batch(self, step: int) -> list[int]:
        return [index for rank in self.draws for index in (rank[step] if step < len(rank) else [])]

    def _uneven_steps(self) -> DrawFault | None:
        if len(set(self.steps)) == 1:
            return None
        cure = "Give all ranks one batch size" if len({one.total() for one in self._own}) == 1 else \
            "Pad or drop_last in the sampler, or train inside torch's Join"
        return DrawFault("uneven steps", f"ranks have {', '.join(map(str, self.steps))} steps, so some will wait for "
                         f"the others for ever. {cure}")

    def _repeated(self) -> DrawFault | None:
        own, missing = self._own, f"{count(self.num_missing, 'sample is', 'samples are')} never drawn"
        lost = f", and {missing}" if self.num_missing > self.may_leave_out else ""
        times = {number for one in own for number in one.values()}
        if not self.num_repeats:
            return None
        if self.num_repeats < len(own) and not self.num_missing and len({one.total() for one in own}) == 1:
            return DrawFault("padding", f"{self.num_repeats} of {self.num_draws} draws repeat a sample, so that all "
                           "ranks have equally many. In an evaluation, count each sample once", harmless=True)
        if len(own) > 1 and all(rank == self.draws[0] for rank in self.draws):
            cure = "Is every rank told that it is rank 0?" if lost else "Use a DistributedSampler, or split the stream"
            return DrawFault("same batches", "all ranks draw the same samples in every step, so a global batch has no "
                           f"more of them than one rank's{lost}. {cure}")
        if len(times) == 1 and times != {1}:
            return DrawFault("read again", f"every rank draws each of its samples {times.pop()} times{lost}. Does each "
                           "worker read the whole stream?")
        if times != {1}:
            return DrawFault("with replacement", "ranks draw a sample several times themselves, as sampling with "
                           f"replacement does, and {missing}", harmless=True)
        if len(own) > 1 and all(one.keys() == own[0].keys() for one in own):
            return DrawFault("not split", f"every rank draws the same {len(own[0])} samples, each in an order of its "
                           f"own, so an epoch is as many times longer as there are ranks{lost}. Use a "
                           "DistributedSampler")
        return DrawFault("overlap", f"{count(self.num_repeats, 'draw repeats', 'draws repeat')} a sample, and "
                         f"{missing}. All ranks must shuffle, and split, with the same seed")

    def _missing(self) -> DrawFault | None:
        if not self.num_missing or self.num_repeats:
            return None
        if self.num_missing <= self.may_leave_out:
            return DrawFault("left out", f"drop_last leaves {count(self.num_missing, 'sample')} out of this epoch",
                           harmless=True)
        return DrawFault("missing", f"{self.num_missing} of {count(self.num_samples, 'sample is', 'samples are')} "
                         "never drawn. Is the data split twice, or for more ranks than there are?")

    def _uneven_batches(self) -> DrawFault | None:
        sizes = self.items or [[len(step) for step in rank] for rank in self.draws]
        for step in range(min(self.steps, default=0)):
            counts = [rank[step] for rank in sizes]
            if len(set(counts)) > 1:
                return DrawFault("uneven batches", f"in step {step} ranks have {', '.join(map(str, counts))} "
                               f"{'items' if self.items else 'samples'}, so the mean of their means is not the mean. "
                               "Weight the loss, as helpers.run.data_sharding.global_mean does")
        return None


@dataclass(frozen=True, repr=False)
class Sampling:
    """What all ranks draw, in one or more epochs; counts are of the first.  Raises what `Epoch` raises."""

    num_samples: int
    draws: tuple[Draws, ...]            # by rank
    may_leave_out: int = 0
    items: tuple[list[int], ...] = ()   # of the first epoch

    def __post_init__(self):
        self.epochs  # noqa: B018  wrong numbers are told now

    @cached_property
    def epochs(self) -> list[Epoch]:
        """Each epoch that all ranks have drawn."""
        together = zip(*self.draws)     # noqa: B905  ranks may have been asked for unlike numbers of epochs
        first, *later = [Epoch(self.num_samples, draws, self.may_leave_out) for draws in together]
        return [replace(first, items=self.items), *later]

    steps = property(lambda self: self.epochs[0].steps, doc="Number of steps of each rank.")
    num_draws = property(lambda self: self.epochs[0].num_draws, doc="Draws of all ranks together.")
    num_missing = property(lambda self: self.epochs[0].num_missing, doc="Samples that nobody draws.")
    num_repeats = property(lambda self: self.epochs[0].num_repeats, doc="Draws of a sample that was drawn before.")
    unique_share = property(lambda self: self.epochs[0].unique_share, doc="`Epoch.unique_share` of the first epoch.")

    @property
    def faults(self) -> list[DrawFault]:
        """What makes training wrong, without any error; the worst first."""
        return [finding for finding in self.findings if not finding.harmless]

    @property
    def findings(self) -> list[DrawFault]:
        """Those of the first epoch, those of the order, and what is worse in a later epoch."""
        first, *later = [epoch.findings for epoch in self.epochs]
        found = [f for f in first if f.kind != "uneven batches"] + self._order()
        found += [f for f in first if f.kind == "uneven batches"]
        for number, findings in enumerate(later, 1):
            found += [replace(f, words=f"in epoch {number}, {f.words}") for f in findings
                      if not f.harmless and f.kind not in {known.kind for known in found}]
        return found

    def _order(self) -> list[DrawFault]:
        if any(len(rank) < 2 or rank[0] != rank[1] for rank in self.draws) or not self.num_draws:
            return []
        flat = [[index for step in rank[0] for index in step] for rank in self.draws]
        dealt = [index for turn in zip(*flat, strict=False) for index in turn]          # one to each rank in turn
        unpadded = dealt[:len(dealt) - self.num_repeats]
        if all(one == sorted(one) for one in flat) or unpadded == sorted(unpadded):
            return [DrawFault("not shuffled", "every epoch goes through the samples in their own order", harmless=True)]
        return [DrawFault("same order", "epoch 1 repeats the order of epoch 0. The seed must change with the epoch: "
                          "for a DistributedSampler, call set_epoch(epoch)")]

    def __repr__(self) -> str:
        steps = " or ".join(map(str, sorted(set(self.steps))))
        summary = (f"{count(self.num_samples, 'sample')}, {count(len(self.draws), 'rank')}: {steps} "
                   f"{'step' if steps == '1' else 'steps'}, {count(self.num_draws, 'draw')}, "
                   f"{self.unique_share:.1%} of a global batch unique")
        return "\n".join([summary, *(f"  {'note' if f.harmless else 'FAULT'}  {f}" for f in self.findings)])


def count(number: int, one: str, many: str = "") -> str:
    """A number with its noun: count(1, "draw") is "1 draw", count(2, "draw") "2 draws"; `many` is for other plurals."""
    return f"{number} {one if number == 1 else many or one + 's'}"
