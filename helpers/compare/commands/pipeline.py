"""What `python -m helpers pipeline` prints."""
from __future__ import annotations

from helpers.compare.table import Table
from helpers.compare.text_gantt import text_gantt
from helpers.facts.bubbles import bubble_of_ideal, bubble_of_total
from helpers.facts.errors import BadValue
from helpers.facts.schedules import BUILDERS, most_held
from helpers.facts.schedules.durations import UNIT_DURATIONS
from helpers.facts.trace import duration_s
from helpers.predict.pipeline import simulate
from helpers.run.commands.pipeline import PipelineResult, one_step_of
from helpers.run.commands.torchrun import launch_or_join

RANKS, SHORTEST_MS, LONGEST_MS = 4, 5, 1000
LONGEST_STEP_S = 20                 # `launch` waits for 30 s, and a busy machine takes longer than simulated


def pipeline(world_size: int | None, name: str, num_microbatches: int, unit_ms: float) -> tuple[str, Table] | None:
    """Both Gantts as text, and the table; None on ranks of torchrun other than 0."""
    if name not in BUILDERS:
        raise BadValue(f"--schedule is one of {', '.join(BUILDERS)}, not {name!r}")
    if not SHORTEST_MS <= unit_ms <= LONGEST_MS:
        raise BadValue(f"--unit-ms is from {SHORTEST_MS} to {LONGEST_MS}, not {unit_ms:g}")
    schedule = BUILDERS[name](world_size or RANKS, num_microbatches)    # refuses sizes before anything is started
    seconds = {kind: units * unit_ms / 1e3 for kind, units in UNIT_DURATIONS.items()}
    if (length_s := duration_s(simulate(schedule, seconds))) > LONGEST_STEP_S:
        raise BadValue(f"this would take {length_s:.0f} s, and at most {LONGEST_STEP_S} are waited for: take a smaller "
                       "--unit-ms or --num-microbatches")
    parts = launch_or_join(one_step_of, world_size, RANKS, name, num_microbatches, seconds)
    return None if parts is None else _report(name, num_microbatches, seconds, parts)


def _report(name: str, num_microbatches: int, seconds: dict[str, float], parts: list[PipelineResult],
            ) -> tuple[str, Table]:
    schedule = BUILDERS[name](len(parts), num_microbatches)
    traces = {"simulated": simulate(schedule, seconds), "measured": [span for part in parts for span in part.trace]}
    unit_s = seconds["F"]
    drawn = "\n\n".join(f"{title}, {1e3 * unit_s:g} ms a forward\n{text_gantt(trace, unit_s)}"
                        for title, trace in traces.items())
    lengths, totals, ideals = ([measure(trace) for trace in traces.values()]
                               for measure in (duration_s, bubble_of_total, bubble_of_ideal))
    rows = (("length", *(f"{length:.3f} s" for length in lengths)),
            ("bubble, of total", *(f"{total:.2%}" for total in totals)),
            ("bubble, of ideal", *(f"{ideal:.2%}" for ideal in ideals)))
    return drawn, Table((f"{name}, {len(parts)} ranks, {num_microbatches} microbatches", *traces), rows, (
        f"Forwards held at most, by rank: {', '.join(map(str, most_held(schedule)))}.",
        f"Loss {sum(part.loss for part in parts):.6f}, of one process {parts[0].loss_alone:.6f}; gradients differ by "
        f"at most {max(part.worst for part in parts):.0e} of the largest."))
