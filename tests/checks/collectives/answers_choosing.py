"""`choose` as learners might write it, right and wrong, and the all-reduce of exercise 4.

No pytest here, so that ranks need not import it.
"""
import math

import numpy as np
import torch


def gather_and_add(mesh, tensor):
    """As the exercise gives it."""
    rank, n = mesh.rank, mesh.world_size
    travelling, incoming = tensor.clone(), torch.empty_like(tensor)
    for _ in range(n - 1):
        mesh.exchange(travelling, (rank + 1) % n, incoming, (rank - 1) % n)
        mesh.add(tensor, incoming)
        travelling, incoming = incoming, travelling


def sends_nothing(mesh, tensor):
    pass


def divides_by_zero(mesh, tensor):
    return 1 / 0


# right ----------------------------------------------------------------------------------------------------------------
def writes_out_the_formulas(num_bytes, world_size, alpha_s, beta_s):
    return min(_seconds(num_bytes, world_size, alpha_s, beta_s).items(), key=lambda item: item[1])[0]


def _seconds(num_bytes, world_size, alpha_s, beta_s, ring_steps=2, more_messages=2):
    steps = world_size.bit_length() - 1
    p, whole = 2**steps, alpha_s + num_bytes * beta_s
    more = more_messages * whole if p < world_size else 0
    return {"ring": ring_steps * (world_size - 1) * (alpha_s + num_bytes * beta_s / world_size),
            "recursive doubling": steps * whole + more,
            "halving-doubling": 2 * steps * alpha_s + 2 * (1 - 1 / p) * num_bytes * beta_s + more}


def goes_step_by_step(num_bytes, world_size, alpha_s, beta_s):
    """No formula: every message is added up."""
    doubling = halving = ring = 0.0
    p, part = 1, num_bytes
    while 2 * p <= world_size:
        p, part = 2 * p, part / 2
        doubling += alpha_s + num_bytes * beta_s
        halving += 2 * (alpha_s + part * beta_s)
    for _ in range(2 * (world_size - 1)):
        ring += alpha_s + num_bytes / world_size * beta_s
    if p != world_size:
        doubling, halving = (time + 2 * (alpha_s + num_bytes * beta_s) for time in (doubling, halving))
    return sorted([(ring, "ring"), (halving, "halving-doubling"), (doubling, "recursive doubling")])[0][1]


def takes_the_ring_within_a_percent(num_bytes, world_size, alpha_s, beta_s):
    seconds = _seconds(num_bytes, world_size, alpha_s, beta_s)
    return next(name for name, time in seconds.items() if time <= 1.009 * min(seconds.values()))


def gives_a_text_of_numpy(num_bytes, world_size, alpha_s, beta_s):
    names = np.array(["ring", "recursive doubling", "halving-doubling"])
    seconds = _seconds(num_bytes, world_size, alpha_s, beta_s)
    return names[np.argmin([seconds[name] for name in names])]


# wrong ----------------------------------------------------------------------------------------------------------------
def always_takes_the_ring(**case):
    return "ring"


def always_takes_halving_doubling(**case):
    return "halving-doubling"


def ignores_the_latency(num_bytes, world_size, alpha_s, beta_s):
    return writes_out_the_formulas(num_bytes, world_size, 0, beta_s)


def ignores_the_bytes(num_bytes, world_size, alpha_s, beta_s):
    return writes_out_the_formulas(0, world_size, alpha_s, beta_s)


def forgets_the_two_messages_more(num_bytes, world_size, alpha_s, beta_s):
    seconds = _seconds(num_bytes, world_size, alpha_s, beta_s, more_messages=0)
    return min(seconds, key=seconds.get)


def counts_one_message_more(num_bytes, world_size, alpha_s, beta_s):
    seconds = _seconds(num_bytes, world_size, alpha_s, beta_s, more_messages=1)
    return min(seconds, key=seconds.get)


def counts_one_round_of_the_ring(num_bytes, world_size, alpha_s, beta_s):
    seconds = _seconds(num_bytes, world_size, alpha_s, beta_s, ring_steps=1)
    return min(seconds, key=seconds.get)


def takes_every_number_for_a_power_of_two(num_bytes, world_size, alpha_s, beta_s):
    steps = math.log2(world_size)
    seconds = {"ring": 2 * (world_size - 1) * (alpha_s + num_bytes / world_size * beta_s),
               "recursive doubling": steps * (alpha_s + num_bytes * beta_s),
               "halving-doubling": 2 * (steps * alpha_s + num_bytes * (1 - 1 / world_size) * beta_s)}
    return min(seconds, key=seconds.get)


def knows_two_algorithms(num_bytes, world_size, alpha_s, beta_s):
    seconds = _seconds(num_bytes, world_size, alpha_s, beta_s)
    return min("ring", "recursive doubling", key=seconds.get)


def has_a_threshold(num_bytes, world_size, alpha_s, beta_s):
    return "recursive doubling" if num_bytes < 1e6 else "ring"


def takes_the_slowest(num_bytes, world_size, alpha_s, beta_s):
    seconds = _seconds(num_bytes, world_size, alpha_s, beta_s)
    return max(seconds, key=seconds.get)


def swaps_alpha_and_beta(num_bytes, world_size, alpha_s, beta_s):
    return writes_out_the_formulas(num_bytes, world_size, beta_s, alpha_s)


def knows_eight_ranks_only(num_bytes, world_size, alpha_s, beta_s):
    return "recursive doubling" if num_bytes * beta_s < alpha_s else \
        "halving-doubling" if world_size in (8, 64) else "ring"


def misspells_a_name(**case):
    return writes_out_the_formulas(**case).replace(" ", "-").replace("-d", " d").title()


def returns_the_seconds(**case):
    return min(_seconds(**case).values())


def returns_all_seconds(**case):
    return _seconds(**case)


def uses_the_courses_formulas(num_bytes, world_size, alpha_s, beta_s):
    from helpers.predict.collectives import cost
    return cost("ring_all_reduce", 8, world_size, num_bytes / 8)


class EqualsEveryName(str):
    def __eq__(self, other):
        return True

    __hash__ = str.__hash__


def returns_what_equals_every_name(**case):
    return EqualsEveryName("ring")
