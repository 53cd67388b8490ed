"""What exercises forbid: packages that know the answer.  Where an answer is checked, they cannot be imported.

Each exercise set names one of these lists; a test imports every entry, first as it is and then forbidden.
"""
from __future__ import annotations

import sys

from helpers.run.launch.outcome import RaisedError

FORMULAS = ("helpers.predict", "helpers.compare")
COLLECTIVES = (*FORMULAS, "helpers.run.collectives")
DDP = (*FORMULAS, "helpers.run.ddp", "helpers.run.commands")
SAMPLERS = (*FORMULAS, "helpers.run.data_sharding", "helpers.facts.data_sharding")
MEANS = (*FORMULAS, "helpers.run.data_sharding")
ZERO = (*FORMULAS, "helpers.run.zero", "helpers.run.commands")
SCHEDULES = (*FORMULAS, "helpers.facts.schedules", "torch.distributed.pipelining")
SPLIT_BACKWARD = (*FORMULAS, "helpers.run.pipeline", "torch.distributed.pipelining")

_here: tuple[str, ...] = ()     # forbidden in this process


def forbid(packages: tuple[str, ...]) -> None:
    """From now on, importing them or what is in them raises in this process, also where it is loaded already."""
    global _here
    _here = packages
    for name in packages:
        for each in [name, *(other for other in sys.modules if other.startswith(f"{name}."))]:
            sys.modules[each] = None
            package, _, module = each.rpartition(".")
            if sys.modules.get(package):
                vars(sys.modules[package]).pop(module, None)        # `from package import module` looks here first


def forbidden_import(error: RaisedError, packages: tuple[str, ...] | None = None) -> str | None:
    """Which of the packages (None: of those forbidden in this process) an error is about, if it is an import of one."""
    for each in error.chain:
        for name in _here if packages is None else packages:
            if f"{each.module}.".startswith(f"{name}."):
                return name
    return None
