"""Checks of exercise set 10: an order that fills bubbles with W, under a memory cap.

Orders are played on a clock with f = i = w = 1.  The best known length is also the least there can be: the last rank
works 3 m slots and starts after p - 1 forwards of others, so nothing is shorter than 3 m + p - 1.
"""
from __future__ import annotations

from helpers.checks.judge.other_process import Raised
from helpers.checks.judge.verdict import NOT_WRITTEN, Verdict, first_wrong, score, unseen
from helpers.checks.pipeline.order_words import as_schedule, length, longest_chain, with_grid
from helpers.checks.pipeline.orders import FillCase, Steps, orders
from helpers.facts.schedules import Action, Schedule, dependencies, one_f_one_b, validate
from helpers.facts.schedules.in_flight import held
from helpers.facts.schedules.start_order import slots
from helpers.facts.schedules.text import short
from helpers.facts.schedules.validate import IllegalSchedule

LOW = FillCase(2, 3, 2), FillCase(3, 4, 3), FillCase(4, 8, 4)                       # the memory of 1F1B
HIGH = FillCase(2, 3, 3), FillCase(3, 6, 5), FillCase(4, 12, 7)                     # 2 p - 1
OTHERS = (FillCase(1, 3, 1), FillCase(2, 2, 2), FillCase(5, 5, 5), FillCase(6, 20, 6), FillCase(8, 32, 8),
          FillCase(5, 9, 9), FillCase(6, 17, 11),
          FillCase(8, 16, 15))


def check_fill(function: object) -> float:
    """4 points: legal and under the cap, shorter than 1F1B, as short as can be, and no gap with more memory."""
    given = orders(function, LOW + HIGH)
    wrong = _illegal(given)
    later = wrong if wrong == NOT_WRITTEN else wrong and "judged once all orders are legal"
    played = {} if wrong else {case: as_schedule(case, steps) for case, steps in given.items()}
    longer = later or first_wrong(map(_not_shorter, played, played.values()))
    return score([
        Verdict(1, "every order is legal and under its cap", wrong),
        Verdict(1, "shorter than 1F1B", longer),
        Verdict(1, "as short as can be", later or (longer and "judged once they are shorter than 1F1B")
                or first_wrong(map(_too_long, played, played.values()))),
        Verdict(1, "with cap 2p - 1, no gap in any rank's own span",
                later or first_wrong(_gap(case, played[case]) for case in HIGH if case in played))],
        "Every bubble that can be filled is.")


@unseen
def check_fill_unseen(function: object) -> float:
    """1 point: other sizes."""
    given = orders(function, OTHERS)
    wrong = _illegal(given) or first_wrong(
        _too_long(case, schedule) or (_gap(case, schedule) if case.cap > case.num_ranks else None)
        for case, schedule in ((case, as_schedule(case, steps)) for case, steps in given.items()))
    return score([Verdict(1, "other ranks, microbatches, caps", wrong)], "It holds for any size.")


def _illegal(given: dict[FillCase, list[Steps] | Raised]) -> str | None:
    for case, steps in given.items():
        if isinstance(steps, Raised):
            return steps.told_of(f"{case}:")
        try:
            validate(as_schedule(case, steps), cap=case.cap)
        except IllegalSchedule as error:
            return str(error)
    return None


def _not_shorter(case: FillCase, schedule: Schedule) -> str | None:
    whole = length(one_f_one_b(case.num_ranks, case.num_microbatches))
    if (now := length(schedule)) < whole:
        return None
    return with_grid(schedule, f"{case} takes {now} slots, and 1F1B {whole}: {_what_holds_it_up(case, schedule)}")


def _too_long(case: FillCase, schedule: Schedule) -> str | None:
    least = 3 * case.num_microbatches + case.num_ranks - 1
    if (now := length(schedule)) == least:
        return None
    return with_grid(schedule, f"{case} takes {now} slots, and {least} are enough: {_what_holds_it_up(case, schedule)}")


def _gap(case: FillCase, schedule: Schedule) -> str | None:
    """The first idle slot of the case between a rank's own first start and last end."""
    for rank, row in enumerate(slots(schedule)):
        for idle, slot, step in _gaps(row, first=row[0][0]):
            why = _could(case, schedule, rank, idle) or f"waits for {_needed(schedule, step, slot)}"
            return with_grid(schedule, f"{case}: rank {rank} idles in slot {idle}, before {short(step)}: it {why}")
    return None


def _gaps(row: list[tuple[int, Action]], first: int = 0) -> list[tuple[int, int, Action]]:
    """For each gap its first idle slot, and slot and step that end it."""
    free = [first, *(slot + 1 for slot, _ in row)]
    return [(idle, slot, step) for idle, (slot, step) in zip(free, row, strict=False) if slot > idle]


def _what_holds_it_up(case: FillCase, schedule: Schedule) -> str:
    """What keeps the order from being shorter: an idle slot that a step could fill, else the longest chain."""
    placed = slots(schedule)
    idle = sorted((slot, rank) for rank, row in enumerate(placed) for start, end, _ in _gaps(row)
                  for slot in range(start, end))
    for slot, rank in idle:
        if words := _could(case, schedule, rank, slot):
            return f"in slot {slot} rank {rank} idles, and it {words}"
    return longest_chain(schedule)


def _could(case: FillCase, schedule: Schedule, rank: int, slot: int) -> str | None:
    """A later step of the rank that could fill the slot: all that it needs is done, and there is memory."""
    row = slots(schedule)[rank]
    ended = {step: start + 1 for others in slots(schedule) for start, step in others}
    place = sum(start < slot for start, _ in row)
    for later, (_, step) in enumerate(row[place:], place):
        steps = [step for _, step in row]
        moved = [*steps[:place], step, *steps[place:later], *steps[later + 1:]]
        if max(held(moved)) <= case.cap and all(ended[needed] <= slot for needed in dependencies(step, schedule)):
            return f"could do {short(step)} there"
    return None


def _needed(schedule: Schedule, step: Action, slot: int) -> str:
    """What of another rank a step starts right after, and what that rank does before."""
    placed = slots(schedule)
    for needed in dependencies(step, schedule):
        row = placed[needed.stage]
        place = next(number for number, (_, other) in enumerate(row) if other == needed)
        if row[place][0] + 1 == slot and needed.stage != step.stage:
            before = f", which does {short(row[place - 1][1])} before" if place else ""
            return f"{short(needed)} of rank {needed.stage}{before}"
    return "its own last step"
