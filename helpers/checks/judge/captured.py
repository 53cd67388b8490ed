"""What a learner's function brings along from outside: helpers, globals, closures, defaults.

Only what travels by value counts; what is imported from a module is imported again over there.
"""
from __future__ import annotations

import contextlib
import dis
import functools
import re
import sys
from collections.abc import Iterator
from types import CodeType, FunctionType, MethodType

MOST_OBJECTS = 200_000          # that are looked at
MOST_STEPS = 50                 # of orders that an honest function has at hand
KINDS = frozenset("FBIW")
STEP = re.compile(r"\b\d*[FBIW]\d+\b")


@contextlib.contextmanager
def without_annotations(function: object) -> Iterator[None]:
    """For the time being, functions that travel have none: `-> list[Action]` uses nothing, and would be imported."""
    annotated = [(each, each.__annotations__) for each in reached(function)
                 if isinstance(each, FunctionType) and _by_value(each) and each.__annotations__]
    try:
        for each, _ in annotated:
            each.__annotations__ = {}
        yield
    finally:
        for each, annotations in annotated:
            each.__annotations__ = annotations


def captured_table(function: object) -> str | None:
    """Words about a table of steps, such as ("F", 3), that the function brings along."""
    if (count := num_steps(function)) <= MOST_STEPS:
        return None
    names = [name for each in reached(function) for name, value in _outside(each).items()
             if not callable(value) and num_steps(value) > MOST_STEPS]
    return (f"the function brings along {f'{names[0]}, ' if names else ''}a table of {count:,} steps from outside, or "
            "what earlier calls have left there: it has to work its steps out from its arguments alone")


def num_steps(thing: object) -> int:
    """Steps in all that is reached: pairs such as ("F", 3), and text such as F3 or 0F3."""
    return sum(len(STEP.findall(each)) if isinstance(each, str) else _is_step(each) for each in reached(thing))


def reached(thing: object) -> Iterator[object]:
    """The thing and all that travels with it by value, each once."""
    seen, waiting = set(), [thing]
    while waiting and len(seen) < MOST_OBJECTS:
        each = waiting.pop()
        if id(each) not in seen:
            seen.add(id(each))
            yield each
            waiting.extend(_parts(each))


def _is_step(thing: object) -> bool:
    if not isinstance(thing, (list, tuple)) or len(thing) not in (2, 3):
        return False
    others = [one for one in thing if not (isinstance(one, str) and one in KINDS)]
    return len(others) == len(thing) - 1 and all(isinstance(one, int) or hasattr(one, "__index__") for one in others)


def _parts(thing: object) -> list[object]:
    if isinstance(thing, dict):
        return [*dict.keys(thing), *dict.values(thing)]
    for kind in (list, tuple, set, frozenset):
        if isinstance(thing, kind):
            return list(kind.__iter__(thing))
    if isinstance(thing, functools.partial):
        return [thing.func, thing.args, thing.keywords]
    if isinstance(thing, MethodType):
        return [thing.__func__, thing.__self__]
    if isinstance(thing, FunctionType):
        return [*_outside(thing).values(), thing.__defaults__, thing.__kwdefaults__, vars(thing)]
    if isinstance(thing, (staticmethod, classmethod)):
        return [thing.__func__]
    if isinstance(thing, property):
        return [thing.fget, thing.fset]
    if isinstance(thing, type):
        return list(vars(thing).values()) if _by_value(thing) else []
    return list(vars(thing).values()) if hasattr(thing, "__dict__") and _by_value(type(thing)) else []


def _outside(function: object) -> dict[str, object]:
    """By name, the variables of other scopes that a function reads."""
    if not isinstance(function, FunctionType) or not _by_value(function):
        return {}
    found = {name: function.__globals__[name] for name in _names(function.__code__) if name in function.__globals__}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):           # a cell that is still empty
            found[name] = cell.cell_contents
    return found


def _names(code: CodeType) -> Iterator[str]:
    """Of globals, also in functions within."""
    yield from (step.argval for step in dis.get_instructions(code) if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"))
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _names(inner)


def _by_value(thing: type | FunctionType) -> bool:
    """Whether it is from a cell, or from within a function, and so of no module that could be imported."""
    module = getattr(thing, "__module__", None)
    is_cells = module in (None, "__main__") or module not in sys.modules or (
        module == "builtins" and isinstance(thing, FunctionType))
    return is_cells or "<" in thing.__qualname__
