"""Data that can be read without running anything: what a judge takes from processes that it does not trust.

    encode({"shape": (2, 3)}) -> bytes        decode(bytes) -> {"shape": (2, 3)}

Known are None, bool, int, float, complex, str, bytes, lists, tuples, sets, dicts, tensors, dtypes and sizes of torch,
and data classes of this course.  A pickle, in contrast, may run any function when it is read.
"""
from __future__ import annotations

import base64
import dataclasses
import json
import sys
from typing import Any

OURS = "helpers."               # classes of these modules alone are made again, and only if they are imported already
MOST_DEPTH = 100                # of things in things


class NotPlain(ValueError):
    """A value that is none of the known kinds, or bytes that are no such value."""


def encode(value: object) -> bytes:
    """The value as JSON; raises `NotPlain` for what is not known."""
    try:
        return json.dumps(_packed(value, 0)).encode()
    except RecursionError:
        raise NotPlain("things are nested too deeply") from None


def decode(data: bytes) -> Any:
    """The value that was encoded; raises `NotPlain` for anything else, whoever made it."""
    try:
        return _unpacked(json.loads(data), 0)
    except NotPlain:
        raise
    except Exception as error:              # whatever hostile bytes make json, torch or a data class stumble over
        raise NotPlain(f"not a value in this form: {type(error).__name__}") from None


def _packed(value: object, depth: int) -> object:
    if depth > MOST_DEPTH:
        raise NotPlain("things are nested too deeply")
    kind = type(value)
    if value is None or kind in (bool, int, float, str):
        return value
    if kind in _PACK:
        return {kind.__name__: _PACK[kind](value, depth + 1)}
    if dataclasses.is_dataclass(kind) and kind.__module__.startswith(OURS):
        fields = {f.name: _packed(getattr(value, f.name), depth + 1) for f in dataclasses.fields(kind) if f.init}
        return {"data": [kind.__module__, kind.__qualname__, fields]}
    if kind.__module__.partition(".")[0] == "torch":
        return _packed_torch(value)
    raise NotPlain(f"a {kind.__name__} is no plain value")


def _each(values: object, depth: int) -> list:
    return [_packed(value, depth) for value in values]


_PACK = {
    list: _each, tuple: _each, set: _each, frozenset: _each,
    dict: lambda value, depth: [[_packed(key, depth), _packed(one, depth)] for key, one in value.items()],
    bytes: lambda value, _: base64.b64encode(value).decode(),
    complex: lambda value, _: [value.real, value.imag],
}


def _packed_torch(value: object) -> dict:
    import torch  # not above: a notebook kernel that only launches has no need for it

    if isinstance(value, torch.Size):
        return {"size": list(value)}
    if isinstance(value, torch.dtype):
        return {"dtype": str(value).removeprefix("torch.")}
    if not isinstance(value, torch.Tensor) or value.layout != torch.strided:
        raise NotPlain(f"a {type(value).__name__} is no plain value")
    flat = value.detach().cpu().contiguous().reshape(-1)
    data = flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""
    return {"tensor": [str(value.dtype).removeprefix("torch."), list(value.shape), base64.b64encode(data).decode()]}


def _unpacked(packed: object, depth: int) -> Any:
    if depth > MOST_DEPTH:
        raise NotPlain("things are nested too deeply")
    if not isinstance(packed, dict):
        if isinstance(packed, list):
            raise NotPlain("a list without its kind")
        return packed
    (name, content), = packed.items()
    return _UNPACK[name](content, depth + 1)


def _parts(content: list, depth: int) -> list:
    return [_unpacked(one, depth) for one in content]


def _data(content: list, depth: int) -> object:
    module, name, fields = content
    kind = getattr(sys.modules[module], name) if module.startswith(OURS) else None
    if not (isinstance(kind, type) and dataclasses.is_dataclass(kind) and kind.__module__ == module):
        raise NotPlain(f"{module}.{name} is no data class of this course")
    return kind(**{field: _unpacked(one, depth) for field, one in fields.items()})


def _dtype(content: str, depth: int = 0) -> object:
    import torch

    if not isinstance(found := getattr(torch, content), torch.dtype):
        raise NotPlain(f"{content} is no dtype")
    return found


def _tensor(content: list, depth: int) -> object:
    import torch

    dtype, shape, data = _dtype(content[0]), content[1], bytearray(base64.b64decode(content[2]))
    return torch.frombuffer(data, dtype=dtype).reshape(shape) if data else torch.empty(shape, dtype=dtype)


def _size(content: list, depth: int) -> object:
    import torch

    return torch.Size(content)


_UNPACK = {
    "list": _parts, "tuple": lambda content, depth: tuple(_parts(content, depth)),
    "set": lambda content, depth: set(_parts(content, depth)),
    "frozenset": lambda content, depth: frozenset(_parts(content, depth)),
    "dict": lambda content, depth: {_unpacked(key, depth): _unpacked(one, depth) for key, one in content},
    "bytes": lambda content, _: base64.b64decode(content), "complex": lambda content, _: complex(*content),
    "size": _size, "dtype": _dtype, "tensor": _tensor, "data": _data,
}
