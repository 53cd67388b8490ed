"""GB and GiB are 7.4 % apart; this course writes the one it means.

    GB  = 1e9 bytes    papers, network speeds, `16P` arithmetic
    GiB = 2**30 bytes  memory: nvidia-smi, torch.cuda, the operating system

Source: IEC 80000-13 (binary prefixes).
"""
from __future__ import annotations

from helpers.facts.errors import BadValue

KB, MB, GB, TB = 1e3, 1e6, 1e9, 1e12
KiB, MiB, GiB, TiB = 2**10, 2**20, 2**30, 2**40
UNITS = {"B": 1, "KB": KB, "MB": MB, "GB": GB, "TB": TB, "KiB": KiB, "MiB": MiB, "GiB": GiB, "TiB": TiB}


def in_unit(num_bytes: float, unit: str, digits: int = 4) -> str:
    """`num_bytes` in one of UNITS (B, KB to TB, KiB to TiB): `in_unit(26e9, "GB")` is `"26 GB"`.

    To `digits` significant digits, but the whole part is kept whole.  Raises `BadValue` for another unit.
    """
    if unit not in UNITS:
        raise BadValue(f"unit is one of {', '.join(UNITS)}, not {unit!r}")
    value = num_bytes / UNITS[unit]
    text = f"{value:,.0f}" if abs(value) >= 10**digits - 0.5 else f"{value:,.{digits}g}"
    return f"{text} {unit}"
