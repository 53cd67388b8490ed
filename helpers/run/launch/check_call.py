"""Refuse calls of `launch` that cannot work, before anything is started."""
from __future__ import annotations

import inspect
import os
from collections.abc import Callable

from helpers.facts.errors import BadValue
from helpers.run.launch import pickling
from helpers.run.measure.place import INSIDE

MOST_RANKS = 64                 # about 50 MB each


def check_and_pickle(program: Callable, world_size: int, timeout_s: float, args: tuple, kwargs: dict) -> bytes:
    """What every rank is sent, or a `ValueError` that says how to mend the call."""
    if INSIDE in os.environ:
        raise BadValue("launch cannot be called inside a rank program: the ranks are already running")
    if not callable(program):
        raise BadValue(f"launch takes a function program(rank, world_size, ...), not {program!r}: "
                       "name it without calling it, launch(program, 4)")
    if type(world_size) is not int or not 1 <= world_size <= MOST_RANKS:
        raise BadValue(f"world_size is a whole number from 1 to {MOST_RANKS}, not {world_size!r}")
    if not isinstance(timeout_s, (int, float)) or not 0 < timeout_s < 86_400:
        raise BadValue(f"timeout_s is a number of seconds above 0 and below a day, not {timeout_s!r}")
    try:
        inspect.signature(program).bind(0, world_size, *args, **kwargs)
    except (TypeError, ValueError) as error:             # ValueError: a built-in function, which has no signature
        why = str(error) or "it tells no signature"
        raise BadValue(f"launch calls program(rank, world_size, ...) with what else you gave it; {why}") from None
    try:
        return pickling.pickle_by_value((program, args, kwargs))
    except Exception as error:
        raise BadValue(f"the program and its arguments must be sent to other processes, and cannot: {error}. "
                         "Make locks, files and process groups inside the program.") from None
