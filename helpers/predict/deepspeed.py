"""DeepSpeed's own estimate of the memory that model state needs, with offload to the host.

                               bytes on each GPU    bytes on each host, / buffer_factor
    ZeRO-2  optimizer on host  2P                   max(4n, 16) P
            nothing on host    4P + 16P/N           4n P
    ZeRO-3  both on host       4L                   18P/m             with zero.Init, else
            optimizer on host  4L + 2P/N            16P/m             at least 4n P
            nothing on host    4L + 18P/N           4n L              with zero.Init, else 4n P

P parameters, L parameters of the largest layer, n GPUs on each of m nodes, N = nm.
2: the 16-bit parameter; 16: parameter, gradient, momentum and variance in fp32; 18: both.
4L: the gathered layer's parameters and gradients in 16 bits.  4n: without zero.Init
every process of a node first builds the whole model in fp32.
The estimator prints GB and means GiB.

Source: DeepSpeed, docs/code-docs/source/memory.rst.  For ZeRO-2 its code has since moved
on (stage_1_and_2.py at 02aa38c): 2P + 18P/N on a GPU, max(4N, 16) P on a host.
"""
from __future__ import annotations

import math
from dataclasses import dataclass

from helpers.facts.errors import BadValue
from helpers.predict.memory import buffer_bytes, recipe, state_by_term, state_bytes


@dataclass(frozen=True)
class Estimate:
    """DeepSpeed's estimate of memory per device and of host memory, in bytes."""

    gpu_bytes: float      # on each GPU
    host_bytes: float     # in the main memory of each node


def zero2_estimate(params: float, gpus_per_node: int = 1, num_nodes: int = 1, offload_optimizer: bool = True,
                   buffer_factor: float = 1.5) -> Estimate:
    """What DeepSpeed's estimator says for ZeRO-2: 2P or 4P + 16P/N bytes on a GPU, N = gpus_per_node num_nodes.

    On each host: max(4n, 16) P with the optimizer offloaded, else 4n P, times `buffer_factor`; n GPUs a node.
    Raises `BadValue` for counts below 1.  Source: as above.
    """
    _check(gpus_per_node, num_nodes, buffer_factor)
    # its 16-bit gradients stay whole and only the fp32 ones are sharded, which is stage 1 of this recipe
    on_gpu = state_bytes(params, gpus_per_node * num_nodes, 1, recipe("mixed, two gradients"))
    if offload_optimizer:
        on_gpu = state_by_term(params)["parameter"]
    per_param = max(4 * gpus_per_node, 16) if offload_optimizer else 4 * gpus_per_node
    return Estimate(on_gpu, params * per_param * buffer_factor)


def zero3_estimate(params: float, largest_layer_params: float, gpus_per_node: int = 1, num_nodes: int = 1,
                   offload_param: bool = True, offload_optimizer: bool = True, zero_init: bool = True,
                   buffer_factor: float = 1.5) -> Estimate:
    """What DeepSpeed's estimator says for ZeRO-3, by the table at the top of this module.

    largest_layer_params   L, parameters of the layer that is gathered
    zero_init              the model is built sharded, by `zero.Init`; else each process first builds all of it
    Raises `BadValue` for parameters offloaded without the optimizer, which the estimator has no case for.
    """
    _check(gpus_per_node, num_nodes, buffer_factor)
    if offload_param and not offload_optimizer:
        raise BadValue("the estimator has no case for offload_param alone; "
                         "set offload_optimizer=True too, or offload_param=False")
    layer = buffer_bytes(params, 3, largest_layer_params)
    terms = state_by_term(params, gpus_per_node * num_nodes, 3, recipe("mixed, fp32 gradients"))
    state = sum(terms.values())
    on_host = state if offload_param else state - terms["parameter"] if offload_optimizer else 0
    if zero_init:
        built = 0 if offload_optimizer else 4 * gpus_per_node * largest_layer_params
    else:
        built = 4 * gpus_per_node * params
    return Estimate(layer + (state - on_host), max(on_host * gpus_per_node, built) * buffer_factor)


def _check(gpus_per_node: int, num_nodes: int, buffer_factor: float) -> None:
    for name, count in (("gpus_per_node", gpus_per_node), ("num_nodes", num_nodes)):
        if type(count) is not int or count < 1:
            raise BadValue(f"{name} is a whole number from 1, not {count!r}")
    if not 1 <= buffer_factor < math.inf:
        raise BadValue(f"buffer_factor is 1 (nothing to spare) or more, not {buffer_factor!r}")
