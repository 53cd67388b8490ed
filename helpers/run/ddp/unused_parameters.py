"""Walk the graph that a forward has left for backward."""
from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass

from torch import Tensor, nn


def parameters_behind(output: object) -> set[nn.Parameter]:
    """The parameters that a backward from `output`, a tensor or any nesting of them, will give a gradient."""
    ahead, seen, found = [tensor.grad_fn for tensor in tensors_in(output)], set(), set()
    while ahead:
        function = ahead.pop()
        if function is None or function in seen:
            continue
        seen.add(function)
        if hasattr(function, "variable"):               # the node that adds to a leaf's .grad
            found.add(function.variable)
        ahead += [following for following, _ in function.next_functions]
    return found


def tensors_in(output: object) -> Iterator[Tensor]:
    """All tensors in nested lists, tuples, mappings and dataclasses."""
    if isinstance(output, Tensor):
        yield output
    elif isinstance(output, Mapping):
        yield from tensors_in(list(output.values()))
    elif isinstance(output, (list, tuple)):
        for part in output:
            yield from tensors_in(part)
    elif is_dataclass(output):
        yield from tensors_in([getattr(output, field.name) for field in fields(output)])
