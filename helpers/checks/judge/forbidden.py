"""What exercises forbid: packages that know the answer.  Where an answer is checked, they cannot be imported.

Each exercise set names one of these lists; a test imports every entry, first as it is and then forbidden.
"""
from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from helpers.run.launch.outcome import RaisedError

FORMULAS = ("helpers.predict", "helpers.compare", "helpers.checks")
COLLECTIVES = (*FORMULAS, "helpers.run.collectives")
DDP = (*FORMULAS, "helpers.run.ddp", "helpers.run.commands")
SAMPLERS = (*FORMULAS, "helpers.run.data_sharding", "helpers.facts.data_sharding")
MEANS = (*FORMULAS, "helpers.run.data_sharding")
ZERO = (*FORMULAS, "helpers.run.zero", "helpers.run.commands")
SCHEDULES = (*FORMULAS, "helpers.facts.schedules", "torch.distributed.pipelining")
SPLIT_BACKWARD = (*FORMULAS, "helpers.run.pipeline", "torch.distributed.pipelining")

_here: tuple[str, ...] = ()     # forbidden in this process


@contextmanager
def forbidding(packages: tuple[str, ...]) -> Iterator[None]:
    """Inside the block, importing them or what is in them raises in this process, also where it is loaded already.

    For a process of its own: afterwards they are there again, since what a check returns must be packed.
    """
    global _here
    before, _here = dict(sys.modules), packages
    taken = []
    for name in packages:
        for each in [name, *(other for other in before if other.startswith(f"{name}."))]:
            sys.modules[each] = None
            package, _, module = each.rpartition(".")
            if before.get(package) and module in vars(before[package]):     # `from package import module` looks there
                taken.append((before[package], module, vars(before[package]).pop(module)))
    try:
        yield
    finally:
        for each in [each for each, module in sys.modules.items() if module is None]:
            del sys.modules[each]
        sys.modules.update(before)
        for package, name, module in taken:
            setattr(package, name, module)


def forbidden_import(error: RaisedError, packages: tuple[str, ...] | None = None) -> str | None:
    """Which of the packages (None: of those forbidden in this process) an error is about, if it is an import of one."""
    for each in error.chain:
        for name in _here if packages is None else packages:
            if f"{each.module}.".startswith(f"{name}."):
                return name
    return None
