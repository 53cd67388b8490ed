"""Tables say the same as HTML and as text."""
import re

import pytest

from helpers.compare.table import Table, four_digits, predicted_vs_measured, savings_table, state_table
from helpers.predict.memory import state_by_term


def cells(table: Table) -> list[list[str]]:
    return [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in re.findall(r"<tr>(.*?)</tr>", table._repr_html_())]


def test_html_and_text_have_the_same_cells():
    table = predicted_vs_measured({"sent by rank 0": (6e6, 6.3e6), "none": (0, 0)}, unit="MB")
    assert cells(table) == [["", "formula, MB", "measured, MB", "ratio"],
                            ["sent by rank 0", "6", "6.3", "1.05"], ["none", "0", "0", "-"]]
    for row in cells(table):
        assert all(cell in repr(table) for cell in row)


def test_text_is_aligned():
    assert repr(predicted_vs_measured({"a": (2, 4)})) == ("   formula  measured  ratio\n"
                                                          "---------------------------\n"
                                                          "a        2         4   2.00")


@pytest.mark.parametrize(("guess", "says"), [
    (12, "You guessed 12 MB for the first row, 2 times the measurement."),
    (4.5, "You guessed 4.5 MB for the first row, 0.75 times the measurement."),
    (6.0, "You guessed 6 MB for the first row, and you were right."),
    (5.8, "You guessed 5.8 MB for the first row; it is 6 MB, so you were near."),
    (6_000_000, "right in bytes, but MB are asked for"), (0, "You guessed 0 MB for the first row; it is 6 MB."),
])
def test_a_guess_is_held_against_the_first_row(guess, says):
    table = predicted_vs_measured({"first": (6e6, 6e6), "second": (1e6, 1e6)}, guess=guess, unit="MB")
    assert says in repr(table)
    assert says in table._repr_html_()


def test_a_guess_that_is_right_by_the_formula_is_told_so_where_the_measurement_is_apart():
    table = predicted_vs_measured({"first": (27.27, 29.6)}, guess=27)
    assert repr(table).endswith("You guessed 27 for the first row: right by the formula.")


def test_columns_can_have_other_names():
    table = predicted_vs_measured({"one": (1, 1)}, columns=("formula", "simulated"))
    assert table.header[1:3] == ("formula", "simulated")


@pytest.mark.parametrize("guess", ["6", "6 MB", True, [6], -3, float("nan"), float("inf")])
def test_a_guess_that_is_no_number_is_refused(guess):
    with pytest.raises(ValueError, match="guess is a number of MB, or None"):
        predicted_vs_measured({"first": (6e6, 6e6)}, guess=guess, unit="MB")


def test_without_a_guess_nothing_is_said_about_one():
    assert "guess" not in repr(predicted_vs_measured({"first": (6e6, 6e6)}, unit="MB"))


def test_text_of_others_cannot_become_html():
    assert "<b>" not in Table(("<b>",), (("<b>",),), ("<b>",))._repr_html_()


def test_a_table_has_headers_that_a_screen_reader_announces():
    shown = Table(("what", "how much"), (("a", "1"),))._repr_html_()
    assert shown.count('<th scope="col"') == 2
    assert shown.count('<th scope="row"') == 1


def test_row_a13_the_four_sizes_of_13b():
    ledgers = {str(stage): state_by_term(13e9, 8, stage) for stage in range(4)}
    table = state_table(ledgers, limit_bytes=24e9)
    assert [row[-2:] for row in table.rows] == [("208", "no"), ("71.5", "no"), ("48.75", "no"), ("26", "no")]
    assert table.header[-1] == "below 24 GB"


def test_terms_stand_in_the_ledgers_order_and_add_up():
    table = state_table({"fp32": {"variance": 4e9, "parameter": 2e9}, "mixed": {"master": 1e9, "parameter": 1e9}})
    assert table.header == ("GB a rank", "parameter", "master", "variance", "sum")
    assert table.rows == (("fp32", "2", "0", "4", "6"), ("mixed", "1", "1", "0", "2"))


def test_row_c3_savings_are_limits():
    """4x and 8x are reached by no number of ranks; at 8 ranks it is 2.91x and 4.27x, and 8x for stage 3."""
    assert savings_table((1, 8, 1024)).rows == (
        ("1", "1.00", "1.00", "1.00"), ("8", "2.91", "4.27", "8.00"), ("1,024", "3.99", "7.95", "1,024.00"))


def test_an_unknown_unit_is_refused():
    with pytest.raises(ValueError, match="unit is one of B, KB"):
        state_table({}, unit="Gb")


@pytest.mark.parametrize(("value", "shown"), [(0, "0"), (26, "26"), (23.111, "23.11"), (1120, "1,120"), (0.05, "0.05"),
                                              (999.96, "1000"), (1234567, "1,234,567"), (2e15, "2e+15")])
def test_numbers_are_short_and_exact_enough(value, shown):
    assert four_digits(value) == shown
