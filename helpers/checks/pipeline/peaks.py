"""Checks of exercise set 09: the most bytes that any order holds.

Sizes are powers of ten, so an answer's digits count microbatches: 2,110 bytes are 2 whole ones and one that waits in
the first stage, and a whole one in the second.
"""
from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate, takewhile

from helpers.checks.judge import forbidden
from helpers.checks.judge.other_process import Raised, answers
from helpers.checks.judge.verdict import Verdict, first_wrong, is_number, score, shown, unseen
from helpers.checks.pipeline.orders import told
from helpers.facts.schedules import Action, parse
from helpers.facts.schedules.in_flight import held


@dataclass(frozen=True)
class PeakCase:
    """What `peak` is called with; steps as in 0F0 0B0."""

    text: str
    kept: dict[int, int]
    waiting: dict[int, int]

    @property
    def steps(self) -> list[Action]:
        """The steps of the case, parsed."""
        return [parse(step) for step in self.text.split()]

    @property
    def arguments(self) -> dict:
        """What `peak` is called with, by name."""
        return {"steps": [tuple(step) for step in self.steps], "kept": self.kept, "waiting": self.waiting}

    def __str__(self) -> str:
        return f"{self.text.replace(' ', ',')} with kept {self.kept}, waiting {self.waiting}"


ONE, REST = {0: 10}, {0: 1}
WHOLE = (PeakCase("0F0 0F1 0B0 0B1", ONE, REST),
         PeakCase("0F0 0B0 0F1 0F2 0B1 0F3 0F4 0B2 0B3 0F5 0B4 0B5", ONE, REST))
HALVES = (PeakCase("0F0 0I0 0W0 0F1 0I1 0F2 0W1 0I2 0W2", ONE, REST),
          PeakCase("0F0 0F1 0I0 0F2 0I1 0W0 0W1 0I2 0F3 0F4 0F5 0I3 0I4 0W2 0W4 0I5 0W3 0W5", ONE, REST))
SEVERAL = (PeakCase("0F0 0F1 1F0 1B0 0B0 0F2 1F1 1F2 1B1 0B1 1B2 0B2", {0: 1000, 1: 10}, {0: 100, 1: 1}),
           PeakCase("5F0 5I0 2F0 2F1 5F1 2I0 5F2 2F2 5I1 2B1 5F3 5W0 2I2 5W1 5B2 2W0 5B3 2W2", {2: 1000, 5: 10},
                {2: 100, 5: 1}))
OTHERS = (PeakCase("3F0 3B0", {3: 7}, {3: 0}),
          PeakCase("2F0 2F1 2F2 2I2 2I1 2I0 2W1 2W0 2W2", {2: 96}, {2: 96}),
          PeakCase("5F0 1F0 1F1 5B0 1I0 1I1 5F1 1F2 5I1 1W1 1B2 5W1 1W0", {1: 256, 5: 384}, {1: 200, 5: 7}),
          PeakCase("0F0 7F0 7I0 0I0 0F1 7F1 7W0 7I1 0W0 0I1 0F2 7F2 7I2 0I2 0W1 7W1 7W2 0W2", {0: 2**30, 7: 3 * 2**29},
               {0: 2**29, 7: 2**29}),
          PeakCase("4F0 4I0 4F1 4F2 4I1 4W0 8F0 8I0 8F1 8F2 8B1 8W0 4F3 8F3 4I2 8I2 4W1 8B3 4I3 8W2 4W2 4W3",
               {4: 70, 8: 50}, {4: 40, 8: 30}))
Change = dict[str, tuple[int, int]]             # by kind: how many times kept and how many times waiting
RIGHT: Change = {"F": (1, 0), "B": (-1, 0), "I": (-1, 1), "W": (0, -1)}


def check_peak(function: object) -> float:
    """3 points: whole backwards, split ones, and several stages on the rank."""
    seen = {"whole backwards": WHOLE, "split backwards": HALVES, "several stages on the rank": SEVERAL}
    asked = [case for cases in seen.values() for case in cases]
    pairs = list(zip(asked, _given(function, asked), strict=True))
    return score([Verdict(1, what, _first_wrong([pair for pair in pairs if pair[0] in cases], pairs))
                  for what, cases in seen.items()], "The fullest moment of any order.")


@unseen
def check_peak_unseen(function: object) -> float:
    """1 point: other orders, stages and sizes."""
    pairs = list(zip(OTHERS, _given(function, OTHERS), strict=True))
    return score([Verdict(1, "other orders", _first_wrong(pairs, pairs))], "It holds for any order.")


def _given(function: object, cases: list[PeakCase] | tuple[PeakCase, ...]) -> list[object]:
    return told(answers(function, [case.arguments for case in cases], "a number of bytes", forbidden.SCHEDULES))


Pairs = list[tuple[PeakCase, object]]               # a case and what was given for it


def _first_wrong(pairs: Pairs, everything: Pairs) -> str | None:
    """The first case that is wrong, with a mistake that explains all answers, or all of these cases."""
    mistake = _named(everything) or _named(pairs)
    return first_wrong(_wrong(case, got, mistake) for case, got in pairs)


def _named(pairs: Pairs) -> str | None:
    return next((words for words, wrong in MISTAKES if all(_same(got, wrong(case)) for case, got in pairs)), None)


def _wrong(case: PeakCase, got: object, mistake: str | None) -> str | None:
    if isinstance(got, Raised):
        return f"{case}: {got.words}"
    if not is_number(got):
        return f"{case}: a number of bytes is asked for, not {shown(got)}"
    most = held(case.steps, case.kept, case.waiting)
    if _same(got, max(most)):
        return None
    given = f"{got:,.12g}" if got == int(got) else f"{got:,.4g}"
    return (f"{case}: {given} bytes, expected {max(most):,}, at {case.steps[most.index(max(most))]}: "
            + (mistake or f"there it holds {_inventory(case, most.index(max(most)))}"))


def _same(got: object, right: float) -> bool:
    return is_number(got) and math.isclose(got, right, rel_tol=1e-9)


def _inventory(case: PeakCase, place: int) -> str:
    """What is alive during a step, by stage."""
    done, parts = case.steps[:place + 1], []
    for stage in case.kept:
        f, b, i, w = (sum(step[:2] == (kind, stage) for step in done) for kind in "FBIW")
        parts += [f"{f - b - i} times kept[{stage}]"] + [f"{i - w} times waiting[{stage}]"] * (i > w)
    return " and ".join(parts)


def _alive(case: PeakCase, **changed: tuple[int, int]) -> list[float]:
    """What is alive after each step, if some kinds change it otherwise than they do."""
    change = RIGHT | changed
    return list(accumulate(change[kind][0] * case.kept[stage] + change[kind][1] * case.waiting[stage]
                           for kind, stage, _ in case.steps))


def _most(**changed: tuple[int, int]) -> Callable[[PeakCase], float]:
    return lambda case: max(_alive(case, **changed))


def _of_stages(case: PeakCase) -> list[float]:
    """The peak of each stage alone."""
    own = [" ".join(step for step in case.text.split() if step.startswith(f"{stage}")) for stage in case.kept]
    return [max(_alive(PeakCase(text, case.kept, case.waiting))) for text in own]


def _one_size(stage: Callable) -> Callable[[PeakCase], float]:
    return lambda case: max(_alive(PeakCase(case.text, *(dict.fromkeys(sizes, sizes[stage(sizes)])
                                                     for sizes in (case.kept, case.waiting)))))


def _once(case: PeakCase) -> float:
    """As if a microbatch had room for the bytes of its latest stage only."""
    alive, most = {}, 0
    for kind, stage, microbatch in case.steps:
        alive[microbatch] = {"F": case.kept, "I": case.waiting}.get(kind, {}).get(stage, 0)
        most = max(most, sum(alive.values()))
    return most


def _counted(case: PeakCase, **changed: tuple[int, int]) -> float:
    return max(_alive(PeakCase(case.text, *(dict.fromkeys(case.kept, 1),) * 2), **changed))


MISTAKES: list[tuple[str, Callable[[PeakCase], float]]] = [
    ("that is what is left at the end, or the least; the fullest moment is asked for", lambda case: _alive(case)[-1]),
    ("that is all that was ever kept: what do backwards give back?", _most(B=(0, 0), I=(0, 0), W=(0, 0))),
    ("that is in microbatches; each counts kept[stage] bytes", _counted),
    ("that is in microbatches, up to their I", lambda case: _counted(case, I=(-1, 0), W=(0, 0))),
    ("does I give back all? waiting[stage] stays until W", _most(I=(-1, 0), W=(0, 0))),
    ("I gives back kept - waiting: waiting[stage] stays until W, which gives back that", _most(I=(-1, 0))),
    ("I and W give back kept[stage] together, not each", _most(I=(-1, 0), W=(-1, 0))),
    ("W is left out: it gives back waiting[stage]", _most(W=(0, 0))),
    ("does I give back nothing? It gives back all but waiting[stage]", _most(I=(0, 0), W=(-1, 0))),
    ("I is left out: it gives back all but waiting[stage]", _most(I=(0, 0))),
    ("I gives back all BUT waiting[stage], and W gives back that", _most(I=(0, -1), W=(-1, 1))),
    ("W gives back waiting[stage] only: I has given back the rest", _most(W=(-1, 0))),
    ("I and W are left out", _most(I=(0, 0), W=(0, 0))),
    ("B is left out, which gives back kept[stage]", _most(B=(0, 0))),
    ("B gives back all that its forward kept; nothing waits for a W", _most(B=(-1, 1))),
    ("B gives back, and keeps nothing more", _most(B=(1, 0))),
    ("B gives back kept[stage] only", _most(B=(-1, -1))),
    ("that is the fullest moment of each stage; they are not at the same time", lambda case: sum(_of_stages(case))),
    ("that is the fullest stage alone; the rank holds all of them", lambda case: max(_of_stages(case))),
    ("that has the bytes of one stage for all", _one_size(min)),
    ("that has the bytes of one stage for all", _one_size(max)),
    ("that is after a backward has given back; look after each forward, too", lambda case: max(
        now for now, step in zip(_alive(case), case.steps, strict=True) if step.kind != "F")),
    ("waiting[stage] is a part of kept[stage], and no more bytes", _most(F=(1, 1), I=(-1, 0), B=(-1, -1))),
    ("waiting[stage] is a part of kept[stage], and nothing new that I keeps", lambda case: max(
        now + case.kept[step.stage] * (step.kind == "I") for now, step in zip(_alive(case), case.steps, strict=True))),
    ("that is the first time that it stops to grow; it may be fuller later", lambda case: sum(
        case.kept[stage] for _, stage, _ in takewhile(lambda step: step.kind == "F", case.steps))),
    ("that is a mean over steps; the fullest moment is asked for", lambda case: sum(_alive(case)) / len(case.steps)),
    ("is a microbatch counted in one stage only? Its F in another stage keeps bytes, too", _once),
    ("that is the largest number of bytes that a single step brings", lambda case: max(case.kept.values())),
]
