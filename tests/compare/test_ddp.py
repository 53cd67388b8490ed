"""Pictures, words and widgets of lessons 03 and 04."""
import html

import matplotlib
import pytest
from torch.utils.data import DataLoader, DistributedSampler

from helpers.compare.plots import gantt, losses, png, who_draws
from helpers.compare.widgets import overlap_explorer, sampling_explorer
from helpers.compare.words.data_sharding import sampling_in_words
from helpers.compare.words.ddp import overlap_in_words
from helpers.facts.data_sharding import Sampling
from helpers.facts.network import network
from helpers.facts.trace import Span
from helpers.predict.ddp import backward_and_all_reduces

matplotlib.use("agg")
STEP = [Span(0, "B", 10.0, 10.2, "2"), Span(0, "B", 10.2, 10.3, "1"), Span(0, "all_reduce", 10.2, 10.25, "0"),
        Span(0, "all_reduce", 10.3, 10.36, "1")]


def boxes(axes):
    return [(round(box.get_x(), 6), round(box.get_width(), 6), text.get_text())
            for box, text in zip(axes.patches, axes.texts, strict=True)]


def test_a_gantt_starts_at_0_and_has_a_row_for_each_kind():
    axes = gantt({"one": STEP})
    assert boxes(axes) == [(0, 200, "2"), (200, 100, "1"), (200, 50, "0"), (300, 60, "1")]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["one: backward", "one: all_reduce"]
    png(axes)


def test_a_gantt_names_ranks_where_there_are_several():
    other = [Span(1, span.kind, span.start, span.end, span.label) for span in STEP]
    axes = gantt({"one": STEP + other, "two": STEP})
    assert [label.get_text() for label in axes.get_yticklabels()] == [
        f"{name}: {kind}" for name in ("one, rank 0", "one, rank 1", "two, rank 0")
        for kind in ("backward", "all_reduce")]
    places = axes.get_yticks()
    assert places[1] - places[0] < places[2] - places[1]                # a gap between pairs
    png(axes)


def test_boxes_of_draws_are_grey_from_the_second_time_on():
    axes = who_draws(Sampling(4, ([[[2, 0]]], [[[2, 3]]])))
    assert [text.get_text() for text in axes.texts] == ["2", "0", "2", "3"]
    colours = [box.get_facecolor() for box in axes.patches]
    assert len({colours[0], colours[1], colours[3]}) == 1
    assert colours[2] != colours[0]
    png(axes)


def test_losses_are_lines_of_unlike_style_and_colour():
    axes = losses({"a": [3, 2, 1], "b": [3, 3, 2]})
    assert [list(line.get_ydata()) for line in axes.lines] == [[3, 2, 1], [3, 3, 2]]
    assert len({(line.get_linestyle(), line.get_color()) for line in axes.lines}) == 2
    png(axes)


def test_words_say_what_is_hidden():
    assert overlap_in_words(STEP) == ("Backward takes 300 ms, 2 all_reduces 110 ms, of which 60.0 ms are exposed "
                                      "(45% hidden).")
    slow = backward_and_all_reduces([100], [1.0], 2, network(0.0, 1.0))
    assert overlap_in_words(slow).endswith("1 all_reduce 100,000 ms, of which 100,000.0 ms are exposed (0% hidden). "
                                           "Messages take longer than backward, so they cannot hide.")


def test_the_report_in_html_has_a_line_for_each_finding():
    report = Sampling(4, ([[[2, 0]]], [[[2, 0]]]))
    assert html.unescape(sampling_in_words(report)).split("<br>") == str(report).splitlines()


def test_the_overlap_explorer_opens_on_the_lessons_example_and_each_control_changes_it():
    (bandwidth, slider), (backward, _), (bucket, _), ranks, words, picture = [
        getattr(child, "children", child) if type(child).__name__ == "HBox" else child
        for child in overlap_explorer().children]
    assert words.value.endswith("of which 9.2 ms are exposed (97% hidden).")
    for control, value, says in ((bandwidth, 25, "498.9 ms are exposed"), (backward, 5, "Backward takes 160 ms"),
                                 (bucket, 20_000, "(3% hidden)"), (ranks, 8, "Backward takes 160 ms")):
        before, drawn = words.value, picture.value
        control.value = value
        assert words.value != before
        assert picture.value != drawn
        assert says in words.value
    assert slider.value == 25


def make_loader(kind, data, batch_size, rank, world_size):
    sampler = DistributedSampler(data, world_size, rank if kind == "right" else 0)
    return DataLoader(data, batch_size, sampler=sampler), sampler.set_epoch


@pytest.mark.ranks
def test_the_sampling_explorer_asks_real_ranks():
    (samples, _), (ranks, _), (batch, _), kind, words, picture = [
        getattr(child, "children", child) if type(child).__name__ == "HBox" else child
        for child in sampling_explorer(make_loader, ["right", "rank 0 everywhere"]).children]
    assert "22 samples, 4 ranks: 2 steps, 24 draws" in words.value
    samples.value = 24
    assert "24 draws, 100.0% of a global batch unique" in words.value
    assert "padding" not in words.value
    drawn, kind.value = picture.value, "rank 0 everywhere"
    assert "18 samples are never drawn. Is every rank told that it is rank 0?" in words.value
    assert picture.value != drawn
    ranks.value = 2
    assert "24 samples, 2 ranks" in words.value
    batch.value = 5
    assert "3 steps" in words.value
