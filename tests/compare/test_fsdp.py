"""Picture, words and widget of lesson 06."""
import matplotlib
import pytest

from helpers.compare.plots import png, step_curves
from helpers.compare.widgets import fsdp_explorer
from helpers.compare.words.fsdp import sharding_in_words
from helpers.predict.fsdp import Sharding
from helpers.run.fsdp import Moment

matplotlib.use("agg")
MiB = 2**20
MOMENTS = [Moment("forward", 0, 2 * MiB), Moment("forward", 1, 3 * MiB), Moment("backward", 1, 5 * MiB),
           Moment("backward", 0, 4 * MiB)]


def parts(box):
    rows = [list(getattr(child, "children", [child])) for child in box.children]
    (stack, card), (unit, reshard), (dtypes,), (ranks, slider), (words,), (picture,) = rows
    return {"stack": stack, "card": card, "unit": unit, "reshard": reshard, "dtypes": dtypes, "ranks": ranks,
            "slider": slider, "words": words, "picture": picture}


def test_curves_are_peaks_in_the_order_of_the_step():
    axes = step_curves({"a": MOMENTS, "b": MOMENTS[:2]})
    assert [list(line.get_ydata()) for line in axes.lines[:2]] == [[2, 3, 5, 4], [2, 3]]
    assert axes.lines[2].get_xdata()[0] == 1.5                      # between forward and backward
    assert [label.get_text() for label in axes.get_xticklabels()] == ["0", "1", "1", "0"]
    png(axes)


def test_words_have_counts_bytes_peak_and_verdict():
    words = sharding_in_words(Sharding(16 * MiB, 16, 4), 140 * MiB, "MiB")
    assert words == ("16 units on 4 ranks: 32 all_gathers and 16 reduce_scatters a step, in which each rank sends at "
                     "least 151 MB (201.3 MB on gloo). Its fullest moment holds about 79 MiB: 48 MiB of parameter and "
                     "Adam shards, 31 MiB that come and go. That fits in 140 MiB, activations left out.")
    words = sharding_in_words(Sharding(16 * MiB, 1, 4, False, 16), 140 * MiB, "MiB")
    assert words.startswith("1 unit on 4 ranks: 1 all_gather and 1 reduce_scatter a step")
    assert "196 MiB" in words
    assert "does not fit in 140 MiB" in words


@pytest.mark.parametrize(("control", "value", "says"), [
    ("unit", 0, "does not fit"), ("unit", 2, "8 units on 4 ranks"), ("reshard", False, "16 all_gathers"),
    ("ranks", 2, "142 MiB"), ("slider", 8, "on 8 ranks"), ("dtypes", "bf16", "100.7 MB on gloo"),
    ("stack", "Llama 3.1 70B, 80 blocks", "80 units on 4 ranks"), ("card", "80 GB, H100", "fits in 80 GiB")])
def test_each_control_changes_words_and_picture(control, value, says):
    shown = parts(fsdp_explorer())
    assert "Its fullest moment holds about 79 MiB" in shown["words"].value
    before = shown["picture"].value
    shown[control].value = value
    assert says in shown["words"].value
    assert shown["picture"].value != before
    assert bytes(shown["picture"].value).startswith(b"\x89PNG")
