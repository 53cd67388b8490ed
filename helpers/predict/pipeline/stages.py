"""What each stage of a GPT computes and holds, by how many blocks it has.

The first stage also has the embedding: V h parameters, and a lookup instead of a matrix product.  The last one also
has the output layer: V h parameters again, and 2 B s h V FLOPs.

    forward of a block      24 B s h^2 + 4 B s^2 h       parameters 12 h^2 + 13 h
    output layer            2 B s h V                    V h

l blocks, h hidden, s tokens a sequence, B sequences, V vocabulary.

Source: Narayanan et al., arXiv:2104.04473, equations 2 and 3.
"""
from __future__ import annotations

from collections.abc import Sequence

from helpers.facts.errors import BadValue
from helpers.predict.flops import Shape, forward_flops, params_by_part


def stage_flops(shape: Shape, blocks: Sequence[int], batch: int = 1) -> list[float]:
    """Forward FLOPs of each stage for `batch` sequences: 24 B s h^2 + 4 B s^2 h a block, 2 B s h V in the last.

    blocks   how many each stage has, which add up to shape.layers; else `BadValue`
    """
    _check(shape, blocks)
    parts = forward_flops(shape, batch)
    of_block = (parts["linears"] + parts["attention core"]) / shape.layers
    last = len(blocks) - 1
    return [of_block * count + parts["output layer"] * (stage == last) for stage, count in enumerate(blocks)]


def stage_params(shape: Shape, blocks: Sequence[int]) -> list[float]:
    """Parameters of each stage: 12 h^2 + 13 h a block, V h + s h in the first, V h in the last.

    Embedding and output layer are two tables, even where they are tied.  `blocks` as in `stage_flops`.
    """
    _check(shape, blocks)
    parts, table = params_by_part(shape), shape.vocab * shape.hidden
    of_block = (parts["matrices"] + parts["biases and norms"]) / shape.layers
    last = len(blocks) - 1
    return [of_block * count + (table + parts["positions"]) * (stage == 0) + table * (stage == last)
            for stage, count in enumerate(blocks)]


def _check(shape: Shape, blocks: Sequence[int]) -> None:
    if sum(blocks) != shape.layers or min(blocks, default=-1) < 0:
        raise BadValue(f"blocks are those of each stage and add up to the {shape.layers} layers, not {list(blocks)}")
