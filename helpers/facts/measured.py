"""What meters have counted on one rank: bytes on the wire, and bytes of memory."""
from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Wire:
    """Bytes that one rank sent and received, and who counted them."""

    sent: int = 0                   # a float where elements stand for more bytes than they have: virtual_mesh.py
    received: int = 0
    counted_by: str = "kernel"      # or "calls", "mesh", "virtual clock"


@dataclass
class Memory:
    """Bytes by which one rank's memory has grown."""

    tensors: int = 0                # storages of all tensors that Python can reach
    private: int = 0                # given to this process by the kernel
