"""Pipelines: a schedule, its sizes and times; what it looks like, its bubble by each definition and its memory."""
from __future__ import annotations

import ipywidgets as widgets

from helpers.compare.svg import svg_gantt
from helpers.compare.widgets.controls import choice, follow, number_field, row
from helpers.compare.words.pipeline import schedule_in_words
from helpers.facts.errors import BadValue
from helpers.facts.schedules import BUILDERS
from helpers.facts.trace import duration_s
from helpers.predict.pipeline import simulate

MOST_RANKS, MOST_MICROBATCHES = 16, 64
TIMES = [0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0]
SENDS = [0.0, 0.05, 0.1, 0.25, 0.5, 1.0]


def pipeline_explorer(schedule: str = "1F1B", ranks: int = 4, microbatches: int = 8, w: float = 1.0, send: float = 0.0,
                      overlap: float = 0.0) -> widgets.VBox:
    """Schedule, ranks, microbatches, time of W (F and I take 1), time of a message, what a pair of F and B saves."""
    controls = {"schedule": choice("schedule", list(BUILDERS), schedule), "w": choice("W takes", TIMES, w),
                "send": choice("a message", SENDS, send), "overlap": choice("F&B saves", [0.0, *TIMES[:4]], overlap)}
    controls["ranks"], rank_slider = number_field("ranks", ranks, 1, MOST_RANKS)
    controls["microbatches"], microbatch_slider = number_field("microbatches", microbatches, 1, MOST_MICROBATCHES)
    picture, words = widgets.HTML(), widgets.HTML()

    def redraw(_=None) -> None:
        chosen = {name: control.value for name, control in controls.items()}
        words.value, picture.value = _drawn(**chosen)

    follow(redraw, *controls.values())
    return widgets.VBox([row(controls["schedule"], controls["w"]), row(controls["send"], controls["overlap"]),
                         row(controls["ranks"], rank_slider), row(controls["microbatches"], microbatch_slider),
                         words, picture])


def _drawn(schedule: str, ranks: int, microbatches: int, w: float, send: float, overlap: float) -> tuple[str, str]:
    """Sentence and picture; of sizes that the schedule does not take, the reason and no picture."""
    try:
        built = BUILDERS[schedule](ranks, microbatches)
    except BadValue as error:
        return f"{error}.", ""
    trace = simulate(built, {"F": 1, "I": 1, "W": w, "F&B": 2 + w - overlap}, send_s=send)
    words = schedule_in_words(built, trace)
    return words, svg_gantt(trace, ranks, duration_s(trace), "units", words)
