"""The schedule builder: place steps by mouse or keyboard, be told why one is illegal, and play the result for real."""
from __future__ import annotations

import re
from collections.abc import Callable
from html import escape

import ipywidgets as widgets

from helpers.compare.svg import svg_gantt
from helpers.compare.widgets.controls import row
from helpers.compare.words.pipeline import board_in_words
from helpers.facts.bubbles import bubble_of_total
from helpers.facts.errors import CourseError
from helpers.facts.schedules import one_f_one_b, zb_h1
from helpers.facts.schedules.board import Board, IllegalMove, action_kinds, empty_board, place, undo
from helpers.facts.schedules.durations import UNIT_DURATIONS
from helpers.facts.trace import Span, Trace, duration_s
from helpers.predict.pipeline import simulate
from helpers.run.commands.pipeline import one_step
from helpers.run.launch import launch

UNIT_S = 0.05                       # of a real run


def schedule_builder(num_ranks: int = 3, num_microbatches: int = 4, split: bool = False,
                     cap: int | None = None) -> widgets.VBox:
    """An empty board; with `split`, backward is I and W; `cap`: the most microbatches that a rank may hold."""
    return _Builder(empty_board(num_ranks, num_microbatches, split, cap)).view


class _Builder:
    """The board and what shows it; every control ends in `_change`."""

    def __init__(self, board: Board):
        self.start = self.board = board
        self.picture, self.words, self.said, self.measured = (widgets.HTML() for _ in range(4))
        self.run = _button("run on real ranks", self._run, disabled=True)
        rows = [self._controls(rank) for rank in range(board.rules.num_ranks)]
        clear = _button("clear", lambda _: self._change(lambda _: self.start))
        self.view = widgets.VBox([*rows, row(clear, self.run), self.said, self.words, self.picture, self.measured])
        self._show()

    def _controls(self, rank: int) -> widgets.HBox:
        """A button for each kind of step, one to take back, and a field for typed steps, such as F0 F1 B0."""
        buttons = [_button(f"{kind} on rank {rank}", lambda _, kind=kind: self._change(lambda b: place(b, rank, kind)))
                   for kind in action_kinds(self.board)]
        back = _button(f"undo on rank {rank}", lambda _: self._change(lambda b: undo(b, rank)))
        field = widgets.Text(description=f"rank {rank}", placeholder="or type: F0 F1, Enter", continuous_update=False)
        field.observe(lambda change: self._typed(rank, field, change["new"]), names="value")
        return row(*buttons, back, field)

    def _typed(self, rank: int, field: widgets.Text, text: str) -> None:
        """Place what was typed, up to the first step that is illegal; that one and the rest are said, not kept."""
        steps = re.findall(r"[^\s,]+", text)
        while steps and self._change(lambda b: place(b, rank, steps[0])):
            del steps[0]
        if steps:
            self.said.value += f" Not placed: {escape(' '.join(steps))}."
        field.value = ""                        # so that the same text can be entered once more

    def _change(self, change: Callable[[Board], Board]) -> bool:
        try:
            self.board = change(self.board)
        except IllegalMove as error:
            self.said.value = f'<span role="alert"><b>Not possible:</b> {escape(str(error))}.</span>'
            return False
        self.said.value = self.measured.value = ""
        self._show()
        return True

    def _show(self) -> None:
        placed = self.board.placed
        trace = simulate(placed, UNIT_DURATIONS)
        best = (zb_h1 if "W" in action_kinds(self.board) else one_f_one_b)(placed.num_ranks, placed.num_microbatches)
        best_trace = simulate(best, UNIT_DURATIONS)
        self.words.value = board_in_words(self.board, trace, best_trace, best.name)
        self.picture.value = svg_gantt(trace, placed.num_ranks, duration_s(best_trace), "units", self.words.value)
        self.run.disabled = not self.board.full

    def _run(self, _) -> None:
        self.run.disabled, self.measured.value = True, "running ..."
        try:
            self.measured.value = _played(self.board)
        except CourseError as error:
            self.measured.value = str(error)
        finally:
            self.run.disabled = False


def _played(board: Board) -> str:
    """What real ranks made of the schedule: a sentence and a picture, in the board's units."""
    placed, seconds = board.placed, {kind: UNIT_S * units for kind, units in UNIT_DURATIONS.items()}
    parts = launch(one_step, placed.num_ranks, placed, seconds).results
    trace: Trace = [Span(s.rank, s.kind, s.start / UNIT_S, s.end / UNIT_S, s.label) for p in parts for s in p.trace]
    words = (f"Played by {placed.num_ranks} processes at {UNIT_S * 1e3:.0f} ms a unit: {duration_s(trace):.4g} units, "
             f"bubble {bubble_of_total(trace):.2%} of total. Gradients differ from one process by at most "
             f"{max(part.worst for part in parts):.0e}.")
    return words + svg_gantt(trace, placed.num_ranks, duration_s(trace), "units", words)


def _button(name: str, react: Callable, disabled: bool = False) -> widgets.Button:
    button = widgets.Button(description=name, disabled=disabled)
    button.on_click(react)
    return button
