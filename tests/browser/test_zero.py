"""Lessons 05 to 07 in JupyterLab: explorers driven from the keyboard."""
import re

import pytest
from playwright.sync_api import expect

from tests.browser.test_lessons import choose, picture_bytes

PARAMS = 8 * 128**2                     # of the explorer's model


def kib(words: str, after: str) -> float:
    return float(re.search(rf"{after} ([\d,.]+) KiB", words)[1].replace(",", ""))


def test_a_step_is_watched_on_real_ranks_and_a_larger_bucket_raises_the_peak(lab):
    lab.open("notebooks/05_zero.ipynb")
    lab.run("import importlib.util")
    cell = lab.run("residency_explorer()")
    sentence, image = cell.locator(".widget-html-content"), cell.locator("img")
    expect(sentence).to_contain_text(f"ZeRO-2 on 4 ranks: state by the formula {(4 + 12 / 4) * PARAMS / 1024:,.0f} KiB")
    small, before = kib(sentence.inner_text(), "peaks at"), picture_bytes(image)
    choose(lab, cell.get_by_role("combobox", name="a unit is"), 3)
    expect(sentence).not_to_contain_text(f"peaks at {small:,.0f} KiB", timeout=20_000)
    assert kib(sentence.inner_text(), "peaks at") > small + 0.5 * 4 * PARAMS / 1024
    assert picture_bytes(image) != before
    field = cell.get_by_role("spinbutton", name="ranks")
    field.focus()
    field.select_text()
    lab.page.keyboard.type("2")
    lab.page.keyboard.press("Enter")
    expect(sentence).to_contain_text(f"ZeRO-2 on 2 ranks: state by the formula {(4 + 12 / 2) * PARAMS / 1024:,.0f} KiB",
                                     timeout=20_000)
    choose(lab, cell.get_by_role("combobox", name="stage"), 2)
    expect(sentence).to_contain_text("ZeRO-3 on 2 ranks", timeout=20_000)
    assert lab.errors == []


@pytest.mark.soak
def test_keeping_units_sends_less_holds_more_and_passes_the_card(lab):
    lab.open("notebooks/06_fsdp.ipynb")
    lab.run("import importlib.util")
    cell = lab.run("fsdp_explorer()")
    sentence, image = cell.locator(".widget-html-content"), cell.locator("img")
    full = 4 * 16 * 1024**2 * 3 / 4 / 1e6                   # an all_gather of the model, from each of 4 ranks
    expect(sentence).to_contain_text("16 units on 4 ranks: 32 all_gathers and 16 reduce_scatters a step")
    expect(sentence).to_contain_text(f"at least {3 * full:.0f} MB ({4 * full:.1f} MB on gloo)")
    expect(sentence).to_contain_text("about 79 MiB: 48 MiB of parameter and Adam shards, 31 MiB that come and go")
    before = picture_bytes(image)
    choose(lab, cell.get_by_role("combobox", name="reshard"), 1)
    expect(sentence).to_contain_text("16 all_gathers and 16 reduce_scatters a step")
    expect(sentence).to_contain_text("That fits in 140 MiB")
    assert picture_bytes(image) != before
    choose(lab, cell.get_by_role("combobox", name="unit"), 2)
    expect(sentence).to_contain_text("1 unit on 4 ranks: 1 all_gather and 1 reduce_scatter a step")
    expect(sentence).to_contain_text("That does not fit in 140 MiB")
    assert lab.errors == []


@pytest.mark.soak
def test_activations_are_brought_under_the_card(lab):
    lab.open("notebooks/07_activations.ipynb")
    lab.run("import importlib.util")
    cell = lab.run("activation_explorer()")
    sentence, image = cell.locator(".widget-html-content"), cell.locator("img")
    blocks = 48 * 4 * 2048 * 6144 * (34 + 5 * 64 * 2048 / 6144) / 2**30       # GPT 22B: 48 blocks
    expect(sentence).to_contain_text("recompute none: state 5.14 GiB")
    activations = float(re.search(r"activations and logits (\d+) GiB", sentence.inner_text())[1])
    assert 0 < activations - blocks < 5                                     # logits, and what lies outside of blocks
    before = picture_bytes(image)
    choose(lab, cell.get_by_role("combobox", name="recompute"), 2)
    expect(sentence).to_contain_text("recompute full")
    expect(sentence).to_contain_text("which fits into 80 GiB")
    assert picture_bytes(image) != before
    assert lab.errors == []
