"""Bytes that the forward pass of a transformer keeps for its backward pass, tensor by tensor.

    a block keeps                    without dropout    divided by t
    norms, inputs, masks  10 s b h   8 s b h            under sequence parallelism
    q, k, v, MLP          24 s b h   24 s b h           always
    scores of attention   5 a s^2 b  2 a s^2 b          always; what selective recomputation drops

    recompute   none      s b h (10 + 24/t + 5 a s/(h t)), or s b h (34 + 5 a s/h) / t with sequence parallelism
                selective s b h (10 + 24/t), or s b h 34/t
                full      2 s b h: the block's input

s tokens a sequence, b sequences a microbatch, h hidden size, a heads, t ranks of tensor parallelism; 2 bytes an
element, 1 byte an entry of a dropout mask.  "flash" attention keeps no scores.  `PARTS` is the sum as a table.

counted="torch" is what PyTorch keeps for the block of helpers/run/transformer.py on a CPU, to the byte: entries of
masks are elements there, and norms and flash attention keep statistics, which the paper leaves out.

Source: Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models", arXiv:2205.05198,
section 4 and table 2; checkpoints: Narayanan et al., arXiv:2104.04473, section 3.5.
"""
from __future__ import annotations

import math
from dataclasses import dataclass

from helpers.facts.errors import BadValue

ATTENTIONS, COUNTS, RECOMPUTES = ("stored", "flash"), ("paper", "torch"), ("none", "selective", "full")


@dataclass(frozen=True)
class BlockShape:
    """A transformer block and the microbatch that it processes.

    seq, batch      tokens of a sequence, sequences of a microbatch
    element_bytes   bytes of an element of an activation; 2 is bf16
    attention       "stored" keeps the scores for backward; "flash" recomputes them inside its kernel
    counted         "paper" as Korthikanti et al. count, "torch" what PyTorch keeps on a CPU
    Raises `BadValue` unless sizes are whole numbers from 1.
    """

    seq: int
    batch: int
    hidden: int
    heads: int
    element_bytes: int = 2
    dropout: bool = True
    attention: str = "stored"           # or "flash", whose kernel never holds the scores
    counted: str = "paper"              # or "torch"

    def __post_init__(self):
        _check_counts(**{name: getattr(self, name) for name in ("seq", "batch", "hidden", "heads", "element_bytes")})
        check_name("attention", self.attention, ATTENTIONS)
        check_name("counted", self.counted, COUNTS)


@dataclass(frozen=True)
class SavedPart:
    """One tensor that is kept, or `num_tensors` alike; its shape in letters: "assb" is [a, s, s, b]."""

    name: str
    num_tensors: int
    shape: str
    entry: str                          # element, mask, statistic, logsumexp or logit
    divided: str = "sequence"           # by t under sequence parallelism only; "tensor": by t always
    dropped_by: str = "full"            # the least recomputation that drops it; "" for none
    needs: tuple[str, ...] = ()         # "dropout", "stored", "flash": kept if the block has all of them

    @property
    def grows_with_seq_squared(self) -> bool:
        """Whether its elements grow with the square of the sequence length."""
        return self.shape.count("s") == 2

    def num_bytes(self, block: BlockShape, vocab: int = 0) -> int:
        """On one rank alone, when nothing is recomputed."""
        has = {block.attention, "dropout" if block.dropout else ""}
        sizes = {"a": block.heads, "s": block.seq, "b": block.batch, "h": block.hidden, "v": vocab}
        if not has.issuperset(self.needs):
            return 0
        return self.num_tensors * math.prod(sizes[letter] for letter in self.shape) * _entry_bytes(block)[self.entry]


PARTS = (
    SavedPart("attention norm's input", 1, "sbh", "element", dropped_by=""),         # the input of the block
    SavedPart("attention norm's statistics", 2, "sb", "statistic"),                  # mean and reciprocal deviation
    SavedPart("qkv's input", 1, "sbh", "element"),
    SavedPart("q and k", 2, "sbh", "element", "tensor"),
    SavedPart("softmax", 1, "assb", "element", "tensor", "selective", ("stored",)),
    SavedPart("softmax dropout's mask", 1, "assb", "mask", "tensor", "selective", ("stored", "dropout")),
    SavedPart("dropped softmax", 1, "assb", "element", "tensor", "selective", ("stored", "dropout")),
    SavedPart("logsumexp of scores", 1, "asb", "logsumexp", "tensor", "selective", ("flash",)),
    SavedPart("v", 1, "sbh", "element", "tensor"),
    SavedPart("projection's input", 1, "sbh", "element", "tensor"),
    SavedPart("attention dropout's mask", 1, "sbh", "mask", needs=("dropout",)),
    SavedPart("MLP norm's input", 1, "sbh", "element"),
    SavedPart("MLP norm's statistics", 2, "sb", "statistic"),
    SavedPart("first linear's input", 1, "sbh", "element"),
    SavedPart("GELU's input", 4, "sbh", "element", "tensor"),
    SavedPart("second linear's input", 4, "sbh", "element", "tensor"),
    SavedPart("MLP dropout's mask", 1, "sbh", "mask", needs=("dropout",)),
)
BEFORE_BLOCKS = (SavedPart("embedding dropout's mask", 1, "sbh", "mask", dropped_by="", needs=("dropout",)),)
AFTER_BLOCKS = (
    SavedPart("last norm's input", 1, "sbh", "element", dropped_by=""),
    SavedPart("last norm's statistics", 2, "sb", "statistic", dropped_by=""),
    SavedPart("output layer's input", 1, "sbh", "element", dropped_by=""),
    SavedPart("logits", 1, "sbv", "logit", "tensor", dropped_by=""),
)


def block_parts(block: BlockShape, tensor_parallel: int = 1, sequence_parallel: bool = False,
                recompute: str = "none") -> dict[str, float]:
    """Bytes of each tensor that one rank keeps for a block, by the tensor's name in `PARTS`.

    tensor_parallel     ranks t that share the block
    sequence_parallel   the parts outside attention and MLP are divided by t, too
    recompute           "none", "selective" (drops attention's scores) or "full" (keeps its input); else `BadValue`
    """
    return _on_a_rank(PARTS, block, 0, tensor_parallel, sequence_parallel, recompute)


def block_bytes(block: BlockShape, tensor_parallel: int = 1, sequence_parallel: bool = False,
                recompute: str = "none") -> float:
    """Bytes that one rank keeps for a block: the sum of `block_parts`, a row of table 2 of arXiv:2205.05198.

    With 2 bytes an element and dropout: s b h (10 + 24/t + 5 a s/(h t)), or s b h (34 + 5 a s/h)/t with sequence
    parallelism.  The input that full recomputation keeps is divided by t under sequence parallelism: it arrives so.
    """
    return sum(block_parts(block, tensor_parallel, sequence_parallel, recompute).values())


def blocks_in_flight(layers: int, pipeline: int = 1, interleave: int = 1) -> float:
    """Blocks times microbatches whose activations the first of `pipeline` stages keeps at its fullest (1F1B).

    L/p blocks, p microbatches: pipelining saves nothing.  With v chunks of blocks (`interleave`) on each stage
    there are 1 + (p-1)/(p v) times as many.
    """
    _check_counts(layers=layers, pipeline=pipeline, interleave=interleave)
    if layers % (pipeline * interleave):
        raise BadValue(f"layers is a multiple of pipeline * interleave = {pipeline * interleave}, not {layers}")
    return layers * (1 + (pipeline - 1) / (pipeline * interleave)) if interleave > 1 else layers


def pipeline_stage_parts(block: BlockShape, layers: int, vocab: int = 0, pipeline: int = 1, interleave: int = 1,
                tensor_parallel: int = 1, sequence_parallel: bool = False, recompute: str = "none") -> dict[str, float]:
    """Bytes that a rank of the first stage keeps: all blocks together, then what lies outside of them.

    Without pipeline parallelism the first stage is the last one, too, and keeps what the loss needs: fp32 logits.
    """
    num_blocks = blocks_in_flight(layers, pipeline, interleave)
    outside = _on_a_rank(BEFORE_BLOCKS, block, vocab, tensor_parallel, sequence_parallel, recompute)
    outside = {name: pipeline * num_bytes for name, num_bytes in outside.items()}
    if pipeline == 1:
        outside |= _on_a_rank(AFTER_BLOCKS, block, vocab, tensor_parallel, sequence_parallel, recompute)
    return {"blocks": num_blocks * block_bytes(block, tensor_parallel, sequence_parallel, recompute), **outside}


def pipeline_stage_bytes(block: BlockShape, layers: int, vocab: int = 0, **how) -> float:
    """Bytes that a rank of the first stage keeps: the sum of `pipeline_stage_parts`, which takes `how`, too."""
    return sum(pipeline_stage_parts(block, layers, vocab, **how).values())


def checkpointed_bytes(num_checkpoints: float, layers: int, input_bytes: float, layer_bytes: float) -> float:
    """Bytes that a stage keeps with c checkpoints: c input_bytes + layers/c layer_bytes.

    The inputs of c layers are kept, and all of the layers between two while these run again: arXiv:2104.04473, 3.5.
    """
    return num_checkpoints * input_bytes + layers / num_checkpoints * layer_bytes


def best_num_checkpoints(layers: int, input_bytes: float, layer_bytes: float) -> float:
    """The c for which `checkpointed_bytes` is smallest: sqrt(layers layer_bytes / input_bytes), not rounded."""
    return math.sqrt(layers * layer_bytes / input_bytes)


def check_name(name: str, value: str, choices: tuple[str, ...]) -> None:
    """Raise `BadValue` unless `value` is one of the choices."""
    if value not in choices:
        raise BadValue(f"{name} is one of {', '.join(choices)}, not {value!r}")


def _on_a_rank(parts: tuple[SavedPart, ...], block: BlockShape, vocab: int, tensor_parallel: int,
               sequence_parallel: bool, recompute: str) -> dict[str, float]:
    _check_counts(tensor_parallel=tensor_parallel)
    check_name("recompute", recompute, RECOMPUTES)
    dropped = RECOMPUTES[1:RECOMPUTES.index(recompute) + 1]
    return {part.name: num_bytes / (tensor_parallel if part.divided == "tensor" or sequence_parallel else 1)
            for part in parts if part.dropped_by not in dropped and (num_bytes := part.num_bytes(block, vocab))}


def _entry_bytes(block: BlockShape) -> dict[str, int]:
    element, real = block.element_bytes, block.counted == "torch"
    return {"element": element, "mask": element if real else 1, "statistic": element if real else 0,
            "logsumexp": 4 if real else 0, "logit": 4}


def _check_counts(**counts: int) -> None:
    for name, count in counts.items():
        if type(count) is not int or count < 1:
            raise BadValue(f"{name} is a whole number from 1, not {count!r}")
