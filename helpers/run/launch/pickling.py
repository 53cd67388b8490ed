"""Pack what travels between the kernel and the ranks.

Functions go by value.  cloudpickle forgets the name of their file, and with it
a traceback's source lines; `pack` keeps it.
"""
from __future__ import annotations

import io
import math
from types import CodeType

import cloudpickle


def pickle_by_value(thing: object, most_bytes: float = math.inf) -> bytes:
    """`thing` as bytes; `OverflowError` as soon as they are more than `most_bytes`."""
    buffer = _Bounded(most_bytes)
    _Pickler(buffer).dump(thing)
    return b"".join(buffer.pieces)


class _Bounded(io.RawIOBase):
    def __init__(self, most_bytes: float):
        self.pieces, self.left = [], most_bytes

    def writable(self) -> bool:
        return True

    def write(self, piece) -> int:
        self.left -= len(piece)
        if self.left < 0:
            raise OverflowError
        self.pieces.append(bytes(piece))
        return len(piece)


class _Pickler(cloudpickle.Pickler):
    def reducer_override(self, obj):
        if isinstance(obj, CodeType):
            _, arguments = self.dispatch_table[CodeType](obj)
            return _code, (arguments, obj.co_filename)
        return super().reducer_override(obj)


def _code(arguments: tuple, file: str) -> CodeType:
    return CodeType(*arguments).replace(co_filename=file)
