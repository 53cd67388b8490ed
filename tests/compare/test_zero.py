"""Pictures, words and widgets of lesson 05."""
import matplotlib
import pytest

from helpers.compare.plots import png, residency_plot
from helpers.compare.widgets import residency_explorer
from helpers.compare.words.zero import residency_in_words
from helpers.run.measure.residency import Residency

matplotlib.use("agg")
KIB = 1024
ALIVE = Residency({"parameter": [8 * KIB] * 6, "gradient": [0, 0, 2 * KIB, 4 * KIB, KIB, KIB],
                   "other": [0, KIB, KIB, KIB, 0, 0]}, {"forward": 0, "backward": 2, "step": 4})


def test_the_peak_is_the_event_with_most_of_all_kinds_together():
    assert (ALIVE.num_events, ALIVE.peak, ALIVE.peak_bytes) == (6, 3, 13 * KIB)
    assert ALIVE.at(-1) == {"parameter": 8 * KIB, "gradient": KIB, "other": 0}


def test_words_name_the_peak_its_phase_and_its_parts():
    words = residency_in_words(ALIVE, 6_000, 2, 4, 2048)
    assert "state by the formula 14 KiB" in words                       # 4P + 12P/4 bytes
    assert "peaks at 13 KiB, in backward: 8 KiB parameter, 4 KiB gradient, 1 KiB other" in words
    assert "Sent: 6 KB, by the formula 12.29 KB" in words                # 2 * 4P * 3/4


def test_bands_are_stacked_and_phases_are_as_wide_as_each_other():
    axes = residency_plot({"one": ALIVE}, unit="KiB")
    assert [text.get_text() for text in axes.texts] == ["forward", "backward", "step"]
    assert [text.get_position()[0] for text in axes.texts] == [0.5, 1.5, 2.5]
    top = max(path.vertices[:, 1].max() for band in axes.collections for path in band.get_paths())
    assert top == pytest.approx(13)
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["other", "gradient", "parameter"]
    png(axes)


def test_runs_stand_side_by_side_on_one_scale():
    axes = residency_plot({"one": ALIVE, "two": Residency({"other": [0, KIB, 0]}, {"forward": 0})}, unit="KiB")
    first, second = axes.figure.axes[:2]
    assert first.get_ylim() == second.get_ylim()
    assert (first.get_title(), second.get_title()) == ("one", "two")
    png(axes)


@pytest.mark.ranks
def test_the_explorer_follows_its_controls_and_measures_real_ranks():
    explorer = residency_explorer(zero_stage=1, world_size=2)
    words, picture = explorer.children[-2:]
    params = 8 * 128**2
    assert f"ZeRO-1 on 2 ranks: state by the formula {(8 + 8 / 2) * params / KIB:,.0f} KiB" in words.value
    before = picture.value
    stages, together = explorer.children[0].children
    stages.value = 2
    assert f"ZeRO-2 on 2 ranks: state by the formula {(4 + 12 / 2) * params / KIB:,.0f} KiB" in words.value
    peak_of_small = float(words.value.split("peaks at ")[1].split(" KiB")[0].replace(",", ""))
    together.value = 8
    peak_of_one = float(words.value.split("peaks at ")[1].split(" KiB")[0].replace(",", ""))
    assert peak_of_one - peak_of_small > 0.5 * 4 * params / KIB         # all gradients are alive at once
    assert picture.value != before
