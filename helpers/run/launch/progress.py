"""What a run shows while and after it runs: a line that counts seconds, then what the ranks printed."""
from __future__ import annotations

import sys
import time
import uuid

QUIET_S = 2.0                   # no line for runs shorter than this
MOST_LINES = 60                 # shown per rank; `Run.printed` has them all


class Progress:
    """One line such as `4 ranks: 3 of 30 s`, gone when the run is over.

    Shown in a notebook and on a terminal, nowhere else.  In a notebook it
    begins and ends as an empty display, so that no stored output holds it.
    """

    def __init__(self, num_ranks: int, started: float, timeout_s: float):
        self.num_ranks, self.started, self.timeout_s = num_ranks, started, timeout_s
        self.seconds = 0        # last shown
        self.display_id = ""

    def __enter__(self) -> Progress:
        return self

    def show(self) -> None:
        """Show or renew the line, once a second, after the first two seconds."""
        seconds = time.monotonic() - self.started
        if seconds > QUIET_S and int(seconds) > self.seconds:
            self.seconds = int(seconds)
            self._write(f"{self.num_ranks} ranks: {self.seconds} of {self.timeout_s:g} s")

    def __exit__(self, *exception) -> None:
        if self.seconds:
            self._write("")

    def _write(self, line: str) -> None:
        if publish := _notebook():
            if not self.display_id:
                self.display_id = uuid.uuid4().hex
                publish({}, transient={"display_id": self.display_id})
            publish({"text/plain": line} if line else {}, transient={"display_id": self.display_id}, update=True)
        elif sys.stdout.isatty():
            sys.stdout.write(f"\r{line}" if line else "\r\033[K")
            sys.stdout.flush()


def show_printed(printed: list[str]) -> None:
    """Print what the ranks printed, in rank order, each line with its rank.

    On stdout, since nbgrader gives no points to a cell that writes to stderr.
    """
    for rank, text in enumerate(printed):
        lines = text.splitlines()
        left_out = len(lines) - MOST_LINES
        if left_out > 0:
            half = MOST_LINES // 2
            lines[half:-half] = [f"... {left_out:,} lines left out; Run.printed[{rank}] has them ..."]
        for line in lines:
            print(f"[rank {rank}] {line[:2000]}")


def _notebook():
    """The kernel's publish function if there is a kernel, else None."""
    ipython = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return ipython.display_pub.publish if hasattr(ipython, "kernel") else None
