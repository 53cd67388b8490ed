"""Schedules as text: what is written is read again, and an error says where."""
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.facts.errors import BadValue
from helpers.facts.schedules import Action, Pair, dualpipe, from_csv, grid, one_f_one_b, parse, to_csv
from tests.facts.schedules.test_schedules import BUILT

ACTIONS = st.builds(Action, st.sampled_from("FBIW"), st.integers(0, 300), st.integers(0, 2000))


@given(st.one_of(ACTIONS, st.builds(Pair, ACTIONS, ACTIONS)))
def test_a_step_is_read_as_it_was_written(step):
    assert parse(str(step)) == step
    assert parse(f"  {step}\n") == step


def test_a_step_is_written_as_in_pytorch():
    assert str(Action("F", 2, 5)) == "2F5"
    assert str(Pair(Action("F", 0, 4), Action("B", 7, 1))) == "(0F4;7B1)OVERLAP_F_B"


@pytest.mark.parametrize("text", ["", "F0", "0f1", "0X1", "-1F0", "0F", "0F0 0F1", "(0F1)OVERLAP_F_B", "(0F1;7B1)",
                                  "((0F0;0B0)OVERLAP_F_B;1B0)OVERLAP_F_B"])
def test_what_is_no_step_is_refused_with_the_two_forms(text):
    with pytest.raises(BadValue, match=r"write stage, kind \(F, B, I or W\) and microbatch, as in 2F5; or two"):
        parse(text)


@given(BUILT)
def test_a_schedule_survives_its_csv(schedule):
    assert from_csv(to_csv(schedule), schedule.name) == schedule


def test_the_csv_has_a_line_for_each_rank():
    assert to_csv(one_f_one_b(2, 2)) == "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n"


def test_empty_cells_are_bubbles_and_are_left_out():
    assert from_csv("0F0,0F1,,,0B0,,0B1\n,1F0,1B0,1F1, ,1B1").steps == one_f_one_b(2, 2).steps


@pytest.mark.parametrize(("text", "says"), [
    ("0F0,0B0\n1F0,1C0", "line 2, cell 2: '1C0' is no action"),
    ("0F0,,B0", "line 1, cell 3: 'B0' is no action"),
    ("", "no actions: write a line for each rank"),
    ("\n,,\n", "no actions: write a line for each rank"),
])
def test_a_mistake_in_a_csv_is_named_with_its_place(text, says):
    with pytest.raises(BadValue, match=says):
        from_csv(text)


def test_a_grid_names_stages_only_where_a_rank_holds_several():
    assert grid(one_f_one_b(2, 1)) == "rank 0 | F0  .  . B0\nrank 1 |  . F0 B0"
    first = grid(dualpipe(2, 4)).splitlines()[0]
    assert first == "rank 0 |     0F0     1F2     0F1     1B2 1F3&0B0     1B3     0I1     0W1"


def test_rows_of_a_grid_start_in_one_column():
    assert {row.index("|") for row in grid(one_f_one_b(11, 1)).splitlines()} == {8}


def test_a_grid_shows_what_is_marked_and_what_never_starts():
    stuck = from_csv("0F0,0B0,0F1,0B1\n1F1,1F0,1B0,1B1")
    assert grid(stuck, marked=(1, 0)).splitlines() == [
        "rank 0 | F0  stuck: B0 F1 B1", "rank 1 |   stuck: >F1< F0 B0 B1"]
