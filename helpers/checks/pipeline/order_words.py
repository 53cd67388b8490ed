"""What all checks of orders share: an answer as a schedule, its length, and words with a picture below."""
from __future__ import annotations

from itertools import groupby

from helpers.checks.pipeline.orders import FillCase, Steps
from helpers.facts.schedules import Action, Schedule, parse
from helpers.facts.schedules.durations import UNIT_DURATIONS
from helpers.facts.schedules.text import readable_grid, short
from helpers.facts.trace import duration_s
from helpers.predict.pipeline import critical_path, simulate

LAST = 8                        # links of a chain that a message has room for
NO_UNITS = " (in the grid every step takes one slot, B too)"


def as_schedule(case: FillCase, steps: list[Steps]) -> Schedule:
    """The learner's order for a case as a `Schedule`, one stage on each rank."""
    rows = tuple(tuple(Action(kind, rank, microbatch) for kind, microbatch in row) for rank, row in enumerate(steps))
    return Schedule(str(case), rows, case.num_ranks, case.num_microbatches)


def with_grid(schedule: Schedule, words: str, marked: tuple[int, int] | None = None, in_units: bool = False) -> str:
    """The words with a picture below, unless that is too wide to help; `marked`: (rank, number of a step).

    in_units    the words are about units, of which a picture's slot may be one or two
    """
    drawn = readable_grid(schedule, marked)
    return f"{words}{NO_UNITS if in_units and drawn else ''}{drawn}"


def length(schedule: Schedule) -> int:
    """Slots that a schedule takes when F, I and W take one each and B takes two."""
    return round(duration_s(simulate(schedule, UNIT_DURATIONS)))


def longest_chain(schedule: Schedule) -> str:
    """The chain of steps that makes a schedule as long as it is, in words."""
    chain = critical_path(schedule, simulate(schedule, UNIT_DURATIONS))
    ranks = [(rank, " ".join(short(parse(span.label)) for span in spans))
             for rank, spans in groupby(chain, key=lambda span: span.rank)]
    return (f"the longest chain of steps that wait for each other {'is' if len(ranks) <= LAST else 'ends with'} "
            + ", ".join(f"{steps} of rank {rank}" for rank, steps in ranks[-LAST:])
            + ". Which of them could its rank do later?")
