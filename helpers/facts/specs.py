"""Numbers about models and cards, each with its source.

A spec is a frozen record: copy it with `dataclasses.replace` to try another number.
"""
from __future__ import annotations

from dataclasses import dataclass

from helpers.facts.errors import BadValue
from helpers.facts.units import GiB


@dataclass(frozen=True)
class ModelSpec:
    """A model by what its memory depends on: numbers of parameters, and where they are from."""

    name: str
    num_params: float
    block_params: float         # of one transformer block, FSDP's usual unit; 0 where the source has no shape
    source: str


@dataclass(frozen=True)
class TransformerSpec:
    """A GPT by what its activations depend on: counts of layers, heads and vocabulary; its MLP is 4 hidden wide."""

    name: str
    layers: int
    hidden: int
    heads: int
    vocab: int
    source: str


@dataclass(frozen=True)
class CardSpec:
    """An accelerator's memory in bytes, as its maker states it."""

    name: str
    memory_bytes: float
    source: str


def _llama_block(hidden: int, ffn: int, heads: int, kv_heads: int) -> int:
    """Parameters of one block: q and o, k and v, three MLP matrices, two norms."""
    return 2 * hidden**2 + 2 * hidden * hidden * kv_heads // heads + 3 * hidden * ffn + 2 * hidden


MODELS = (
    ModelSpec("GPT-2 1.5B", 1.5e9, 0, "ZeRO, arXiv:1910.02054, section 3.1"),
    ModelSpec("Llama 2 7B", 6_738_415_616, _llama_block(4096, 11008, 32, 32),
          "Llama 2, arXiv:2307.09288; count and shape: its config.json (32 layers, hidden 4096)"),
    ModelSpec("ZeRO 7.5B", 7.5e9, 0, "ZeRO, arXiv:1910.02054, figure 1"),
    ModelSpec("Llama 3.1 8B", 8_030_261_248, _llama_block(4096, 14336, 32, 8),
          "Llama 3, arXiv:2407.21783, table 3: 32 layers, hidden 4096"),
    ModelSpec("70B", 70e9, 0, "this course's example"),
    ModelSpec("Llama 3.1 70B", 70_553_706_496, _llama_block(8192, 28672, 64, 8),
          "Llama 3, arXiv:2407.21783, table 3: 80 layers, hidden 8192"),
    ModelSpec("BLOOM 176B", 176_247_271_424, 0, "BigScience, tr11-176B-ml README"),
    ModelSpec("Llama 3.1 405B", 405e9, _llama_block(16384, 53248, 128, 8),
          "Llama 3, arXiv:2407.21783, table 3: 126 layers, hidden 16384"),
)

_MEGATRON, _KORTHIKANTI = "Narayanan et al., arXiv:2104.04473, table 1", "Korthikanti et al., arXiv:2205.05198, table 3"
TRANSFORMERS = (
    TransformerSpec("GPT 1.7B", 24, 2304, 24, 51200, _MEGATRON),
    TransformerSpec("GPT 7.5B", 36, 4096, 32, 51200, _MEGATRON),
    TransformerSpec("GPT 22B", 48, 6144, 64, 51200, _KORTHIKANTI),
    TransformerSpec("GPT-3 175B", 96, 12288, 96, 51200, _KORTHIKANTI),
    TransformerSpec("MT-NLG 530B", 105, 20480, 128, 51200, _KORTHIKANTI),
)

CARDS = (
    CardSpec("24 GB, GeForce RTX 4090", 24 * GiB, "NVIDIA, GeForce RTX 4090 specifications"),
    CardSpec("40 GB, A100", 40 * GiB, "NVIDIA, A100 datasheet"),
    CardSpec("80 GB, H100", 80 * GiB, "NVIDIA, H100 datasheet"),
)


def model(name: str) -> ModelSpec:
    """The model of MODELS that has this name, such as "Llama 3.1 8B"; else raises `BadValue`, which lists them."""
    return _find(MODELS, "model", name)


def transformer(name: str) -> TransformerSpec:
    """The GPT of TRANSFORMERS that has this name, such as "GPT 22B"; else raises `BadValue`, which lists them."""
    return _find(TRANSFORMERS, "transformer", name)


def card(name: str) -> CardSpec:
    """The card of CARDS that has this name, such as "80 GB, H100"; else raises `BadValue`, which lists them."""
    return _find(CARDS, "card", name)


def _find(specs: tuple, kind: str, name: str):
    for spec in specs:
        if spec.name == name:
            return spec
    raise BadValue(f"no {kind} {name!r}; there are {', '.join(repr(s.name) for s in specs)}")
