"""Pack what travels between the kernel and the ranks.

Functions go to the ranks by value.  cloudpickle forgets the name of their file, and with it a traceback's source lines;
`pickle_by_value` keeps it.  What ranks send home is pickled, too, unless the launcher does not trust them: reading a
pickle may run any function, reading plain data none.
"""
from __future__ import annotations

import io
import math
import pickle
from types import CodeType
from typing import Any

import cloudpickle

from helpers.run.launch import plain_data


def pickle_by_value(thing: object, most_bytes: float = math.inf) -> bytes:
    """`thing` as bytes; `OverflowError` as soon as they are more than `most_bytes`."""
    buffer = _Bounded(most_bytes)
    _Pickler(buffer).dump(thing)
    return b"".join(buffer.pieces)


def pack_home(thing: object, plain: bool, most_bytes: float = math.inf) -> bytes:
    """What a rank sends home; `plain` for a launcher that does not trust it."""
    if not plain:
        return pickle_by_value(thing, most_bytes)
    data = plain_data.encode(thing)
    if len(data) > most_bytes:
        raise OverflowError
    return data


def unpack_home(data: bytes, plain: bool) -> Any:
    """What a rank has sent home, which packed it with the same `plain`."""
    return plain_data.decode(data) if plain else pickle.loads(data)


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
