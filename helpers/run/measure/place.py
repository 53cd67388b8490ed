"""Where a rank is among its calls of torch.distributed, in a small file that the launcher reads.

The recorder writes the file before and after each call, so it can be read when the rank can no longer answer.  Calls
are counted from 1 on each rank, collectives and point-to-point calls apart.
"""
from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

INSIDE = "COURSE_RANK"          # set in the environment of every rank, to its number
PLACE_BYTES = 256               # always written whole, so that nothing of an earlier place is left

WAITING, STARTED, DONE = "waiting", "started", "done"


@dataclass(frozen=True)
class Place:
    """The last call of torch.distributed that a rank has begun.

    call              its name, such as "all_reduce"
    state             WAITING inside it, STARTED (asynchronous, not waited for yet) or DONE
    number            of this call among the rank's collectives or, if it is one, among its point-to-point calls
    num_collectives   that the rank has begun so far, this one included
    point_to_point    whether it is a send or a receive
    of_a_group        whether it is a call of another group than the default one
    """

    call: str
    state: str
    number: int
    num_collectives: int
    point_to_point: bool = False
    of_a_group: bool = False


def write_place(descriptor: int, place: Place) -> None:
    """Replace what an open file says."""
    os.pwrite(descriptor, json.dumps(asdict(place)).encode().ljust(PLACE_BYTES), 0)


def read_place(path: Path) -> Place | None:
    """What a rank's file says; None if it has made no call, or was killed while it wrote."""
    try:
        return Place(**json.loads(path.read_bytes()))
    except (FileNotFoundError, ValueError):
        return None
