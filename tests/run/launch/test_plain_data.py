"""Plain data comes back as it was, and nothing else is ever made of what somebody has sent."""
import math

import pytest
import torch

from helpers.facts.measured import Wire
from helpers.facts.trace import Span
from helpers.run.launch.outcome import RaisedError, StackFrame
from helpers.run.launch.plain_data import NotPlain, decode, encode

VALUES = [None, True, 3, -2.5, math.inf, "text", "\ud800", b"\0\xff", 1j, [1, [2]], (1, (2,)), {1, 2}, frozenset({3}),
          {"a": 1, (1, 2): [None]}, torch.Size([2, 3]), torch.bfloat16, Wire(3, 4, "kernel"),
          Span(0, "F", 0.0, 1.0, "F0"), RaisedError("E", "words", None, (StackFrame("f", 1, "g"),))]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_it_comes_back(value):
    assert decode(encode(value)) == value
    assert type(decode(encode(value))) is type(value)


@pytest.mark.parametrize("tensor", [torch.randn(3, 4), torch.randn(4, 3).T, torch.tensor(2), torch.empty(0, 3),
                                    torch.randn(2).bfloat16(), torch.tensor([True]),
                                    torch.randn(2, requires_grad=True)])
def test_tensors_come_back(tensor):
    back = decode(encode(tensor))
    assert (back.dtype, back.shape) == (tensor.dtype, tensor.shape)
    assert torch.equal(back, tensor.detach())


def test_nan_comes_back():
    assert math.isnan(decode(encode(math.nan)))


@pytest.mark.parametrize("value", [len, object(), type, math, (x for x in ()), [lambda: 1], pytest.param(
    torch.eye(2).to_sparse(), id="sparse")])
def test_what_is_not_plain_is_refused(value):
    with pytest.raises(NotPlain):
        encode(value)


def test_deep_nesting_is_refused():
    deep = []
    for _ in range(10_000):
        deep = [deep]
    with pytest.raises(NotPlain):
        encode(deep)


@pytest.mark.parametrize("data", [
    b"", b"[1]", b"{}", b'{"a": 1}', b'{"tuple": 3}', b'{"data": ["os", "system", {}]}', b"[" * 100_000,
    b'{"data": ["helpers.run.launch.outcome", "field", {}]}', b'{"data": ["helpers.facts.measured", "Wire", {"x": 1}]}',
    b'{"data": ["helpers.run.launch.launcher", "launch", {}]}',
    b'{"dtype": "load"}', b'{"tensor": ["float32", [9], "AAAA"]}', b'{"tensor": ["float32", [-1, 2], ""]}',
    b"cposix\nsystem\n(S'true'\ntR."])
def test_nothing_is_made_of_what_is_no_such_value(data):
    with pytest.raises(NotPlain):
        decode(data)
