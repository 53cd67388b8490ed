"""What one layer sends under each way of splitting a model, and how long a ring of links takes to carry it.

    sent by one rank of N, in elements; b sequences of s tokens, h the hidden size

    tensor parallel          4 all-reduces of b s h, half of them forward          8 b s h (N-1)/N
      sequence parallel      each an all-gather and a reduce-scatter: the same
    pipeline                 b s h to the next stage; b s h / t if the t ranks of tensor parallelism share it
    Ulysses, forward         4 all-to-alls (queries, keys, values, output)         4 s h (N-1)/N^2

    MLP of two matrices, D x F and F x D, for B tokens; 2 bytes an element, N large
                             forward      backward
    DP                       0            8 D F
    FSDP                     4 D F        8 D F
    TP                       4 B D        4 B D

    ring attention computes on a block of c tokens (4 c^2 h FLOP) while keys and values of the next one travel
    (4 c h bytes): they stay hidden if c is at least FLOP/s over bytes/s

Source: Narayanan et al., arXiv:2104.04473, section 3.2; Jacobs et al., "DeepSpeed-Ulysses", arXiv:2309.14509;
Liu, Zaharia, Abbeel, "Ring Attention", arXiv:2310.01889; the MLP and rings of links: Austin et al.,
"How to scale your model", 2025, parts 5 and 3.
"""
from __future__ import annotations

from helpers.facts.errors import BadValue
from helpers.predict.collectives import STEP_COLLECTIVES, bytes_sent

ALL_REDUCES_A_PASS = 2                  # one after attention, one after the MLP; backward, one before each
GATHER_AND_SCATTER = ("all_gather", "reduce_scatter")
MLP_COLLECTIVES = {                     # what is sent; forward; backward
    "DP": ("weights", (), STEP_COLLECTIVES[0]),
    "FSDP": ("weights", STEP_COLLECTIVES[3][:1], STEP_COLLECTIVES[3][1:]),
    "TP": ("activations", GATHER_AND_SCATTER, GATHER_AND_SCATTER),
}
RING_ATTENTION_BLOCKS = 6               # a rank's shortest sequence, in blocks, says the paper: it holds as many, for
                                        # query, output, and keys and values twice: in use and on their way


def tensor_parallel_elements(batch: float, seq: float, hidden: float, world_size: int, passes: int = 2) -> float:
    """Elements that one rank sends for a layer and a microbatch.

    `passes` is 1 for forward alone, 2 with backward, 3 if forward is also recomputed.
    """
    _check_sizes(batch=batch, seq=seq, hidden=hidden)
    if passes not in (1, 2, 3):
        raise BadValue(f"passes is 1 (forward), 2 (and backward) or 3 (and recomputed), not {passes!r}")
    return passes * ALL_REDUCES_A_PASS * bytes_sent("all_reduce", batch * seq * hidden, world_size)


def stage_boundary_elements(batch: float, seq: float, hidden: float, tensor_ranks: int = 1) -> float:
    """Elements that one rank sends to the next stage for a microbatch; as many come back as gradients.

    Each of `tensor_ranks` holds the same activations, so it may send a part of them that is gathered on arrival.
    """
    _check_sizes(batch=batch, seq=seq, hidden=hidden)
    _check_count(tensor_ranks=tensor_ranks)
    return batch * seq * hidden / tensor_ranks


def mlp_bytes(strategy: str, tokens: float, model_size: float, mlp_size: float, world_size: int,
              element_bytes: float = 2) -> tuple[float, float]:
    """Bytes that one rank sends forward, and backward, for an MLP of two matrices D x F and F x D.

    strategy     "DP", "FSDP" or "TP"
    tokens       B of a rank; the ranks of TP share the same tokens
    model_size   D, mlp_size F
    Raises `BadValue` for any other strategy or a size below 0.  Source: Austin et al., part 5.
    """
    if strategy not in MLP_COLLECTIVES:
        raise BadValue(f"no strategy {strategy!r}; there are {', '.join(MLP_COLLECTIVES)}")
    _check_sizes(tokens=tokens, model_size=model_size, mlp_size=mlp_size, element_bytes=element_bytes)
    what, *passes = MLP_COLLECTIVES[strategy]
    size = element_bytes * model_size * (2 * mlp_size if what == "weights" else tokens)
    forward, backward = (sum(bytes_sent(collective, size, world_size) for collective in each) for each in passes)
    return forward, backward


def ulysses_elements(seq: float, hidden: float, world_size: int) -> float:
    """Elements that one rank sends forward for a layer and a sequence: 4 s h (N-1)/N^2, four all-to-alls.

    Every head has its own keys and values.  Source: arXiv:2309.14509.
    """
    _check_sizes(seq=seq, hidden=hidden)
    _check_count(world_size=world_size)
    return 4 * bytes_sent("all_to_all", seq * hidden / world_size, world_size)


def smallest_ring_block(flop_per_s: float, link_bytes_per_s: float, element_bytes: float = 2) -> float:
    """Tokens of the smallest block whose computation hides the transfer of the next keys and values.

    c >= FLOP/s over bytes/s, at 2 bytes an element.  Source: arXiv:2310.01889.
    """
    _check_rates(flop_per_s=flop_per_s, link_bytes_per_s=link_bytes_per_s, element_bytes=element_bytes)
    return flop_per_s / link_bytes_per_s * element_bytes / 2


def all_gather_s(full_bytes: float, world_size: int, link_bytes_per_s: float, num_links: int = 1) -> float:
    """Seconds of an all_gather without latency: full_bytes (N-1)/N over the bandwidth of all links.

    num_links          that carry data away from a rank at once: 1 on a line, 2 on a ring, 4 on two rings
    link_bytes_per_s   of one link, in one direction
    """
    _check_rates(link_bytes_per_s=link_bytes_per_s)
    _check_count(num_links=num_links)
    return bytes_sent("all_gather", full_bytes, world_size) / (num_links * link_bytes_per_s)


def ring_all_to_all_s(global_bytes: float, world_size: int, link_bytes_per_s: float, both_ways: bool = False) -> float:
    """Seconds of an all-to-all on a ring without latency, where a piece crosses every link on its way.

    global_bytes   what all ranks hold together; N^2 pieces of it go from each rank to each
    both_ways      a piece takes the shorter way round
    """
    _check_sizes(global_bytes=global_bytes)
    _check_count(world_size=world_size)
    _check_rates(link_bytes_per_s=link_bytes_per_s)
    hops = sum(min(away, world_size - away) if both_ways else away for away in range(world_size))
    over_each_link = global_bytes / world_size**2 * hops / (2 if both_ways else 1)
    return over_each_link / link_bytes_per_s


def _check_sizes(**sizes: float) -> None:
    for name, size in sizes.items():
        if not 0 <= size < float("inf"):
            raise BadValue(f"{name} is a number from 0, not {size!r}")


def _check_rates(**rates: float) -> None:
    for name, rate in rates.items():
        if not 0 < rate < float("inf"):
            raise BadValue(f"{name} is a number above 0, not {rate!r}")


def _check_count(**counts: int) -> None:
    for name, count in counts.items():
        if type(count) is not int or count < 1:
            raise BadValue(f"{name} is a whole number from 1, not {count!r}")
