"""Say in words how a run went wrong: which rank, on which line, in which collective.

The only place where records of ranks become words.  Whoever wants to know more than a reader does looks at
`RankFailed.records` and `RankHung.records`.
"""
from __future__ import annotations

import signal
import sys
from pathlib import Path

from helpers.facts.errors import CourseError
from helpers.run.launch.outcome import EXITED, KILLED, RAISED, RETURNED, RaisedError, RankRecord, StackFrame
from helpers.run.launch.stack import HELPERS, without_machinery
from helpers.run.measure.place import STARTED, WAITING, Place

LOST_A_PEER = ("Connection closed by peer", "Connection reset by peer", "Broken pipe", "connectFullMesh failed")
SIZES_DIFFER = "op.preamble.length <= op.nbytes"        # gloo's abort when a message is larger than its buffer
MOST_FRAMES = 6                 # of one traceback; recursion has a thousand
DEATHS = {
    signal.SIGKILL: "was killed by SIGKILL (the system does so when memory runs out)",
    signal.SIGABRT: "aborted (SIGABRT): C++ code met a state it cannot continue from",
    signal.SIGSEGV: "crashed (SIGSEGV): C++ code read memory that is not its own",
}


class _RunStopped(CourseError, RuntimeError):
    """A run that did not come to its end; `records` has a `RankRecord` for each rank, by rank."""

    def __init__(self, words: str, records: tuple[RankRecord, ...] = ()):
        super().__init__(words)
        self.records = records

    @property
    def headline(self) -> str:
        """The first line of what it says."""
        return str(self).partition("\n")[0]


class RankFailed(_RunStopped):
    """A rank raised, exited or was killed.  Tells of the first failure, not of those that it caused."""

    def without(self, *hidden: Path) -> str:
        """What it says, without the lines of these files and folders."""
        return str(failure(self.records, hidden)) if any(r.failed for r in self.records) else str(self)

    @property
    def errors(self) -> list[RaisedError]:
        """What ranks raised, the earliest first, each before what it was raised from."""
        raised = sorted((r for r in self.records if r.error), key=lambda r: r.failed_at)
        return [error for record in raised for error in record.error.chain]


class RankHung(_RunStopped):
    """Ranks were not done at the deadline.  Tells where each one is."""

    def __init__(self, words: str, records: tuple[RankRecord, ...] = (), timeout_s: float = 0.0):
        super().__init__(words, records)
        self.timeout_s = timeout_s

    def without(self, *hidden: Path) -> str:
        """What it says, without the lines of these files and folders."""
        return str(hang(self.records, self.timeout_s, hidden)) if self.records else str(self)


def failure(records: tuple[RankRecord, ...], hidden: tuple[Path, ...] = ()) -> RankFailed:
    """Explain a run in which at least one rank failed; frames in `hidden` files and folders are left out."""
    failed = sorted((r for r in records if r.failed), key=lambda r: r.failed_at)
    causes = [r for r in failed if not lost_a_peer(r)]
    returned = [r for r in records if r.state == RETURNED]
    if not causes and returned:
        return RankFailed("\n".join([
            f"{_ranks(failed)} of {len(records)} waited for a rank that had already returned",
            *(_where(r, hidden) for r in records),
            "Every rank must make the same collective calls in the same order, with tensors of one shape and dtype."]),
            records)
    first = (causes or failed)[0]
    alike = [r for r in causes if _what_happened(r) == _what_happened(first)] or [first]
    lines = [f"{_ranks(alike)} of {len(records)} {_what_happened(first)}", *_own_lines(first, hidden)]
    lines += [f"rank {r.rank} {_what_happened(r)}, too" for r in causes if r not in alike]
    if followers := [r for r in records if r not in causes and r not in alike and r not in returned]:
        lines.append(f"{_ranks(followers)} followed: without {_ranks(alike)} the run cannot go on")
    return RankFailed("\n".join(lines), records)


def hang(records: tuple[RankRecord, ...], timeout_s: float, hidden: tuple[Path, ...] = ()) -> RankHung:
    """Explain a run that was not done at its deadline; frames in `hidden` files and folders are left out."""
    started = {r.rank: r.place.num_collectives if r.place else 0 for r in records}
    behind = min(started, key=started.get)
    lines = [f"not done after {timeout_s:g} s", *(_where(r, hidden) for r in records)]
    if any(r.place and r.place.of_a_group for r in records):
        lines.append("Some calls are of a group: only its ranks must make them, all others must not.")
    elif started[behind] < max(started.values()):
        lines.append(f"Look at rank {behind} first. Collective calls that it has started: {started[behind]}; "
                     f"another rank: {max(started.values())}.")
    elif len({r.place for r in records}) > 1:
        lines.append("The ranks are in different calls; each waits for the others to make the same one.")
    return RankHung("\n".join(lines), records, timeout_s)


def interrupted(records: tuple[RankRecord, ...]) -> str:
    """Where each rank was when the learner stopped the run."""
    return "\n".join(["interrupted", *(_where(r) for r in records)])


def too_much_printed(records: tuple[RankRecord, ...], rank: int, limit: int) -> RankFailed:
    """Explain that a rank was stopped since it printed more than `limit` bytes."""
    last = (records[rank].printed.rstrip().splitlines() or [""])[-1]
    return RankFailed(f"rank {rank} printed more than {limit / 1e6:.0f} MB and was stopped; "
                      f"its last line: {last[:200]!r}", records)


def unreadable(records: tuple[RankRecord, ...], rank: int, error: Exception) -> RankFailed:
    """Explain that what a rank returned cannot be unpickled here."""
    return RankFailed(f"what rank {rank} returned cannot be read here ({error}). "
                      "Return numbers, strings, lists, dicts or tensors.", records)


def lost_a_peer(record: RankRecord) -> bool:
    """Whether it failed only because another rank was gone."""
    return record.error is not None and any(sign in record.error.words for sign in LOST_A_PEER)


def _what_happened(record: RankRecord) -> str:
    if record.state == RAISED:
        return f"raised {record.error.words}"
    if record.state == KILLED:
        aborted = record.signal == signal.SIGABRT
        said = "".join(f"\n    {line}" for line in record.printed.splitlines()[-3:] if aborted)
        hint = "\n    The ranks gave tensors of different sizes or dtypes to one call." * (
            SIZES_DIFFER in record.printed)
        return f"{DEATHS.get(record.signal) or _killed_by(record.signal)}{said}{hint}"
    return f"ended with exit code {record.exit_code} before the program returned"


def _killed_by(number: int) -> str:
    try:
        return f"was killed by {signal.Signals(number).name}"
    except ValueError:                                  # real-time signals have no names
        return f"was killed by signal {number}"


def _own_lines(record: RankRecord, hidden: tuple[Path, ...]) -> list[str]:
    if record.state in (EXITED, KILLED):
        return [_where(record, hidden)] if record.place else []
    frames, lines, half = without_machinery(record.frames, hidden), [], MOST_FRAMES // 2
    for number, frame in enumerate(frames):
        if half <= number < len(frames) - half:
            lines += [f"  ... {len(frames) - MOST_FRAMES} more lines ..."] if number == half else []
            continue
        lines.append(f"  {_name(frame)}, line {frame.line}, in {frame.function}")
        lines += [f"    {frame.code}"] if frame.code else []
    return lines


def _where(record: RankRecord, hidden: tuple[Path, ...] = ()) -> str:
    calls = _call(record.place)
    if record.state == RETURNED:
        return f"  rank {record.rank} has returned, and {calls}"
    if not record.frames:
        return f"  rank {record.rank} {calls}; it did not answer when asked for its line"
    frames = _innermost(without_machinery(record.frames, hidden))
    return "\n    ".join([f"  rank {record.rank} {calls}", *map(_at, frames)])


def _call(place: Place | None) -> str:
    if place is None:
        return "has made no call of torch.distributed"
    verb = {WAITING: "waits in", STARTED: "has started"}.get(place.state, "is past")
    count = f"collective {place.number}"
    if place.point_to_point:
        so_far = f"; {place.num_collectives} collectives so far" if place.num_collectives else ""
        count = f"point-to-point call {place.number}{so_far}"
    return f"{verb} {place.call} ({count}{', of a group' if place.of_a_group else ''})"


def _innermost(frames: list[StackFrame]) -> list[StackFrame]:
    """The learner's last line, and where it waits inside the course's helpers, if it does."""
    if not frames:
        return []
    theirs = [number for number, frame in enumerate(frames) if HELPERS not in Path(frame.file).parents]
    return [frames[number] for number in sorted({*theirs[-1:], len(frames) - 1})]


def _at(frame: StackFrame) -> str:
    return f"{_name(frame)}, line {frame.line}, in {frame.function}" + (f": {frame.code}" if frame.code else "")


def _name(frame: StackFrame) -> str:
    """`Cell In[3]` for a notebook cell, `File "train.py"` else."""
    ipython = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    name = ipython.compile.format_code_name(frame.file) if ipython else None
    return " ".join(name) if name else f'File "{Path(frame.file).name}"'


def _ranks(records: list[RankRecord]) -> str:
    names = [str(r.rank) for r in sorted(records, key=lambda r: r.rank)]
    return f"rank {names[0]}" if len(names) == 1 else f"ranks {', '.join(names[:-1])} and {names[-1]}"
