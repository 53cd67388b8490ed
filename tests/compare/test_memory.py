"""The widgets' numbers are the calculators', and the picture follows the controls."""
import matplotlib
import pytest

from helpers.compare.plots import memory_bars, png
from helpers.compare.widgets import memory_explorer
from helpers.compare.words.memory import fit_in_words
from helpers.predict.memory import state_by_term

matplotlib.use("agg")


def parts(box):
    (model, recipe), (stage, card), (ranks, slider) = (row.children for row in box.children[:3])
    words, picture = box.children[3:]
    return {"model": model, "recipe": recipe, "stage": stage, "card": card, "ranks": ranks, "slider": slider,
            "words": words, "picture": picture}


def test_it_opens_on_a_model_that_fits():
    words = parts(memory_explorer())["words"].value
    assert "70B, 16 bytes per parameter, stage 3 on 16 ranks: 70 GB (65.19 GiB)" in words
    assert "Smallest number of ranks for the model state alone: 14." in words


def test_the_exercises_model_is_not_offered():
    """Its answers could be read off."""
    assert "13B" not in parts(memory_explorer())["model"].options


@pytest.mark.parametrize(("control", "value", "says"), [
    ("ranks", 17, "on 17 ranks: 65.88 GB"), ("slider", 32, "on 32 ranks: 35 GB"),
    ("model", "Llama 3.1 8B", "on 16 ranks: 8.03 GB"), ("recipe", "mixed, no master", "12 bytes per parameter"),
    ("stage", 1, "For the model state alone, no number of ranks is enough"),
    ("card", "24 GB, GeForce RTX 4090", "is more than the card's 24 GiB"),
])
def test_each_control_changes_words_and_picture(control, value, says):
    shown = parts(memory_explorer())
    before = shown["picture"].value
    shown[control].value = value
    assert says in shown["words"].value
    assert shown["picture"].value != before
    assert bytes(shown["picture"].value).startswith(b"\x89PNG")


def test_slider_and_field_are_one_number():
    shown = parts(memory_explorer())
    shown["slider"].value = 33
    assert shown["ranks"].value == 33
    shown["ranks"].value = 44
    assert shown["slider"].value == 44


def test_words_have_both_units_and_the_verdict():
    words = fit_in_words("70B", "mixed", 3, 16, "80 GB, H100")
    assert "70 GB (65.19 GiB)" in words
    assert "leaves 14.8 GiB of 80 GiB for activations and buffers" in words


def test_bars_are_as_long_as_the_ledger():
    ledgers = {str(stage): state_by_term(13e9, 8, stage) for stage in range(4)}
    axes = memory_bars(ledgers, limit_bytes=24e9, limit_name="card")
    ends = [max(bar.get_x() + bar.get_width() for bar in axes.patches if round(bar.get_y() + 0.35) == row)
            for row in range(4)]
    assert ends == pytest.approx([208, 71.5, 48.75, 26])
    assert [t.get_text() for t in axes.get_legend().get_texts()] == [
        "card", "parameter", "gradient", "master", "momentum", "variance"]
    png(axes)


def test_a_drawn_figure_is_closed():
    before = len(matplotlib.pyplot.get_fignums())
    png(memory_bars({"one": {"parameter": 1e9}}))
    assert len(matplotlib.pyplot.get_fignums()) == before
