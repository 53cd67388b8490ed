"""Checks of exercise sets 09 and 10: an order with three faults, mended by moving steps along their lines."""
from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, replace
from functools import partial

from helpers.checks.judge.verdict import CheckFailed, Verdict, first_wrong, score, shown
from helpers.checks.pipeline.order_words import length, longest_chain, with_grid
from helpers.facts.errors import BadValue
from helpers.facts.schedules import Action, IllegalSchedule, Schedule, from_csv, validate
from helpers.facts.schedules.in_flight import held
from helpers.facts.schedules.start_order import stuck
from helpers.facts.schedules.text import short

P, M, CAP = 3, 4, 3
LONGEST = 5000                  # characters


@dataclass(frozen=True)
class Task:
    """An order to mend, and how short it can be."""

    rows: tuple[str, ...]
    least: int
    unit: str
    most_moves: int             # one to spare
    enough: str                 # how many moves are

    @property
    def given(self) -> Schedule:
        """The order as the learner is given it."""
        return Schedule("broken", tuple(tuple(Action(text[0], rank, int(text[1:])) for text in row.split())
                                        for rank, row in enumerate(self.rows)), P, M)

    def __str__(self) -> str:
        return (f"at most {CAP} microbatches on a rank, {self.least} {self.unit}, at most {self.most_moves} steps "
                "moved")


SPLIT = Task((                  # W0 before I0 on rank 2; I1 of rank 1 and F2 of rank 2 wait for each other; 4 on rank 0
    "F0 F1 F2 F3 I0 W0 I1 W1 I2 W2 I3 W3",
    "F0 F1 I0 W0 I1 F2 F3 I2 W1 I3 W2 W3",
    "F0 W0 I0 F1 F2 I1 I2 F3 I3 W1 W2 W3"),
    3 * M + P - 1, "slots", 4, "three")     # the last rank works 3 m slots, and starts after p - 1 forwards
WHOLE = Task((                  # B2 before F2 on rank 1; B1 of rank 1 and F3 of rank 2 wait for each other; 4 on rank 0
    "F1 F0 F3 F2 B1 B0 B3 B2", "F1 F0 B1 F3 B0 B2 F2 B3", "F1 F0 F3 B1 B0 F2 B3 B2"),
    3 * (M + P - 1), "units", 6, "five")                # and p - 1 backwards come after the last rank's work


def check_mended_order(broken: object, mended: object) -> float:
    """3 points: every W after its I, nobody waits for ever, and memory and length with few steps moved."""
    return _check(SPLIT, broken, mended)


def check_mended_whole_order(broken: object, mended: object) -> float:
    """3 points: every B after its F, nobody waits for ever, and memory and length."""
    return _check(WHOLE, broken, mended)


def _check(task: Task, broken: object, mended: object) -> float:
    given = task.given
    if _unreadable(broken) or _read(broken) != replace(given, name="mended"):
        raise CheckFailed("broken is not what it was: leave it as it was given")
    wrong = _unreadable(mended)
    if wrong:
        return score([Verdict(3, "the mended order", wrong)], "")
    order = _read(mended)
    if wrong := _other_steps(given, order):
        return score([Verdict(3, "the same steps on the same ranks", wrong)], "")
    early, full = _early(order), _over(order)
    if early and order.steps == given.steps:
        early = f"no step has moved yet. {early}"
    waits = "judged once nothing comes before what it needs" if early else _circle(order)
    return score([Verdict(1, "on every rank, each step after what it needs", early),
                  Verdict(1, "nobody waits for ever", waits),
                  Verdict(1, str(task), full or ((early or waits) and "judged once the order ends") or first_wrong(
                      look(order) for look in (partial(_too_long, task), partial(_rewritten, task))))],
                 f"Mended, with no {task.unit[:-1]} wasted.")


def _read(text: str) -> Schedule:
    """Lines may be indented, and blank ones between them do not count."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return replace(from_csv("\n".join(lines), "mended"), num_stages=P, num_microbatches=M)


def _unreadable(mended: object) -> str | None:
    if mended is None or mended is ...:
        return "nothing here yet"
    if type(mended) is not str or len(mended) > LONGEST:
        return f"a text is asked for, with a line for each rank and commas between steps, not {shown(mended)}"
    try:
        order = _read(mended)
    except (BadValue, ValueError) as error:             # the second of a number with thousands of digits
        return str(error)
    return None if order.num_ranks == P else f"{order.num_ranks} lines, and there are {P} ranks"


def _other_steps(given: Schedule, order: Schedule) -> str | None:
    """What is there besides the steps that were given, or missing."""
    for rank, (before, after) in enumerate(zip(given.steps, order.steps, strict=True)):
        counts = Counter(after)
        for step in after:
            if step not in before:
                return f"rank {rank} has {step}, which was not there: steps move along their line only"
            if counts[step] > 1:
                return f"rank {rank} has {step} {counts[step]} times"
        if missing := [str(step) for step in before if step not in counts]:
            return f"rank {rank} has lost {', '.join(missing)}"
    return None


def _early(order: Schedule) -> str | None:
    """What stands before something of its own rank that it needs."""
    try:
        validate(order)
    except IllegalSchedule as error:
        return None if "it never ends" in str(error) else str(error)
    return None


def _circle(order: Schedule) -> str | None:
    if not stuck(order):
        return None
    try:
        validate(order)
    except IllegalSchedule as error:
        return str(error)


def _over(order: Schedule) -> str | None:
    """Memory needs no clock: an order is held against the cap though it may never end."""
    for rank, steps in enumerate(order.steps):
        release = "W" if any(step.kind == "W" for step in steps) else "B"
        for number, (count, step) in enumerate(zip(held(steps), steps, strict=True)):
            if count > CAP:
                return with_grid(order, f"rank {rank} would hold {count} microbatches at {short(step)}, and has memory "
                                        f"for {CAP}: a {release} must come first", (rank, number))
    return None


def _too_long(task: Task, order: Schedule) -> str | None:
    now = length(order)
    return None if now == task.least else with_grid(
        order, f"it takes {now} {task.unit}, and {task.least} are enough: {longest_chain(order)}",
        in_units=task.unit == "units")


def _rewritten(task: Task, order: Schedule) -> str | None:
    moved = sum(map(_num_moved, task.given.steps, order.steps))
    return None if moved <= task.most_moves else (
        f"{moved} steps are not where they were among the others, and at most {task.most_moves} may move "
        f"({task.enough} are enough): mend what was given, rather than write it anew")


def _num_moved(before: tuple, after: tuple) -> int:
    """Steps less the longest run of those that keep their order."""
    ends: list[int] = []
    for place in map(before.index, after):
        at = bisect_left(ends, place)
        ends[at:at + 1] = [place]
    return len(before) - len(ends)
