"""A trace of a pipeline as SVG, for pages: each box says its step in full when the pointer rests on it."""
from __future__ import annotations

from html import escape

from helpers.compare.step_colours import LATER_STAGE_HEIGHT, STEP_COLOURS
from helpers.facts.schedules import parse
from helpers.facts.schedules.schedule import Action
from helpers.facts.schedules.text import short
from helpers.facts.trace import Span, Trace

WORDS = {"F": "forward", "B": "backward", "I": "gradient for the input", "W": "gradients for the weights"}
ROW, LEFT, WIDTH, LETTER = 30, 62, 900, 7.5


def svg_gantt(trace: Trace, num_ranks: int, least_units: float, unit: str = "", title: str = "") -> str:
    """A row for each rank; the axis is at least `least_units` long."""
    start = min((span.start for span in trace), default=0.0)
    length = max([least_units, *(span.end - start for span in trace)])
    scale = (WIDTH - LEFT - 10) / length
    rows = "".join(f'<text x="4" y="{ROW * rank + 20}" font-size="13">rank {rank}</text>'
                   f'<line x1="{LEFT}" x2="{WIDTH - 10}" y1="{ROW * (rank + 1)}" y2="{ROW * (rank + 1)}" '
                   'stroke="#999999" stroke-width="0.5"/>' for rank in range(num_ranks))
    first_stages = _first_stages(trace)
    boxes = "".join(_boxes(span, start, scale, first_stages[span.rank], unit) for span in trace)
    height = ROW * num_ranks + 22
    return (f'<svg viewBox="0 0 {WIDTH} {height}" width="100%" style="max-width:{WIDTH}px;background:white" role="img" '
            f'aria-label="{escape(title)}" font-family="sans-serif">{rows}{boxes}'
            f'<text x="{LEFT}" y="{height - 5}" font-size="12">0</text>'
            f'<text x="{WIDTH - 10}" y="{height - 5}" font-size="12" text-anchor="end">{length:.4g} {escape(unit)}'
            "</text></svg>")


def _boxes(span: Span, start: float, scale: float, first_stage: int, unit: str) -> str:
    parts = parse(span.label).parts
    x, width, share = LEFT + scale * (span.start - start), scale * span.duration_s, 24 / len(parts)
    drawn = []
    for number, action in enumerate(parts):
        height = share * (1 if action.stage == first_stage else LATER_STAGE_HEIGHT)
        y = ROW * span.rank + 4 + share * number + (share - height) / 2
        face, ink = STEP_COLOURS[action.kind]
        words = f"{_in_words(action)}, from {span.start - start:.4g} to {span.end - start:.4g} {unit}".strip()
        label = short(action)
        drawn.append(
            f"<g><title>{escape(words)}</title>"
            f'<rect x="{x:.2f}" y="{y:.2f}" width="{width:.2f}" height="{height:.2f}" fill="{face}" stroke="black" '
            f'stroke-width="0.6"/><text x="{x + width / 2:.2f}" y="{y + height / 2 + 4:.2f}" font-size="11" '
            f'text-anchor="middle" fill="{ink}">{label if width >= LETTER * len(label) else ""}</text></g>')
    return "".join(drawn)


def _first_stages(trace: Trace) -> dict[int, int]:
    """Of each rank's stages the first."""
    held = sorted(((span.rank, action.stage) for span in trace for action in parse(span.label).parts), reverse=True)
    return dict(held)


def _in_words(action: Action) -> str:
    return f"{WORDS[action.kind]} of microbatch {action.microbatch} in stage {action.stage}"
