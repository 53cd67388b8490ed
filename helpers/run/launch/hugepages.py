"""Make this process cheap to copy.

To fork is to copy a page table, and to end is to take it down again: 50,000
entries of 4 KiB for the fork server, milliseconds each time.  Linux can put the
same memory into pages of 2 MiB, which takes 100 entries.

Source: madvise(2), MADV_COLLAPSE, since Linux 6.1.  Elsewhere nothing happens.
"""
from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator

MADV_COLLAPSE = 25
HUGE_PAGE = 2 * 2**20           # bytes


def collapse() -> int:
    """Ask for large pages under all private anonymous memory; return how many bytes got them."""
    if sys.platform != "linux":
        return 0
    libc = ctypes.CDLL(None, use_errno=True)
    return sum(HUGE_PAGE for address in list(_aligned_pieces())
               if libc.madvise(ctypes.c_void_p(address), ctypes.c_size_t(HUGE_PAGE), MADV_COLLAPSE) == 0)


def _aligned_pieces() -> Iterator[int]:
    """Start of each aligned 2 MiB inside this process's own memory."""
    with open("/proc/self/maps") as maps:
        for line in maps:
            span, rights, _, _, inode, *name = line.split()
            if rights == "rw-p" and inode == "0" and name in ([], ["[heap]"]):
                start, end = (int(edge, 16) for edge in span.split("-"))
                first = -(-start // HUGE_PAGE) * HUGE_PAGE
                yield from range(first, end - HUGE_PAGE + 1, HUGE_PAGE)
