"""Say in words how a run went wrong: which rank, on which line, in which collective."""
from __future__ import annotations

import linecache
import re
import signal
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from helpers.facts.errors import CourseError
from helpers.run.launch.outcome import Frame, Letter

LOST_A_PEER = re.compile(r"Connection (closed|reset) by peer|Broken pipe|connectFullMesh failed")
SIZES_DIFFER = "op.preamble.length <= op.nbytes"        # gloo's abort when a message is larger than its buffer
OWN = {str(Path(__file__).with_name(name)) for name in
       ("rank.py", "recorder.py", "forks.py", "launch.py", "request.py", "meters.py", "card.py", "parcel.py",
        "mesh.py", "queue_mesh.py", "virtual.py", "clock.py", "deadlock.py")}
HELPERS = Path(__file__).parent.parent
MOST_FRAMES = 6                 # of one traceback; recursion has a thousand
LIBRARIES = ("site-packages", "dist-packages", "<frozen", sysconfig.get_path("stdlib"))
DEATHS = {
    signal.SIGKILL: "was killed by SIGKILL (the system does so when memory runs out)",
    signal.SIGABRT: "aborted (SIGABRT): C++ code met a state it cannot continue from",
    signal.SIGSEGV: "crashed (SIGSEGV): C++ code read memory that is not its own",
}


class RankFailed(CourseError, RuntimeError):
    """A rank raised, exited or was killed.  Tells of the first failure, not of those that it caused."""


class RankHung(CourseError, RuntimeError):
    """Ranks were not done at the deadline.  Tells where each one is."""


@dataclass
class Fate:
    """How one rank fared, as far as the launcher knows."""

    rank: int
    letter: Letter | None = None    # None: nothing came home
    exit_code: int | None = None    # None: still running
    died_at: float = 0.0            # time.monotonic()
    stack: str = ""                 # faulthandler's dump
    place: str = ""                 # the recorder's last word
    printed: str = ""

    @property
    def failed(self) -> bool:
        return self.letter.error != "" if self.letter else self.exit_code is not None

    @property
    def failed_at(self) -> float:
        return self.letter.failed_at if self.letter else self.died_at

    @property
    def lost_a_peer(self) -> bool:
        return self.letter is not None and bool(LOST_A_PEER.search(self.letter.error))


def failure(fates: list[Fate]) -> RankFailed:
    """Explain a run in which at least one rank failed."""
    failed = sorted((f for f in fates if f.failed), key=lambda f: f.failed_at)
    causes = [f for f in failed if not f.lost_a_peer]
    returned = [f for f in fates if f.letter and not f.failed]
    if not causes and returned:
        return RankFailed("\n".join([
            f"{_ranks(failed)} of {len(fates)} waited for a rank that had already returned",
            *(_where(f) for f in fates),
            "Every rank must make the same collective calls in the same order, with tensors of one shape and dtype."]))
    first = (causes or failed)[0]
    alike = [f for f in causes if _what_happened(f) == _what_happened(first)] or [first]
    lines = [f"{_ranks(alike)} of {len(fates)} {_what_happened(first)}", *_own_lines(first)]
    lines += [f"rank {f.rank} {_what_happened(f)}, too" for f in causes if f not in alike]
    if followers := [f for f in fates if f not in causes and f not in alike and f not in returned]:
        lines.append(f"{_ranks(followers)} followed: without {_ranks(alike)} the run cannot go on")
    return RankFailed("\n".join(lines))


def hang(fates: list[Fate], timeout_s: float) -> RankHung:
    """Explain a run that was not done at its deadline."""
    started = {f.rank: _collectives(f.place) for f in fates}
    behind = min(started, key=started.get)
    lines = [f"not done after {timeout_s:g} s", *(_where(f) for f in fates)]
    if any(", of a group" in f.place for f in fates):
        lines.append("Some calls are of a group: only its ranks must make them, all others must not.")
    elif started[behind] < max(started.values()):
        lines.append(f"Look at rank {behind} first. Collective calls that it has started: {started[behind]}; "
                     f"another rank: {max(started.values())}.")
    elif len({f.place for f in fates}) > 1:
        lines.append("The ranks are in different calls; each waits for the others to make the same one.")
    return RankHung("\n".join(lines))


def interrupted(fates: list[Fate]) -> str:
    """Where each rank was when the learner stopped the run."""
    return "\n".join(["interrupted", *(_where(f) for f in fates)])


def _collectives(place: str) -> int:
    """How many collectives a rank had started, by the recorder's last word."""
    found = re.search(r"\(collective (\d+)|; (\d+) collectives so far", place)
    return int(found.group(1) or found.group(2)) if found else 0


def too_much_printed(fate: Fate, limit: int) -> RankFailed:
    last = (fate.printed.rstrip().splitlines() or [""])[-1]
    return RankFailed(f"rank {fate.rank} printed more than {limit / 1e6:.0f} MB and was stopped; "
                      f"its last line: {last[:200]!r}")


def _what_happened(fate: Fate) -> str:
    if fate.letter:
        return f"raised {fate.letter.error}"
    if fate.exit_code < 0:
        said = "".join(f"\n    {line}" for line in fate.printed.splitlines()[-3:]) if fate.exit_code == -6 else ""
        hint = "\n    The ranks gave tensors of different sizes or dtypes to one call." * (SIZES_DIFFER in fate.printed)
        return f"{DEATHS.get(-fate.exit_code) or _killed_by(-fate.exit_code)}{said}{hint}"
    return f"ended with exit code {fate.exit_code} before the program returned"


def _killed_by(number: int) -> str:
    try:
        return f"was killed by {signal.Signals(number).name}"
    except ValueError:                                  # real-time signals have no names
        return f"was killed by signal {number}"


def _own_lines(fate: Fate) -> list[str]:
    if fate.letter is None:
        return [_where(fate)] if fate.place else []
    frames, lines, half = _learners(fate.letter.frames), [], MOST_FRAMES // 2
    for number, frame in enumerate(frames):
        if half <= number < len(frames) - half:
            lines += [f"  ... {len(frames) - MOST_FRAMES} more lines ..."] if number == half else []
            continue
        lines.append(f"  {_name(frame)}, line {frame.line}, in {frame.function}")
        if source := linecache.getline(frame.file, frame.line).strip():
            lines.append(f"    {source}")
    return lines


def _where(fate: Fate) -> str:
    calls = fate.place or "has made no call of torch.distributed"
    if fate.letter and not fate.failed:
        return f"  rank {fate.rank} has returned, and {calls}"
    frames = fate.letter.frames if fate.letter else _parse(fate.stack)
    if not frames:
        return f"  rank {fate.rank} {calls}; it did not answer when asked for its line"
    return "\n    ".join([f"  rank {fate.rank} {calls}", *map(_at, _innermost(_learners(frames)))])


def _innermost(frames: list[Frame]) -> list[Frame]:
    """The learner's last line, and where it waits inside the course's helpers, if it does."""
    if not frames:
        return []
    theirs = [number for number, frame in enumerate(frames) if HELPERS not in Path(frame.file).parents]
    return [frames[number] for number in sorted({*theirs[-1:], len(frames) - 1})]


def _at(frame: Frame) -> str:
    source = linecache.getline(frame.file, frame.line).strip()
    return f"{_name(frame)}, line {frame.line}, in {frame.function}" + (f": {source}" if source else "")


def _parse(stack: str) -> list[Frame]:
    """The frames of the thread that runs the program, outermost first."""
    threads = stack.split("\n\n")
    ours = str(Path(__file__).with_name("rank.py"))
    dump = next((t for t in threads if ours in t and "in main" in t), threads[-1])     # else cut short; main is last
    found = re.findall(r'  File "(.*)", line (\d+) in (.*)', dump)
    return [Frame(file, int(line), function) for file, line, function in reversed(found)]


def _learners(frames: list[Frame]) -> list[Frame]:
    return [f for f in frames
            if f.file not in OWN and f.file != "<string>" and not any(part in f.file for part in LIBRARIES)]


def _name(frame: Frame) -> str:
    """`Cell In[3]` for a notebook cell, `File "train.py"` else."""
    ipython = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    name = ipython.compile.format_code_name(frame.file) if ipython else None
    return " ".join(name) if name else f'File "{Path(frame.file).name}"'


def _ranks(fates: list[Fate]) -> str:
    names = [str(f.rank) for f in sorted(fates, key=lambda f: f.rank)]
    return f"rank {names[0]}" if len(names) == 1 else f"ranks {', '.join(names[:-1])} and {names[-1]}"
