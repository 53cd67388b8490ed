"""Write the order of one rank as a rhythm, and deal microbatches to it.

    deal([("F", 0), ("F", 0), ("B", 0), ("B", 0)], ...)     F0 F1 B0 B1

A beat says what kind of work comes next and on which of the rank's chunks (its stages); each kind takes the next
microbatch on its own.  That is how papers draw schedules: by what repeats.
"""
from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from helpers.facts.errors import BadValue
from helpers.facts.schedules.schedule import Action, Pair, Step

Beat = tuple                    # (kind, chunk), ("W",) for the oldest I whose W is owed, or (beat of F, beat of B)


def steps_of_rhythm(rhythm: Iterable[Beat], stages: list[int], microbatches: list[range]) -> tuple[Step, ...]:
    """The steps of one rank.

    rhythm          its beats: (kind, chunk), ("W",) for the oldest W that is owed, or a pair (beat of F, beat of B)
    stages          of each chunk
    microbatches    that each chunk takes, in this order; a beat that finds none left is skipped
    """
    next_forward: dict[int, int] = defaultdict(int)
    next_backward: dict[int, int] = defaultdict(int)
    owed: list[Action] = []
    steps: list[Step] = []

    def action(kind: str, chunk: int | None = None) -> Action | None:
        if kind == "W":
            oldest = next((w for w in owed if chunk is None or w.stage == stages[chunk]), None)
            if oldest:
                owed.remove(oldest)
            return oldest
        done = next_forward if kind == "F" else next_backward
        if done[chunk] == len(microbatches[chunk]):
            return None
        dealt = Action(kind, stages[chunk], microbatches[chunk][done[chunk]])
        done[chunk] += 1
        if kind == "I":
            owed.append(Action("W", *dealt[1:]))
        return dealt

    for beat in rhythm:
        parts = [action(*part) for part in beat] if isinstance(beat[0], tuple) else [action(*beat)]
        found = [part for part in parts if part is not None]
        steps += [Pair(*found)] if len(found) == 2 else found
    return tuple(steps)


def check_counts(num_ranks: int, num_microbatches: int, **others: int) -> None:
    """Raises `BadValue` unless all are whole numbers of at least 1."""
    for name, value in {"num_ranks": num_ranks, "num_microbatches": num_microbatches, **others}.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise BadValue(f"{name} is a whole number of at least 1, not {value!r}")
