"""Write a schedule one step at a time, as on a board: each step must be possible when it is placed.

    board = empty_board(num_ranks=3, num_microbatches=4, cap=3)
    board = place(board, rank=0, text="F0")

What has been placed so far can always be played, so a full board is a valid schedule.
"""
from __future__ import annotations

import re
from dataclasses import dataclass, replace

from helpers.facts.errors import BadValue
from helpers.facts.schedules.in_flight import held
from helpers.facts.schedules.one_direction import gpipe
from helpers.facts.schedules.rhythm import check_counts
from helpers.facts.schedules.schedule import Action, Schedule, dependencies
from helpers.facts.schedules.text import short
from helpers.facts.schedules.zero_bubble import zb_h1

_MOVE = re.compile(r"([A-Z])(\d+)?")


class IllegalMove(BadValue):
    """A step cannot be placed or taken back now; the message says what is in the way."""


@dataclass(frozen=True)
class Board:
    """A schedule that is being written; immutable.

    rules     a full schedule with the same actions, which says what needs what
    placed    the steps that are on the board so far
    cap       the most microbatches that a rank may hold; None: any number
    """

    rules: Schedule
    placed: Schedule
    cap: int | None = None              # the most microbatches that a rank may hold

    @property
    def full(self) -> bool:
        """Whether all steps are placed."""
        return self.placed.rank_of.keys() == self.rules.rank_of.keys()

    @property
    def num_left(self) -> int:
        """Actions that are still to be placed."""
        return len(self.rules.rank_of) - len(self.placed.rank_of)


def empty_board(num_ranks: int, num_microbatches: int, split: bool = False, cap: int | None = None) -> Board:
    """A board without steps, with one stage on each rank; with `split`, backward is I and W instead of B.

    Raises `BadValue` unless the counts, and `cap` if it is given, are whole numbers of at least 1.
    """
    check_counts(num_ranks, num_microbatches, **({} if cap is None else {"cap": cap}))
    rules = (zb_h1 if split else gpipe)(num_ranks, num_microbatches)
    return Board(rules, replace(rules, name="yours", steps=((),) * num_ranks), cap)


def place(board: Board, rank: int, text: str) -> Board:
    """The board with one more step at the end of a rank's order.

    text    "F2", or "F" for the next microbatch of this kind
    Raises `IllegalMove` (a `BadValue`) that says what is in the way: something that the step needs, or the cap.
    """
    action = _meant(board, rank, text)
    if action in board.placed.rank_of:
        raise IllegalMove(f"rank {rank} has done {short(action)} already")
    missing = [d for d in dependencies(action, board.rules) if d not in board.placed.rank_of]
    if missing:
        raise IllegalMove(f"rank {rank} cannot do {short(action)} yet: it needs {_of_ranks(missing)}, which "
                          f"{'is' if len(missing) == 1 else 'are'} not on the board")
    steps = (*board.placed.steps[rank], action)
    if board.cap is not None and max(held(steps)) > board.cap:
        raise IllegalMove(f"rank {rank} has memory for {board.cap} microbatches, and {short(action)} would be one "
                          f"more: it must finish one first, with {action_kinds(board)[-1]}")
    ranks = (*board.placed.steps[:rank], steps, *board.placed.steps[rank + 1:])
    return replace(board, placed=replace(board.placed, steps=ranks))


def undo(board: Board, rank: int) -> Board:
    """The board without the last step of a rank; raises `IllegalMove` if a step on the board needs it."""
    _check_rank(board, rank)
    if not board.placed.steps[rank]:
        raise IllegalMove(f"rank {rank} has nothing to take back")
    last = board.placed.steps[rank][-1]
    needing = [action for action in board.placed.rank_of if last in dependencies(action, board.rules)]
    if needing:
        raise IllegalMove(f"{_of_ranks(needing)} on the board needs {short(last)} of rank {rank}: take that back first")
    ranks = (*board.placed.steps[:rank], board.placed.steps[rank][:-1], *board.placed.steps[rank + 1:])
    return replace(board, placed=replace(board.placed, steps=ranks))


def action_kinds(board: Board) -> str:
    """The kinds of action that a board takes: "FB", or "FIW" if backward is split."""
    return "".join(kind for kind in "FBIW" if any(action.kind == kind for action in board.rules.rank_of))


def _meant(board: Board, rank: int, text: str) -> Action:
    _check_rank(board, rank)
    kinds, match = action_kinds(board), _MOVE.fullmatch(text.strip().upper())
    if not match or match[1] not in kinds:
        raise IllegalMove(f"{text.strip()!r} is no step of this board: write one of {', '.join(kinds)} and a "
                          "microbatch, as in F0")
    if match[2] is None:
        done = {a.microbatch for a in board.placed.steps[rank] if a.kind == match[1]}
        left = [m for m in range(board.rules.num_microbatches) if m not in done]
        if not left:
            raise IllegalMove(f"rank {rank} has done all its {match[1]}")
        return Action(match[1], rank, left[0])
    if int(match[2]) >= board.rules.num_microbatches:
        raise IllegalMove(f"there is no microbatch {match[2]}, only 0 to {board.rules.num_microbatches - 1}")
    return Action(match[1], rank, int(match[2]))


def _check_rank(board: Board, rank: int) -> None:
    if not 0 <= rank < board.rules.num_ranks:
        raise IllegalMove(f"there is no rank {rank}, only 0 to {board.rules.num_ranks - 1}")


def _of_ranks(actions: list[Action]) -> str:
    return " and ".join(f"{short(action)} of rank {action.stage}" for action in actions)
