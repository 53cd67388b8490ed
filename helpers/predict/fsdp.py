"""What a training step of FSDP2 sends, and what it holds at its fullest moment, by units.

A unit is what one call of `fully_shard` shards together.  Its parameters are gathered
before they are used, and its gradients are reduced together.

    all_gathers        2 K, or K without reshard_after_forward
    reduce_scatters    K
    bytes sent         (2 or 1) all-gathers of P parameters, a reduce-scatter of P gradients

At the fullest moment, beside the shards of parameters and optimizer state (one tensor a unit, fp32):

    K > 1, reshard     backward of the last unit but one:   4 u + (K - 1) u / N
    K > 1, no reshard  backward of the last unit:           (K + 2) u + u / N
    K = 1              backward, gradients of T tensors:    2 u + u / T + u / N

K  units of equal size                   N  ranks
P  parameters of the model               u  bytes of a unit's parameters, 4 P / K
T  equal tensors in a unit

What is counted is what PyTorch 2.13 does on gloo.  gloo's reduce-scatter sends what an
all-reduce sends and works on a copy of its input, one u of the above.  Tensors whose
rows do not divide by N are padded and copied, which is not counted.

Source: PyTorch, torch/distributed/fsdp/_fully_shard; each formula is measured in tests/run/test_fsdp.py.
"""
from __future__ import annotations

import math
from dataclasses import dataclass

from helpers.facts.errors import BadValue
from helpers.predict.collectives import bytes_sent
from helpers.predict.memory import DTYPE_BYTES

FP32 = DTYPE_BYTES["fp32"]
ADAM = 2 * FP32                     # momentum and variance of a parameter


@dataclass(frozen=True)
class Sharding:
    """A model of equal units, and how FSDP2 shards it; shards of all kinds are fp32.

    params           parameters of the whole model
    num_units        calls of `fully_shard`, one for each equal part
    tensors_a_unit   equal tensors in a unit
    Raises `BadValue` for sizes that cannot be, or a dtype that is unknown.
    """

    params: float
    num_units: int
    ranks: int
    reshard: bool = True            # reshard_after_forward
    tensors_a_unit: int = 1
    param_dtype: str = "fp32"       # of what is gathered and computed with: MixedPrecisionPolicy
    reduce_dtype: str = "fp32"      # of what is reduced

    def __post_init__(self):
        if not 0 < self.params < math.inf:
            raise BadValue(f"params is the number of parameters, such as 8e9, not {self.params!r}")
        for name, least in (("num_units", 1), ("ranks", 2), ("tensors_a_unit", 1)):
            if type(value := getattr(self, name)) is not int or value < least:
                raise BadValue(f"{name} is a whole number from {least}, not {value!r}")
        for name in ("param_dtype", "reduce_dtype"):
            if (value := getattr(self, name)) not in DTYPE_BYTES:
                raise BadValue(f"{name} is one of {', '.join(DTYPE_BYTES)}, not {value!r}")

    @property
    def num_gathers(self) -> int:
        """How often a step gathers a unit."""
        return 2 if self.reshard else 1

    @property
    def gathered(self) -> float:
        """Bytes of a unit's parameters, gathered."""
        return self.params / self.num_units * DTYPE_BYTES[self.param_dtype]

    @property
    def reduced(self) -> float:
        """Bytes of a unit's gradients, as they are reduced."""
        return self.params / self.num_units * DTYPE_BYTES[self.reduce_dtype]

    @property
    def cast(self) -> float:
        """Bytes of a unit's shard in the dtype in which it is gathered; fp32 needs no copy."""
        return 0.0 if self.param_dtype == "fp32" else self.gathered / self.ranks


def num_collectives(sharding: Sharding) -> dict[str, int]:
    """Calls in a training step of K units: 2 K all_gathers, or K without resharding, and K reduce_scatters."""
    return {"all_gather": sharding.num_gathers * sharding.num_units, "reduce_scatter": sharding.num_units}


def step_bytes_sent(sharding: Sharding, gloo: bool = False) -> float:
    """Bytes that a rank sends in a training step: (2 or 1) P (N-1)/N gathered, P (N-1)/N reduced, in their dtypes.

    With `gloo`, whose reduce_scatter sends as much as an all_reduce, reduction counts twice.
    """
    gathers = sharding.num_gathers * bytes_sent("all_gather", sharding.gathered * sharding.num_units, sharding.ranks)
    reduction = "all_reduce" if gloo else "reduce_scatter"
    return gathers + bytes_sent(reduction, sharding.reduced * sharding.num_units, sharding.ranks)


def forward_parts(sharding: Sharding) -> dict[str, float]:
    """Bytes beside the shards at forward's fullest moment: when a unit has arrived and is unpacked.

    "gathered" are parameters, "message" the buffers they travel in.
    """
    unit, kept = sharding.gathered, 0 if sharding.reshard else max(0, sharding.num_units - 1)
    buffers = 1 if sharding.num_units == 1 else 2           # the previous unit's is kept until this one is unpacked
    return {"gathered": unit * (1 + kept), "message": unit * buffers + sharding.cast}


def backward_parts(sharding: Sharding) -> dict[str, float]:
    """Bytes beside the shards at backward's fullest moment, by kind: gathered, gradient, message, gradient_shard."""
    moments = [_reducing(sharding, done) for done in {0, max(0, sharding.num_units - 2), sharding.num_units - 1}]
    if sharding.reshard and sharding.num_units > 1:
        moments.append(_fetching(sharding))
    return max(moments, key=lambda parts: sum(parts.values()))


def _reducing(sharding: Sharding, done: int) -> dict[str, float]:
    """A unit's gradients are being reduced, after those of `done` others; the next unit is there already."""
    left = sharding.num_units - 1 - done
    waiting = min(left, 1) if sharding.reshard else left
    return {"gathered": sharding.gathered * waiting,
            "gradient": sharding.gathered / sharding.tensors_a_unit,    # the last of them is let go of late
            "message": 2 * sharding.reduced,                            # packed, and gloo's copy
            "gradient_shard": done * _gradient_shard(sharding) + sharding.reduced / sharding.ranks}


def _fetching(sharding: Sharding) -> dict[str, float]:
    """The first unit arrives while the second computes and the third's message is not let go of yet."""
    done = sharding.num_units - 2
    message = 2 * sharding.gathered + sharding.cast + (sharding.reduced if done else 0)
    return {"gathered": sharding.gathered, "message": message, "gradient_shard": done * _gradient_shard(sharding)}


def _gradient_shard(sharding: Sharding) -> float:
    return sharding.params / sharding.num_units * FP32 / sharding.ranks


def passing_parts(sharding: Sharding) -> dict[str, float]:
    """Bytes beside the shards in the fullest moment of a step, by kind, without activations.

    The larger of `forward_parts` and `backward_parts`.
    """
    return max(forward_parts(sharding), backward_parts(sharding), key=lambda parts: sum(parts.values()))


def passing_bytes(sharding: Sharding) -> float:
    """Bytes that live only for a moment, at the fullest one: the sum of `passing_parts`."""
    return sum(passing_parts(sharding).values())


def peak_parts(sharding: Sharding) -> dict[str, float]:
    """All bytes that a rank holds in the fullest moment of a step with Adam, by kind, without activations.

    "parameter_shard" 4 P/N and "adam_shard" 8 P/N live all the time; the others are `passing_parts`.
    """
    return {"parameter_shard": sharding.params * FP32 / sharding.ranks,
            "adam_shard": sharding.params * ADAM / sharding.ranks} | passing_parts(sharding)


def peak_bytes(sharding: Sharding) -> float:
    """Bytes that a rank holds at the fullest moment of a step: the sum of `peak_parts`."""
    return sum(peak_parts(sharding).values())
