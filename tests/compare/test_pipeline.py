"""Pictures, words, SVG and widgets of lessons 09 and 10."""
import re
from dataclasses import replace
from xml.etree import ElementTree

import matplotlib
import pytest

from helpers.compare.commands.pipeline import pipeline
from helpers.compare.plots import bubble_curves, held_strip, pipeline_gantt, pipeline_picture, png
from helpers.compare.step_colours import STEP_COLOURS
from helpers.compare.svg import svg_gantt
from helpers.compare.text_gantt import text_gantt
from helpers.compare.widgets import pipeline_explorer, schedule_builder
from helpers.compare.words.pipeline import board_in_words, schedule_in_words
from helpers.facts.errors import BadValue
from helpers.facts.schedules import dualpipe, gpipe, interleaved, one_f_one_b, zb_h2
from helpers.facts.schedules.board import empty_board, place
from helpers.predict.pipeline import simulate

matplotlib.use("agg")
UNITS = {"F": 1, "I": 1, "W": 1, "B": 2}


def later(trace, factor):
    return [replace(span, start=5 + factor * span.start, end=5 + factor * span.end) for span in trace]


def boxes(axes):
    return [(round(bar.get_x(), 6), round(bar.get_width(), 6)) for bar in axes.patches]


def test_each_span_is_a_box_of_its_length_with_its_letter_and_microbatch():
    trace = simulate(one_f_one_b(2, 2), UNITS)
    axes = pipeline_gantt({"simulated": trace}, "units")
    assert sorted(boxes(axes)) == sorted((span.start, span.duration_s) for span in trace)
    assert sorted(text.get_text() for text in axes.texts) == sorted(["F0", "F1", "B0", "B1"] * 2)
    assert axes.get_title() == "simulated: 9 units"
    assert [label.get_text() for label in axes.get_yticklabels()] == ["rank 0", "rank 1"]
    png(axes)


def test_two_traces_start_together_and_the_second_says_how_much_later_it_ends():
    trace = simulate(gpipe(2, 2), UNITS)
    axes = pipeline_gantt({"simulated": trace, "measured": later(trace, 1.1)}, "units")
    assert axes.get_title() == "simulated: 9 units, measured: 9.9 units (+10.0%)"
    assert [label.get_text() for label in axes.get_yticklabels()] == [
        "rank 0 simulated", "rank 0 measured", "rank 1 simulated", "rank 1 measured"]
    assert {"+0.9", "+0.7", "ends later by"} <= {text.get_text() for text in axes.texts}
    assert min(left for left, _ in boxes(axes)) == 0
    png(axes)


def test_overlapping_steps_share_the_height_and_further_stages_are_less_high():
    axes = pipeline_gantt({"": simulate(dualpipe(2, 4), UNITS)}, "units")
    heights = {round(bar.get_height(), 3) for bar in axes.patches}
    assert heights == {0.86, 0.602, 0.43, 0.301}
    png(axes)


def test_colours_differ_in_grey_and_each_letter_has_one():
    def grey(colour):
        red, green, blue = matplotlib.colors.to_rgb(colour)
        return 0.299 * red + 0.587 * green + 0.114 * blue

    greys = sorted(grey(face) for face, _ in STEP_COLOURS.values())
    assert set(STEP_COLOURS) == set("FBIW")
    assert greys[1] - greys[0] > 0.2                    # W against B and I
    assert greys[3] - greys[2] > 0.15                   # F against them
    assert all(abs(grey(face) - grey(ink)) > 0.4 for face, ink in STEP_COLOURS.values())


def test_what_ranks_hold_is_drawn_below_on_the_same_axis():
    top, below = pipeline_picture({"simulated": simulate(one_f_one_b(3, 4), UNITS)}, "units")
    assert [text.get_text() for text in below.get_legend().get_texts()] == [
        "rank 0: at most 3", "rank 1: at most 2", "rank 2: at most 1"]
    assert top.get_xlim() == below.get_xlim()
    assert (top.get_xlabel(), below.get_xlabel()) == ("", "units")
    png(top)


def test_a_place_that_is_given_back_and_taken_at_one_moment_leaves_no_spike():
    axes = held_strip(simulate(one_f_one_b(1, 3), UNITS))
    assert [round(value) for value in axes.lines[0].get_ydata()] == [1, 1, 1, 0]
    png(axes)


def test_curves_are_in_percent_with_marks_where_played():
    axes = bubble_curves({"one": [0.5, 0.25], "two": [0.3, 0.2]}, [2, 4], {"one": [0.5, 0.25]})
    assert [list(line.get_ydata()) for line in axes.lines] == [[50, 25], [50, 25], [30, 20]]
    png(axes)


def test_the_svg_is_well_formed_and_each_box_says_its_step_in_words():
    trace = simulate(interleaved(2, 2), UNITS)
    tree = ElementTree.fromstring(svg_gantt(trace, 2, 0, "units", "a <title> & more"))
    titles = [element.text for element in tree.iter("title")]
    assert len(titles) == len(trace)
    assert "forward of microbatch 1 in stage 3, from 6 to 7 units" in titles
    assert tree.attrib["aria-label"] == "a <title> & more"


def test_an_axis_may_be_longer_than_the_trace_and_an_empty_board_has_one():
    tree = ElementTree.fromstring(svg_gantt([], 2, 18, "units"))
    assert [element.text for element in tree.iter("text")] == ["rank 0", "rank 1", "0", "18 units"]


def test_text_is_as_wide_as_steps_are_long():
    rows = text_gantt(simulate(one_f_one_b(2, 2), {"F": 0.05, "B": 0.1}), 0.05).splitlines()
    assert rows == ["rank 0 |F0 F1       B0---    B1---", "rank 1 |   F0 B0--- F1 B1---"]


def test_text_has_each_label_in_full_and_rows_start_in_one_column():
    long = text_gantt(simulate(one_f_one_b(12, 12), UNITS), 1).splitlines()
    assert [row.split("|")[1].split()[0] for row in long] == ["F0-"] * 12
    assert {row.index("|") for row in long} == {8}
    assert all(f"F{m}" in row and f"B{m}-" in row for row in long for m in range(12))
    several = text_gantt(simulate(dualpipe(2, 4), UNITS), 1).splitlines()
    assert several[0].startswith("rank 0 |0F0 1F2 0F1 1B2---- 1F3&0B0---- ")


def test_labels_that_do_not_fit_into_their_boxes_are_left_out():
    axes = pipeline_gantt({"": simulate(one_f_one_b(2, 60), UNITS)}, "units")
    assert not axes.texts
    png(axes)
    axes = pipeline_gantt({"": simulate(one_f_one_b(2, 20), UNITS)}, "units")
    assert {"F0", "B19"} <= {text.get_text() for text in axes.texts}
    assert "F19" not in {text.get_text() for text in axes.texts}
    png(axes)


def test_words_give_all_four_bubbles_by_their_definition():
    schedule = zb_h2(4, 8)
    words = schedule_in_words(schedule, simulate(schedule, UNITS))
    assert "4 stages on 4 ranks, 8 microbatches, 27 units. Idle: 3 units a rank; 11.11% of total, 12.50% of ideal, " \
           "0.00% of the longest own span. Held at most: 7 forwards." in words
    folded = interleaved(2, 2)
    assert "forwards through one of the rank's 2 stages." in schedule_in_words(folded, simulate(folded, UNITS))


def test_a_board_says_what_is_left_and_then_how_it_compares():
    board, best = empty_board(1, 1, cap=2), simulate(one_f_one_b(1, 1), UNITS)
    assert board_in_words(board, [], best, "1F1B") == "2 steps are left to place. Held at most, by rank: 0 of 2."
    board = place(board, 0, "F")
    assert board_in_words(board, simulate(board.placed, UNITS), best, "1F1B") == (
        "1 step is left to place. Length so far: 1, 0% of it idle. Held at most, by rank: 1 of 2.")
    board = place(board, 0, "B")
    assert board_in_words(board, simulate(board.placed, UNITS), best, "1F1B").startswith(
        "Complete: 3 units, bubble 0.00% of total; 1F1B takes 3 and has 0.00%.")


def test_ranks_without_a_step_idle_too():
    board = place(empty_board(3, 4), 0, "F")
    words = board_in_words(board, simulate(board.placed, UNITS), simulate(one_f_one_b(3, 4), UNITS), "1F1B")
    assert "Length so far: 1, 67% of it idle." in words


@pytest.mark.parametrize(("wrong", "says"), [
    ({"name": "GPipes"}, "--schedule is one of GPipe, 1F1B, "), ({"num_microbatches": 0}, "at least 1"),
    ({"name": "DualPipe", "world_size": 3}, "even number of ranks"), ({"unit_ms": 0}, "from 5 to 1000"),
    ({"unit_ms": 1000}, "would take 33 s, and at most 20 are waited for: take a smaller --unit-ms")])
def test_what_cannot_be_played_is_refused_before_anything_starts(wrong, says):
    with pytest.raises(BadValue, match=says):
        pipeline(**{"world_size": None, "name": "1F1B", "num_microbatches": 8, "unit_ms": 50} | wrong)


def test_the_explorer_redraws_and_says_why_sizes_are_refused():
    view = pipeline_explorer()
    schedule, words, picture = view.children[0].children[0], *view.children[-2:]
    assert "27.27% of total" in words.value
    before = picture.value
    schedule.value = "DualPipe"
    assert "DualPipe: 4 stages on 4 ranks" in words.value
    assert picture.value != before
    view.children[2].children[0].value = 3
    assert words.value.startswith("DualPipe takes an even number of ranks")
    assert picture.value == ""


def test_the_builder_places_what_is_typed_up_to_the_first_illegal_step():
    view = schedule_builder(2, 2)
    field, said, words = view.children[0].children[-1], *view.children[3:5]
    field.value = "F0,F1 B0 B1"
    assert field.value == ""
    assert said.value.endswith("</span> Not placed: B0 B1.")
    assert "rank 0 cannot do B0 yet: it needs F0 of rank 1" not in said.value       # its own next stage's backward
    assert "it needs B0 of rank 1" in said.value
    assert words.value.startswith("6 steps are left")
    assert view.children[2].children[1].disabled


@pytest.mark.ranks
def test_a_full_board_is_played_by_real_ranks_and_taking_a_step_back_disables_that():
    view = schedule_builder(2, 1, split=True)
    fields, run = [view.children[rank].children[-1] for rank in range(2)], view.children[2].children[1]
    for rank, steps in ((0, "F"), (1, "F I W"), (0, "I W")):
        fields[rank].value = steps
    assert not run.disabled
    run.click()
    measured = view.children[-1].value
    assert re.match(r"Played by 2 processes at 50 ms a unit: [\d.]+ units, bubble [\d.]+% of total\. Grad", measured)
    assert measured.count("<rect") == 6
    view.children[0].children[3].click()
    assert run.disabled
    assert view.children[-1].value == ""
