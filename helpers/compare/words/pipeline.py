"""Sentences on a pipeline's schedule."""
from __future__ import annotations

from helpers.facts.bubbles import bubble_of_ideal, bubble_of_total, bubble_rate, busy_s, idle_s
from helpers.facts.schedules import Schedule, most_held
from helpers.facts.schedules.board import Board
from helpers.facts.trace import Trace, duration_s


def schedule_in_words(schedule: Schedule, trace: Trace) -> str:
    """Length, all four bubbles by their definition, and memory; times are in units."""
    idle, most = idle_s(trace), most_held(schedule)
    return (f"{schedule.name}: {schedule.num_stages} stages on {schedule.num_ranks} ranks, "
            f"{schedule.num_microbatches} microbatches, {duration_s(trace):.4g} units. "
            f"Idle: {_range(idle)} units a rank; {bubble_of_total(trace):.2%} of total, "
            f"{bubble_of_ideal(trace):.2%} of ideal, {bubble_rate(trace):.2%} of the longest own span. "
            f"Held at most: {_range(most)} forwards{_of_stages(schedule)}.")


def board_in_words(board: Board, trace: Trace, best: Trace, best_name: str) -> str:
    """How far the board is, and, once it is full, how it compares with a schedule from the literature."""
    held = f"Held at most, by rank: {', '.join(map(str, most_held(board.placed)))}"
    held += f" of {board.cap}." if board.cap is not None else "."
    if not board.full:
        so_far = f" Length so far: {duration_s(trace):.4g}, {_idle(board, trace):.0%} of it idle." if trace else ""
        return f"{board.num_left} step{'s are' if board.num_left > 1 else ' is'} left to place.{so_far} {held}"
    return (f"Complete: {duration_s(trace):.4g} units, bubble {bubble_of_total(trace):.2%} of total; {best_name} takes "
            f"{duration_s(best):.4g} and has {bubble_of_total(best):.2%}. {held}")


def _idle(board: Board, trace: Trace) -> float:
    """Of total; ranks that have no step yet idle, too."""
    return 1 - sum(busy_s(trace)) / (board.placed.num_ranks * duration_s(trace))


def _range(values: list[float]) -> str:
    least, most = min(values), max(values)
    return f"{most:.4g}" if most - least < 1e-9 else f"{least:.4g} to {most:.4g}"


def _of_stages(schedule: Schedule) -> str:
    num_stages = len(schedule.stages_of[0])
    return "" if num_stages == 1 else f" through one of the rank's {num_stages} stages"
