"""`most_layers` as learners might write it, right and wrong; no pytest here, so that ranks need not import it."""
from fractions import Fraction

import numpy as np
import torch


# right ----------------------------------------------------------------------------------------------------------------
def solves_the_inequality(card_bytes, ranks, layer_params, other_params, reserve_bytes):
    left = card_bytes - reserve_bytes - 4 * layer_params
    return max(0, (left * ranks - 16 * other_params) // (16 * layer_params))


def tries_one_number_after_the_other(card_bytes, ranks, layer_params, other_params, reserve_bytes):
    layers = 0
    while 16 * (layers * layer_params + layer_params + other_params) / ranks <= \
            card_bytes - 4 * layer_params - reserve_bytes:
        layers += 1
    return layers


def uses_fractions(card_bytes, ranks, layer_params, other_params, reserve_bytes):
    shared = Fraction(card_bytes - reserve_bytes - 4 * layer_params) * ranks / 16
    layers = (shared - other_params) / layer_params
    return layers.numerator // layers.denominator if layers > 0 else 0


def gives_an_int_of_numpy(**case):
    return np.int64(solves_the_inequality(**case))


def empties_its_arguments(**case):
    return solves_the_inequality(*(case.pop(name) for name in
                                   ("card_bytes", "ranks", "layer_params", "other_params", "reserve_bytes")))


def gives_an_int_tensor(**case):
    return torch.tensor([solves_the_inequality(**case)])


# wrong ----------------------------------------------------------------------------------------------------------------
def forgets_the_reserve(**case):
    return solves_the_inequality(**{**case, "reserve_bytes": 0})


def forgets_the_embeddings(**case):
    return solves_the_inequality(**{**case, "other_params": 0})


def shares_nothing(**case):
    return solves_the_inequality(**{**case, "ranks": 1})


def has_half_the_state(card_bytes, ranks, layer_params, other_params, reserve_bytes):
    left = (card_bytes - reserve_bytes - 4 * layer_params) * ranks - 8 * other_params
    return max(0, left // (8 * layer_params))


def has_half_the_gathered_layer(card_bytes, layer_params, **case):
    return solves_the_inequality(card_bytes + 2 * layer_params, layer_params=layer_params, **case)


def goes_below_zero(card_bytes, ranks, layer_params, other_params, reserve_bytes):
    left = card_bytes - reserve_bytes - 4 * layer_params
    return (left * ranks - 16 * other_params) // (16 * layer_params)


def leaves_no_exact_fit(card_bytes, **case):
    return solves_the_inequality(card_bytes=card_bytes - 1, **case)


def rounds_up(card_bytes, ranks, layer_params, other_params, reserve_bytes):
    left = (card_bytes - reserve_bytes - 4 * layer_params) * ranks - 16 * other_params
    return max(0, -(-left // (16 * layer_params)))


def counts_one_layer_too_many(**case):
    return solves_the_inequality(**case) + 1


def forgets_the_gathered_layer(card_bytes, layer_params, **case):
    return solves_the_inequality(card_bytes + 4 * layer_params, layer_params=layer_params, **case)


def shares_the_gathered_layer(card_bytes, ranks, layer_params, **case):
    unshared = 4 * layer_params - 4 * layer_params // ranks
    return solves_the_inequality(card_bytes + unshared, ranks, layer_params, **case)


def keeps_the_embeddings_whole(other_params, ranks, **case):
    return solves_the_inequality(other_params=other_params * ranks, ranks=ranks, **case)


def shares_the_reserve(reserve_bytes, ranks, **case):
    return solves_the_inequality(reserve_bytes=reserve_bytes // ranks, ranks=ranks, **case)


def knows_small_cards_only(card_bytes, **case):
    return solves_the_inequality(card_bytes, **case) if card_bytes < 1000 else 0


def returns_a_whole_float(**case):
    return float(solves_the_inequality(**case))
