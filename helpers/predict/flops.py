"""FLOPs of a training step of a GPT, and what a measured time says about the hardware.

                                   FLOPs of B sequences
    a block forward                24 B s h^2 + 4 B s^2 h      the second term is attention's core: q k^T and scores v
    output layer forward           2 B s h V
    backward                       twice as much as forward
    model FLOPs                    72 B s l h^2 (1 + s/6h + V/12lh)
    hardware FLOPs                 and what is computed again:
      full recomputation           every block forward: 96 B s l h^2 (1 + s/6h + V/16lh)
      selective                    every core forward: 4 B s^2 h l
    flash attention                q k^T once more in backward: 2 B s^2 h l
    model FLOPs a token (PaLM)     6 N + 12 L H Q T

    parameters                     12 l h^2 (1 + 13/12h + (V + s)/12lh)

l layers, h hidden size, s tokens a sequence, V tokens in the vocabulary; PaLM's N parameters, L layers, H heads of
size Q, T tokens a sequence.  Only matrix products count, 2 M N K each, and attention is not halved for its mask.
MFU is model FLOPs, HFU hardware FLOPs, over time * devices * peak.

Source: Narayanan et al., arXiv:2104.04473, equations 2 to 4; Korthikanti et al., arXiv:2205.05198, equations 7 and 8
(8 has s/3h for selective recomputation, which is 12 B s^2 h l, three times the core's forward: ours is what runs);
Chowdhery et al., "PaLM", arXiv:2204.02311, appendix B; Dao et al., "FlashAttention", arXiv:2205.14135, algorithm 4.
"""
from __future__ import annotations

from dataclasses import dataclass

from helpers.facts.errors import BadValue
from helpers.predict.activations import ATTENTIONS, RECOMPUTES, check_name

SECONDS_A_DAY = 24 * 60 * 60


@dataclass(frozen=True)
class Shape:
    """A GPT by what its parameters and FLOPs depend on; 0 of the vocabulary leaves embeddings and output layer out."""

    layers: int
    hidden: int
    seq: int
    vocab: int = 0
    tied: bool = True                   # the embedding's table is also the output layer's
    learned_positions: bool = True
    attention: str = "stored"           # or "flash"

    def __post_init__(self):
        for name, least in (("layers", 1), ("hidden", 1), ("seq", 1), ("vocab", 0)):
            value = getattr(self, name)
            if type(value) is not int or value < least:
                raise BadValue(f"{name} is a whole number from {least}, not {value!r}")
        check_name("attention", self.attention, ATTENTIONS)


def params_by_part(shape: Shape) -> dict[str, int]:
    """Parameters by part: 12 l h^2, 13 l h, V h (or 2 V h if not tied), s h.

    The last norm's 2 h are left out, as in the source: arXiv:2104.04473, equation 2.
    """
    return {
        "matrices": 12 * shape.layers * shape.hidden**2,            # qkv 3, projection 1, MLP 4 and 4
        "biases and norms": 13 * shape.layers * shape.hidden,       # 3 + 1 + 4 + 1, and two norms of 2
        "tokens": shape.vocab * shape.hidden * (1 if shape.tied else 2),
        "positions": shape.seq * shape.hidden if shape.learned_positions else 0,
    }


def num_params(shape: Shape) -> int:
    """Parameters of a GPT of this shape: the sum of `params_by_part`."""
    return sum(params_by_part(shape).values())


def forward_flops(shape: Shape, batch: int) -> dict[str, int]:
    """FLOPs of one forward pass over `batch` sequences, by part.

    24 B s h^2 l in linear layers, 4 B s^2 h l in attention's core, 2 B s h V in the output layer.
    """
    tokens, h = batch * shape.seq, shape.hidden
    return {
        "linears": shape.layers * 24 * tokens * h**2,
        "attention core": shape.layers * 4 * tokens * shape.seq * h,
        "output layer": 2 * tokens * h * shape.vocab,
    }


def model_flops(shape: Shape, batch: int) -> int:
    """FLOPs that a step over `batch` sequences needs: three times `forward_flops`, since backward takes two.

    72 B s l h^2 (1 + s/6h + V/12lh): arXiv:2104.04473, equation 3, without its recomputation.
    """
    return 3 * sum(forward_flops(shape, batch).values())


def recomputed_flops(shape: Shape, batch: int, recompute: str = "none") -> int:
    """FLOPs of a step that run a second time, for recompute "none", "selective" or "full".

    Selective: attention's core, 4 B s^2 h l.  Full: every block's forward.  Flash attention adds half a core.
    Raises `BadValue` for any other name.
    """
    check_name("recompute", recompute, RECOMPUTES)
    forward = forward_flops(shape, batch)
    in_the_kernel = forward["attention core"] // 2 if shape.attention == "flash" else 0
    again = {"none": 0, "selective": forward["attention core"], "full": forward["linears"] + forward["attention core"]}
    return in_the_kernel + again[recompute]


def hardware_flops(shape: Shape, batch: int, recompute: str = "none") -> int:
    """FLOPs that a step over `batch` sequences really runs: `model_flops` plus `recomputed_flops`."""
    return model_flops(shape, batch) + recomputed_flops(shape, batch, recompute)


def recomputed_share(shape: Shape, recompute: str) -> float:
    """Recomputed FLOPs over model FLOPs, 0 or more: by how much a step grows if FLOPs are what takes time."""
    return recomputed_flops(shape, 1, recompute) / model_flops(shape, 1)


def utilization(flops: float, step_s: float, num_devices: int, peak_flop_per_s: float) -> float:
    """flops / (step_s num_devices peak_flop_per_s): a share of the devices' peak, 1.0 is all of it.

    Raises `BadValue` unless time, devices and peak (FLOP/s of one device) are above 0.
    """
    _check_above_0(step_s=step_s, num_devices=num_devices, peak_flop_per_s=peak_flop_per_s)
    return flops / (step_s * num_devices * peak_flop_per_s)


def mfu(shape: Shape, batch: int, step_s: float, num_devices: int, peak_flop_per_s: float) -> float:
    """Model FLOPs utilization, a share of the peak: `model_flops` over time, devices and peak FLOP/s.

    `batch` is the global batch, in sequences.  Recomputation lowers it, since it takes time and counts for nothing.
    """
    return utilization(model_flops(shape, batch), step_s, num_devices, peak_flop_per_s)


def hfu(shape: Shape, batch: int, step_s: float, num_devices: int, peak_flop_per_s: float,
        recompute: str = "none") -> float:
    """Hardware FLOPs utilization, a share of the peak: how busy the devices are, whether the work was needed or not.

    `hardware_flops` over time, devices and peak; `batch` is the global batch, in sequences.
    """
    return utilization(hardware_flops(shape, batch, recompute), step_s, num_devices, peak_flop_per_s)


def flops_per_token(params: float, layers: int, heads: int, head_dim: int, seq: int) -> float:
    """PaLM's model FLOPs per token, 6 N + 12 L H Q T; utilization(tokens * this, ...) is its MFU.

    params N without embeddings' lookup, layers L, heads H of size Q, seq T.  Source: arXiv:2204.02311, appendix B.
    """
    return 6 * params + 12 * layers * heads * head_dim * seq


def training_days(shape: Shape, batch: int, tokens: float, num_devices: int, flop_per_s: float,
                  recompute: str = "full") -> float:
    """Days to train on `tokens`: steps times `hardware_flops`, where each device runs `flop_per_s`.

    batch        the global batch, in sequences
    flop_per_s   what a device reaches, not its peak
    recompute    "none", "selective" or "full"
    """
    steps = tokens / (batch * shape.seq)
    return utilization(steps * hardware_flops(shape, batch, recompute), SECONDS_A_DAY, num_devices, flop_per_s)


def days_by_rule(params: float, tokens: float, num_devices: int, flop_per_s: float, recompute: str = "full") -> float:
    """Days by the rule 8 T P / (n X): 2 FLOPs per parameter and token forward, 4 backward, and 2 recomputed in full.

    T tokens, P params, n devices of X FLOP/s reached; 6 T P / (n X) for recompute "none".
    Source: arXiv:2104.04473, equation 4.
    """
    check_name("recompute", recompute, ("none", "full"))
    return utilization((8 if recompute == "full" else 6) * tokens * params, SECONDS_A_DAY, num_devices, flop_per_s)


def _check_above_0(**numbers: float) -> None:
    for name, number in numbers.items():
        if not 0 < number < float("inf"):
            raise BadValue(f"{name} is a number above 0, not {number!r}")
