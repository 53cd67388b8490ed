"""Ask a learner's function for orders of work, in another process where no order of the course or of torch is.

A step is a pair of a kind and a microbatch, as in ("F", 0); an order is a list of steps for each rank.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass

from helpers.checks.judge import forbidden
from helpers.checks.judge.captured import captured_table
from helpers.checks.judge.other_process import Raised, in_other_process, words_for
from helpers.checks.judge.verdict import CheckFailed, plain, shown

MOST_STEPS = 10_000             # of a rank
LARGEST = 10**6                 # number of a microbatch that can be printed
Steps = list[tuple[str, int]]


@dataclass(frozen=True)
class FillCase:
    """What `fill` is called with."""

    num_ranks: int
    num_microbatches: int
    cap: int

    def __str__(self) -> str:
        return f"fill({self.num_ranks}, {self.num_microbatches}, cap={self.cap})"


def orders(function: object, cases: tuple[FillCase, ...], by_rank: bool = False,
           ) -> dict[FillCase, list[Steps] | Raised]:
    """What the function gives for each case, as plain lists of plain pairs; `by_rank`: it gives F and B of one rank.

    Raises `CheckFailed` if it brings along a table of steps, or if all cases raise alike.
    """
    ask = _ask_each_rank if by_rank else _ask
    table, *given = in_other_process(ask, function, [{}, *map(asdict, cases)], forbidden.SCHEDULES)
    if isinstance(table, str):
        raise CheckFailed(table)
    return dict(zip(cases, told(given), strict=True))


def _ask(function: Callable, case: dict) -> list[Steps] | Raised | str | None:
    if not case:
        return captured_table(function)
    try:
        return _ranks(function(**case), case["num_ranks"])
    except BaseException as error:              # also what would end this process
        return Raised(words_for(error))


def _ask_each_rank(function: Callable, case: dict) -> list[Steps] | Raised | str | None:
    if not case:
        return captured_table(function)
    rows = []
    for rank in range(case["num_ranks"]):
        try:
            row = _row(function(rank, **case), ("F", "B"))
        except BaseException as error:          # also what would end this process
            row = Raised(words_for(error))
        if isinstance(row, Raised):
            return Raised(row.told_of(f"rank {rank}:"))
        rows.append(row)
    return rows


def told(given: Iterable[object]) -> list[object]:
    """What was given; a `CheckFailed` if something was raised for all of it, and always alike."""
    answers = list(given)
    if isinstance(answers[0], Raised) and all(answer == answers[0] for answer in answers):
        raise CheckFailed(answers[0].words)
    return answers


def _ranks(answer: object, num_ranks: int) -> list[Steps] | Raised:
    if answer is None:
        return Raised("returned None: is there a return?")
    if not isinstance(answer, (list, tuple)) or not all(isinstance(steps, (list, tuple)) for steps in answer):
        return Raised(f"a list with one list for each rank is asked for, not {shown(answer)}")
    if len(answer) != num_ranks:
        return Raised(f"returned {len(answer)} lists; one for each of the {num_ranks} ranks is asked for")
    rows = [_row(steps, ("F", "I", "W")) for steps in answer]
    return next((row for row in rows if isinstance(row, Raised)), rows)


def _row(steps: object, kinds: tuple[str, ...]) -> Steps | Raised:
    """The steps of one rank, as plain pairs."""
    if steps is None:
        return Raised("returned None: is there a return?")
    if not isinstance(steps, (list, tuple)):
        return Raised(f"a list of steps is asked for, not {shown(steps)}")
    if len(steps) > MOST_STEPS:
        return Raised(f"returned {len(steps):,} steps for one rank: when does it end?")
    row = [_step(step, kinds) for step in steps]
    return next((Raised(step) for step in row if isinstance(step, str)), row)


def _step(step: object, kinds: tuple[str, ...]) -> tuple[str, int] | str:
    """The step as a plain pair, or words."""
    pair = tuple(map(plain, step)) if isinstance(step, (list, tuple)) else ()
    if len(pair) != 2 or type(pair[0]) is not str or type(pair[1]) is not int:
        return f'a step is a pair of kind and microbatch, as in ("F", 0), not {shown(step)}'
    if pair[0] not in kinds:
        return f"{shown(pair[0])} is no kind of step: here they are {', '.join(kinds[:-1])} and {kinds[-1]}"
    if abs(pair[1]) > LARGEST:
        return f"{pair[0]} of a microbatch beyond {LARGEST:,}: numbers go from 0 to one less than there are"
    return pair
