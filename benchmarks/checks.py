"""What the checks of all exercise sets cost, in CPU seconds of all cores, with the author's own answers.

A rank's fork server is nobody's child that is waited for, so the time of the whole machine counts: run it on a quiet
one.  Each set runs in a process of its own; each check cell runs three times, and the median counts.
"""
import statistics
import subprocess
import sys

import psutil

from tests.checks import cells

TIMES = 3


def busy_s() -> float:
    """CPU seconds of all cores since the machine was started, idle ones left out."""
    times = psutil.cpu_times()
    return sum(times) - times.idle - getattr(times, "iowait", 0) - getattr(times, "guest", 0)


def measure(name: str) -> None:
    """Print each check cell of a set, and its seconds."""
    from helpers.run.launch import warm_up

    namespace: dict = {"__name__": "__main__"}
    for cell in cells.solved(name):
        if cell.name == "setup":
            cells.run_one(cell, namespace)
            warm_up()
            continue
        seconds = []
        for _ in range(TIMES if cell.points else 1):
            before = busy_s()
            cells.run_one(cell, namespace)
            seconds.append(busy_s() - before)
        if cell.points:
            print(cell.name, statistics.median(seconds), flush=True)


def main() -> None:
    if len(sys.argv) > 1:
        measure(sys.argv[1])
        return
    everything = []
    for source in sorted(cells.SOURCES.glob("*.py")):
        done = subprocess.run([sys.executable, "-m", "benchmarks.checks", source.stem], check=True,
                              capture_output=True, text=True).stdout
        found = {name: float(seconds) for name, seconds in map(str.split, done.splitlines())}
        everything += found.values()
        print(f"{source.stem}: " + ", ".join(f"{name} {seconds:.2f}" for name, seconds in found.items()), flush=True)
    print(f"{len(everything)} check cells: mean {statistics.mean(everything):.2f} CPU s, all {sum(everything):.1f}")


if __name__ == "__main__":
    main()
