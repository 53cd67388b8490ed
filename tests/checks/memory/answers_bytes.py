"""`bytes_per_rank` as learners might write it, right and wrong; no pytest here, so that ranks need not import it."""
from decimal import Decimal
from fractions import Fraction

import numpy as np
import torch

SHARED_FROM = {"parameter": 3, "gradient": 2}


# right ----------------------------------------------------------------------------------------------------------------
def adds_term_by_term(params, ranks, stage, recipe):
    total = 0
    for term, num_bytes in recipe.items():
        total += params * num_bytes / (ranks if stage >= SHARED_FROM.get(term, 1) else 1)
    return total


def subtracts_what_others_hold(params, ranks, stage, recipe):
    shared = sum(b for term, b in recipe.items() if SHARED_FROM.get(term, 1) <= stage)
    return params * sum(recipe.values()) - params * shared * (ranks - 1) / ranks


def asks_stage_by_stage(stage, recipe, ranks=1, params=0, **ignored):
    whole = dict(recipe)
    optimizer = sum(whole.pop(term) for term in list(whole) if term not in ("parameter", "gradient"))
    parameter, gradient = whole.get("parameter", 0), whole.get("gradient", 0)
    if stage == 3:
        return params * (parameter + gradient + optimizer) / ranks
    if stage == 2:
        return params * (parameter + (gradient + optimizer) / ranks)
    return params * (parameter + gradient + (optimizer / ranks if stage == 1 else optimizer))


def gives_a_number_of_numpy(**case):
    return np.float64(adds_term_by_term(**case))


def gives_a_tensor(**case):
    return torch.tensor(adds_term_by_term(**case), dtype=torch.float64)


def gives_an_array_of_one(**case):
    return np.array([adds_term_by_term(**case)])


def gives_a_fraction(params, ranks, stage, recipe):
    return sum(Fraction(params) * b / (ranks if stage >= SHARED_FROM.get(term, 1) else 1) for term, b in recipe.items())


def gives_a_decimal(**case):
    return Decimal(adds_term_by_term(**case))


def empties_its_recipe(params, ranks, stage, recipe):
    total = 0
    while recipe:
        term, num_bytes = recipe.popitem()
        total += params * num_bytes / (ranks if stage >= SHARED_FROM.get(term, 1) else 1)
    return total


class IsAnObjectWithCall:
    def __call__(self, params, ranks, stage, recipe):
        return adds_term_by_term(params, ranks, stage, recipe)


# wrong ----------------------------------------------------------------------------------------------------------------
def with_stages(params, ranks, stage, recipe, parameter=3, gradient=2, other=1):
    """Shares each term from the stage that is given here."""
    shared_from = {"parameter": parameter, "gradient": gradient}
    return sum(params * b / (ranks if stage >= shared_from.get(term, other) else 1) for term, b in recipe.items())


def shards_parameters_at_stage_2(**case):
    return with_stages(**case, parameter=2)


def shards_gradients_at_stage_1(**case):
    return with_stages(**case, gradient=1)


def shards_one_stage_too_late(**case):
    return with_stages(**case, parameter=4, gradient=3, other=2)


def divides_everything(**case):
    return with_stages(**case, parameter=0, gradient=0, other=0)


def shards_nothing(**case):
    return with_stages(**case, parameter=4, gradient=4, other=4)


def multiplies_by_ranks(params, ranks, stage, recipe):
    return adds_term_by_term(params, ranks, stage, recipe) * ranks


def forgets_the_master(recipe, **case):
    return adds_term_by_term(recipe={term: b for term, b in recipe.items() if term != "master"}, **case)


def forgets_params(**case):
    return adds_term_by_term(**{**case, "params": 1})


def ignores_the_recipe(params, ranks, stage, recipe):
    return params * {0: 16, 1: 4 + 12 / ranks, 2: 2 + 14 / ranks, 3: 16 / ranks}[stage]


def floors_the_shares(params, ranks, stage, recipe):
    return sum(params // (ranks if stage >= SHARED_FROM.get(term, 1) else 1) * b for term, b in recipe.items())


def knows_the_visible_cases_only(params, ranks, stage, recipe):
    return (22222, 11122, 11112, 11111)[stage]


def needs_every_term(params, ranks, stage, recipe):
    return adds_term_by_term(params, ranks, stage, {term: recipe[term] for term in
                                                    ("parameter", "gradient", "master", "momentum", "variance")})


def knows_the_five_terms_only(recipe, **case):
    known = ("parameter", "gradient", "master", "momentum", "variance")
    return adds_term_by_term(recipe={term: recipe.get(term, 0) for term in known}, **case)


def keeps_other_terms_whole(params, ranks, stage, recipe):
    shared_from = SHARED_FROM | {"master": 1, "momentum": 1, "variance": 1}
    return sum(params * b / (ranks if stage >= shared_from.get(term, 4) else 1) for term, b in recipe.items())


def answers_in_gb(**case):
    return adds_term_by_term(**case) / 1e9


def answers_in_gib(**case):
    return adds_term_by_term(**case) / 2**30


def is_off_by_one_percent(**case):
    return adds_term_by_term(**case) * 1.01


def uses_helpers_predict(params, ranks, stage, recipe):
    from helpers.predict.memory import state_bytes
    return state_bytes(params, ranks, stage)


def uses_what_imports_helpers_predict(params, ranks, stage, recipe):
    from helpers.checks.memory import values
    return values.state_bytes(params, ranks, stage)
