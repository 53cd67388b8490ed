"""What playing a large pipeline takes: `python -m benchmarks.simulate`.

Seconds, and as a multiple of building its schedule, pair by pair in one run.
"""
from __future__ import annotations

import statistics
import time

from helpers.facts.schedules import Schedule, interleaved, one_f_one_b, zb_h1
from helpers.facts.schedules.durations import UNIT_DURATIONS
from helpers.predict.pipeline import simulate

SIZES = {"1F1B": lambda: one_f_one_b(64, 1024), "ZB-H1": lambda: zb_h1(64, 1024),
         "interleaved 1F1B": lambda: interleaved(16, 1024, 4)}
PAIRS = 3


def seconds(build) -> tuple[float, float, Schedule]:
    """To build a schedule, and to play it."""
    started = time.perf_counter()
    schedule = build()
    built = time.perf_counter()
    simulate(schedule, UNIT_DURATIONS)
    return built - started, time.perf_counter() - built, schedule


def main() -> None:
    for name, build in SIZES.items():
        building, playing, schedules = zip(*(seconds(build) for _ in range(PAIRS)), strict=True)
        ratio = statistics.median(play / made for made, play in zip(building, playing, strict=True))
        num_steps = sum(map(len, schedules[0].steps))
        print(f"{name}, {schedules[0].num_stages} stages, 1,024 microbatches, {num_steps:,} steps: played in "
              f"{statistics.median(playing):.2f} s, {ratio:.1f} times what building it takes")


if __name__ == "__main__":
    main()
