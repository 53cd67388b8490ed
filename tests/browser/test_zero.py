"""Lessons 05 to 07 in JupyterLab: explorers driven from the keyboard."""
import re

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
    choose(lab, cell.get_by_role("combobox", name="layers a unit"), 3)
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
