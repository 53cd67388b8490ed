"""A GPT block and a small GPT in plain PyTorch, in which every tensor that backward needs can be pointed at.

    x -> norm -> qkv -> core -> projection -> dropout -> + x -> norm -> up -> GELU -> down -> dropout -> + x

    B sequences of S tokens, H the hidden size, A heads; V tokens in the vocabulary
    core, "stored"    softmax(q k^T / sqrt(H/A)) v as matrices: the probabilities [B, A, S, S] exist
    core, "flash"     PyTorch's fused kernel, which works tile by tile: they never do
    recompute         "none"; "selective": backward runs `core` forward again; "full": the whole block

Source: Radford et al., "Language Models are Unsupervised Multitask Learners" (GPT-2), 2019, section 2.3;
recomputation: Korthikanti et al., arXiv:2205.05198, sections 4 and 5.
"""
from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from helpers.facts.errors import BadValue

ATTENTIONS = ("stored", "flash")
RECOMPUTES = ("none", "selective", "full")


class Core(nn.Module):
    """Causal attention from queries, keys and values: the part without parameters, whose cost grows with S * S."""

    def __init__(self, dropout: float, attention: str):
        super().__init__()
        self.dropout, self.attention = nn.Dropout(dropout), attention

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """q, k, v [B, A, S, H/A] -> [B, A, S, H/A]"""
        if self.attention == "flash":
            return nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        future = torch.full((q.shape[2], q.shape[2]), -math.inf, dtype=q.dtype, device=q.device).triu(1)
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1]) + future
        return self.dropout(scores.softmax(-1)) @ v


class Block(nn.Module):
    """One transformer block: 12 H^2 + 13 H parameters.

    With "flash" no probability is dropped, as PyTorch's fused kernel on CPU has no dropout.
    """

    def __init__(self, hidden: int, heads: int, dropout: float = 0.0, attention: str = "stored",
                 recompute: str = "none"):
        super().__init__()
        _check(hidden, heads, attention, recompute)
        self.heads, self.recompute = heads, recompute
        self.attention_norm, self.mlp_norm = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.qkv, self.projection = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
        self.core = Core(dropout, attention)
        self.up, self.gelu, self.down = nn.Linear(hidden, 4 * hidden), nn.GELU(), nn.Linear(4 * hidden, hidden)
        self.attention_dropout, self.mlp_dropout = nn.Dropout(dropout), nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """x [B, S, H] -> [B, S, H]"""
        return again_in_backward(self._forward, x) if self.recompute == "full" else self._forward(x)

    def _forward(self, x: Tensor) -> Tensor:
        x = x + self.attention_dropout(self.projection(self._attend(self.attention_norm(x))))
        return x + self.mlp_dropout(self.down(self.gelu(self.up(self.mlp_norm(x)))))

    def _attend(self, x: Tensor) -> Tensor:
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1))
        core = again_in_backward(self.core, q, k, v) if self.recompute == "selective" else self.core(q, k, v)
        return core.transpose(1, 2).flatten(-2)


class GPT(nn.Module):
    """Token numbers [B, S] -> logits [B, S, V]; with `tied` the embedding's table is also the output layer's."""

    def __init__(self, layers: int, hidden: int, heads: int, vocab: int, max_seq: int, dropout: float = 0.0,
                 attention: str = "stored", recompute: str = "none", tied: bool = True):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocab, hidden), nn.Embedding(max_seq, hidden)
        for table in (self.tokens, self.positions):
            nn.init.normal_(table.weight, std=0.02)         # as GPT-2; a tied table of N(0, 1) gives wild logits
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.Sequential(*(Block(hidden, heads, dropout, attention, recompute) for _ in range(layers)))
        self.norm, self.output = nn.LayerNorm(hidden), nn.Linear(hidden, vocab, bias=False)
        if tied:
            self.output.weight = self.tokens.weight

    def forward(self, numbers: Tensor) -> Tensor:
        """Logits [B, S, V] of token numbers [B, S]."""
        x = self.tokens(numbers) + self.positions.weight[:numbers.shape[1]]
        return self.output(self.norm(self.blocks(self.dropout(x))))

    def loss(self, numbers: Tensor) -> Tensor:
        """Cross-entropy of every next token; numbers [B, S + 1], and the logits are made fp32 for it."""
        logits = self(numbers[:, :-1])
        return nn.functional.cross_entropy(logits.flatten(0, 1).float(), numbers[:, 1:].flatten())


def again_in_backward(function: Callable[..., Tensor], *inputs: Tensor) -> Tensor:
    """function(*inputs), of which only the inputs are kept; backward calls it once more, to its end.

    PyTorch's default stops once every kept tensor is there, so it leaves out a matrix product at the end.
    """
    return checkpoint(function, *inputs, use_reentrant=False, early_stop=False)


def _check(hidden: int, heads: int, attention: str, recompute: str) -> None:
    if hidden % heads:
        raise BadValue(f"hidden is a multiple of heads, and {hidden} is none of {heads}")
    if attention not in ATTENTIONS:
        raise BadValue(f"attention is one of {', '.join(ATTENTIONS)}, not {attention!r}")
    if recompute not in RECOMPUTES:
        raise BadValue(f"recompute is one of {', '.join(RECOMPUTES)}, not {recompute!r}")
