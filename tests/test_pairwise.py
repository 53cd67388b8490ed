"""Any two values meet, in few rows."""
import itertools

import pytest

from tests.pairwise import pairwise

OPTIONS = [((2, 3, 4), ("fp32", "bf16"), (True, False)), (range(6), range(4), range(4)), ((1, 2), (1, 2)), ((1, 2, 3),)]


@pytest.mark.parametrize("options", OPTIONS[:3])
def test_any_two_values_of_any_two_options_meet(options):
    rows = pairwise(*options)
    for (i, one), (j, other) in itertools.combinations(enumerate(options), 2):
        assert {(row[i], row[j]) for row in rows} == set(itertools.product(one, other))


@pytest.mark.parametrize(("options", "at_most"), list(zip(OPTIONS, (6, 24, 4, 0), strict=True)))
def test_rows_are_few(options, at_most):
    """The two largest options must meet: 6, 24, 4; and one option meets none."""
    assert len(pairwise(*options)) <= at_most


def test_a_row_that_is_not_allowed_does_not_come_and_what_meets_elsewhere_does():
    rows = pairwise((1, 2, 3), "ab", "xy", allowed=lambda number, letter, _: (number, letter) != (1, "a"))
    assert {row[:2] for row in rows} == {(1, "b"), (2, "a"), (2, "b"), (3, "a"), (3, "b")}
    assert {row[0::2] for row in rows} == set(itertools.product((1, 2, 3), "xy"))
    assert {row[1:] for row in rows} == set(itertools.product("ab", "xy"))


def test_what_has_met_in_given_rows_need_not_meet_again():
    given = [(2, way) for way in "abc"]
    assert sorted(pairwise((2, 4), "abc", given=given)) == [(4, "a"), (4, "b"), (4, "c")]
