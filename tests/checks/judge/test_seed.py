"""Unseen cases are the same for a class, others for another class, and known to nobody who has not the seed."""
import pytest

from helpers.checks.judge import seed
from helpers.checks.memory import functions
from tests.checks.memory.answers_bytes import adds_term_by_term
from tests.checks.outcome import outcome


@pytest.fixture
def another_class():
    """Draws as for another class, from when it is called."""
    before = seed._seed
    yield lambda: seed.use(b"of another class")
    seed.use(before)


def knows_the_cases_of_one_class():
    """A function that is right for all cases that are unseen today, and for no others."""
    known = {str((case["params"], case["ranks"], case["stage"])): functions._bytes_per_rank(**case)
             for case in functions._drawn_recipes()}

    def bytes_per_rank(params, ranks, stage, recipe):
        shared = {"parameter": 3, "gradient": 2}
        if ranks in (3, 64, 1024):                      # the figures of papers, and the fixed odd cases
            return sum(params * each / (ranks if stage >= shared.get(term, 1) else 1) for term, each in recipe.items())
        return known[str((params, ranks, stage))]

    return bytes_per_rank


def test_draws_depend_on_the_seed_and_on_what_is_drawn(another_class):
    first = [seed.draws_for("a").random(), seed.draws_for("b").random()]
    assert first[0] != first[1]
    assert [seed.draws_for("a").random(), seed.draws_for("b").random()] == first
    another_class()
    assert seed.draws_for("a").random() not in first


def test_a_table_of_one_classs_cases_gets_nothing_for_them_in_another(another_class):
    table = knows_the_cases_of_one_class()
    assert outcome(functions.check_bytes_per_rank_unseen, table)[0] == 2
    another_class()
    points, words = outcome(functions.check_bytes_per_rank_unseen, table)
    assert (points, "KeyError" in words) == (1, True)


@pytest.mark.parametrize("number", range(5))
def test_a_right_answer_is_right_for_every_class(another_class, number):
    another_class()
    seed.use(bytes([number]))
    assert outcome(functions.check_bytes_per_rank_unseen, adds_term_by_term)[0] == 2
    cases = [functions.draws_for("most_layers").randint(0, 10**9) for _ in range(2)]
    assert cases[0] == cases[1]
