"""Lessons 03 and 04 in JupyterLab: a predicted step and a loader, driven from the keyboard."""
import pytest
from playwright.sync_api import expect

from tests.browser.test_lessons import choose, picture_bytes


def exposed_ms(gigabytes_per_s: float, backward_ms: float) -> float:
    """32 messages of 436 MB on a ring of 64 ranks, solved by hand: each waits for its layer and for the one before."""
    message = 2e3 * 63 * (5e-6 + 436e6 / 64 / (gigabytes_per_s * 1e9))
    end = 0.0
    for layer in range(1, 33):
        end = max(end, layer * backward_ms) + message
    if message <= backward_ms:
        return message
    return end - 32 * backward_ms


@pytest.mark.soak
def test_slower_links_and_a_shorter_backward_expose_messages(lab):
    lab.open("notebooks/03_ddp.ipynb")
    lab.run("import importlib.util")
    cell = lab.run("overlap_explorer()")
    sentence, image = cell.locator(".widget-html-content"), cell.locator("img")
    expect(sentence).to_contain_text(f"{exposed_ms(100, 20):.1f} ms are exposed (97% hidden)")
    before = picture_bytes(image)
    field = cell.get_by_role("spinbutton", name="GB/s")
    field.focus()
    field.select_text()
    lab.page.keyboard.type("25")
    lab.page.keyboard.press("Enter")
    expect(sentence).to_contain_text(f"{exposed_ms(25, 20):,.1f} ms are exposed")
    expect(sentence).to_contain_text("Messages take longer than backward")
    assert picture_bytes(image) != before
    cell.locator(".noUi-handle").nth(1).focus()
    lab.page.keyboard.press("ArrowRight")
    expect(cell.get_by_role("spinbutton", name="ms a layer")).to_have_value("21")
    expect(sentence).to_contain_text(f"{exposed_ms(25, 21):,.1f} ms are exposed")
    choose(lab, cell.get_by_role("combobox", name="ranks"), 0)
    expect(sentence).not_to_contain_text("Messages take longer")
    assert lab.errors == []


@pytest.mark.soak
def test_a_loader_is_chosen_and_real_ranks_say_what_is_wrong_with_it(lab):
    lab.open("notebooks/04_data_sharding.ipynb")
    lab.run("import importlib.util")
    lab.run("def make_loader")
    cell = lab.run("sampling_explorer(make_loader")
    sentence, image = cell.locator(".widget-html-content"), cell.locator("img")
    expect(sentence).to_contain_text("FAULT same batches")
    before = picture_bytes(image)
    choose(lab, cell.get_by_role("combobox", name="loader"), 3)
    expect(sentence).to_contain_text("22 samples, 4 ranks: 2 steps, 24 draws, 100.0% of a global batch unique")
    expect(sentence).to_contain_text("note padding: 2 of 24 draws repeat a sample")
    assert picture_bytes(image) != before
    field = cell.get_by_role("spinbutton", name="samples")
    field.focus()
    field.select_text()
    lab.page.keyboard.type("24")
    lab.page.keyboard.press("Enter")
    expect(sentence).to_contain_text("24 samples, 4 ranks: 2 steps, 24 draws, 100.0% of a global batch unique")
    expect(sentence).not_to_contain_text("padding")
    cell.locator(".noUi-handle").nth(1).focus()
    lab.page.keyboard.press("ArrowLeft")
    expect(cell.get_by_role("spinbutton", name="ranks")).to_have_value("3")
    expect(sentence).to_contain_text("24 samples, 3 ranks: 3 steps")
    assert lab.errors == []
