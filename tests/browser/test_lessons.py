"""Lessons as a learner meets them in JupyterLab: read without a kernel, run, and driven from the keyboard."""
import json
import math
import re
import shutil

import pytest
from playwright.sync_api import Locator, expect

from helpers.facts.specs import MODELS
from tests.browser.lab import LESSONS, Lab

NUMBER = re.compile(r"[\d,]*\.?\d+")


def picture_bytes(image: Locator) -> str:
    """The picture itself: its address is a new one after each redraw."""
    return image.evaluate("""async image => {
        await image.decode();
        return Array.from(new Uint8Array(await (await fetch(image.src)).arrayBuffer())).join(); }""")


def choose(lab: Lab, dropdown: Locator, number: int) -> None:
    """Open the list, which keeps JupyterLab from taking the keys for its own (ipywidgets issue 3912), and choose."""
    dropdown.focus()
    lab.page.keyboard.press("Space")
    lab.page.wait_for_function("dropdown => dropdown.matches(':open')", arg=dropdown.element_handle())
    for key in ["Home", *["ArrowDown"] * number, "Enter"]:
        lab.page.keyboard.press(key)
    expect(dropdown).to_have_js_property("selectedIndex", number)


@pytest.fixture
def memory(lab: Lab) -> Locator:
    """The cell of the memory explorer, with the choices it starts with."""
    lab.open("notebooks/01_memory.ipynb")
    cell = lab.run("memory_explorer()")
    expect(cell.locator(".widget-html-content")).to_contain_text("stage 3 on 16 ranks")
    return cell


NAMES = sorted(path.name for path in LESSONS.glob("*.ipynb"))
# the newest, and one with pictures and tables from widgets; nbval runs them all, and `make soak` opens them all
SHOWN = ("01_memory.ipynb", NAMES[-1])


@pytest.fixture(params=[name if name in SHOWN else pytest.param(name, marks=pytest.mark.soak) for name in NAMES])
def stored(request, lab: Lab) -> list[dict]:
    """The cells of a lesson's file; a copy of the lesson is open, and has no kernel."""
    (lab.course / "stored").mkdir(exist_ok=True)
    shutil.copy(LESSONS / request.param, lab.course / "stored")
    lab.open(f"stored/{request.param}")
    lab.end_kernel()
    return json.loads((LESSONS / request.param).read_text(encoding="utf-8"))["cells"]


def test_a_lesson_that_was_not_run_shows_its_stored_pictures_and_tables(lab, stored):
    shown = [(cell, selector) for kind, selector in (("image/png", "img"), ("text/html", "table"))
             for cell in stored if any(kind in output.get("data", {}) for output in cell.get("outputs", []))]
    assert shown
    for cell, selector in shown:
        element = lab.cell("".join(cell["source"])).locator(f".jp-OutputArea-output {selector}").first
        expect(element).to_be_visible()
        if selector == "img":
            assert len(picture_bytes(element)) > 1000
    assert "Error displaying widget" not in lab.notebook.inner_text()


def test_run_all_reaches_the_last_cell_beyond_the_one_that_fails_on_purpose(lab):
    lab.open("notebooks/01_memory.ipynb")
    lab.run_all()
    outputs = lab.outputs()
    first = outputs[0][0]
    assert [number for number, _ in outputs] == list(range(first, first + len(outputs)))
    assert [output["ename"] for _, shown in outputs for output in shown if "ename" in output] == ["RankFailed"]
    assert outputs[-1][1][0]["data"]["text/plain"] == "['80 MiB', '80 MiB']"
    assert lab.errors == []


def test_an_arrow_key_on_the_slider_changes_sentence_field_and_picture(lab, memory):
    image = memory.locator("img")
    before, address = picture_bytes(image), image.get_attribute("src")
    memory.locator(".noUi-handle").focus()
    lab.page.keyboard.press("ArrowRight")
    sentence = memory.locator(".widget-html-content")
    expect(sentence).to_contain_text("on 17 ranks")
    assert [float(number) for number in NUMBER.findall(sentence.inner_text())] == pytest.approx([
        70, 16, 3, 17, 16 * 70 / 17, 16 * 70e9 / 17 / 2**30, 80 - 16 * 70e9 / 17 / 2**30, 80,
        math.floor(16 * 70e9 / (80 * 2**30)) + 1], rel=3e-3)
    expect(memory.get_by_role("spinbutton", name="ranks")).to_have_value("17")
    expect(image).not_to_have_attribute("src", address)
    assert picture_bytes(image) != before


def test_a_typed_number_moves_the_slider(lab, memory):
    field = memory.get_by_role("spinbutton", name="ranks")
    field.focus()
    field.select_text()
    lab.page.keyboard.type("64")
    lab.page.keyboard.press("Enter")
    expect(memory.locator(".noUi-handle")).to_have_attribute("aria-valuenow", "64.0")
    expect(memory.locator(".widget-html-content")).to_contain_text(f"on 64 ranks: {16 * 70 / 64:.4g} GB")


def test_the_sentence_says_when_no_number_of_ranks_is_enough(lab, memory):
    choose(lab, memory.get_by_role("combobox", name="stage"), 1)
    sentence = memory.locator(".widget-html-content")
    expect(sentence).to_contain_text("stage 1 on 16 ranks")
    expect(sentence).to_contain_text(f"{4 * 70 + 12 * 70 / 16:.4g} GB")
    expect(sentence).to_contain_text("no number of ranks is enough")
    choose(lab, memory.get_by_role("combobox", name="model"), [m.name for m in MODELS].index("Llama 3.1 8B"))
    expect(sentence).to_contain_text("Smallest number of ranks for the model state alone: "
                                     f"{math.floor(12 * 8.03e9 / (80 * 2**30 - 4 * 8.03e9)) + 1}.")


def test_tab_visits_every_control_of_the_memory_explorer_in_reading_order_and_each_has_a_name(lab, memory):
    controls = [memory.get_by_role("combobox", name=name, exact=True) for name in ("model", "recipe", "stage", "card")]
    controls += [memory.get_by_role("spinbutton", name="ranks", exact=True), memory.locator(".noUi-handle")]
    controls[0].focus()
    for control in controls:
        expect(control).to_be_focused()
        lab.page.keyboard.press("Tab")


def test_the_all_reduce_explorer_runs_as_many_ranks_as_the_slider_says(lab):
    lab.open("notebooks/00_start_here.ipynb")
    cell = lab.run("all_reduce_explorer()")
    rows = cell.locator(".widget-html-content tbody tr")
    expect(rows).to_have_count(4)
    expect(cell.get_by_role("spinbutton", name="ranks", exact=True)).to_have_value("4")
    expect(cell.get_by_role("combobox", name="tensor", exact=True)).to_be_visible()
    cell.locator(".noUi-handle").focus()
    lab.page.keyboard.press("ArrowRight")
    expect(rows).to_have_count(5)
    for row in rows.all():
        formula, measured, ratio = (float(text) for text in row.locator("td").all_inner_texts())
        assert formula == pytest.approx(2 * 4 * 4 / 5)
        assert measured == pytest.approx(2 * 4 * 4 / 5, rel=0.01)
        assert ratio == pytest.approx(1, abs=0.01)


def test_a_failing_cell_shows_the_courses_message_and_no_traceback(lab):
    lab.open("notebooks/00_start_here.ipynb")
    lab.run("import torch.distributed as dist")
    cell = lab.run("def one_fails")
    expect(cell.locator(".jp-OutputArea-output")).to_have_text(re.compile(
        r"^RankFailed: rank 1 of 4 raised ZeroDivisionError: division by zero\s+"
        r"Cell In\[\d+\], line 2, in one_fails\s+share = 12 / \(rank - 1\)\s+"
        r"ranks 0, 2 and 3 followed: without rank 1 the run cannot go on\s*$"))


@pytest.mark.soak
def test_the_line_that_counts_seconds_is_gone_when_the_run_is_over(lab):
    lab.add("waiting.ipynb", ["import time\n"
                              "from helpers.run.launch import launch, warm_up\n"
                              "warm_up()",
                              "def sleeper(rank, world_size):\n"
                              "    time.sleep(3.5)\n"
                              "    print('slept')\n\n"
                              "launch(sleeper, 2);"])
    lab.run("warm_up()")
    cell = lab.start("launch(sleeper")
    area = cell.locator(".jp-Cell-outputArea")
    lab.page.wait_for_function("area => /^2 ranks: [23] of 30 s$/.test(area.innerText.trim())",
                               arg=area.element_handle())
    expect(area).to_have_text(re.compile(r"^\s*\[rank 0\] slept\s+\[rank 1\] slept\s*$"))
    shown = [output for output in lab.outputs()[1][1] if output.get("data") != {}]
    assert [output["output_type"] for output in shown] == ["stream"]


@pytest.mark.soak
def test_the_arrow_keys_step_through_the_ring(lab):
    lab.open("notebooks/02_collectives.ipynb")
    lab.run("import importlib.util")
    cell = lab.run("ring_explorer()")
    sentence, image = cell.locator(".widget-html-content"), cell.locator(".widget-image")
    expect(sentence).to_contain_text("Reduce-scatter, step 1 of 3")
    before = picture_bytes(image)
    cell.locator(".noUi-handle").focus()
    lab.page.keyboard.press("ArrowRight")
    expect(sentence).to_contain_text("Reduce-scatter, step 2 of 3")
    expect(sentence.locator("li")).to_have_text([
        "rank 0 sends chunk 2 (sum of ranks 0, 3) to rank 1", "rank 1 sends chunk 3 (sum of ranks 0, 1) to rank 2",
        "rank 2 sends chunk 0 (sum of ranks 1, 2) to rank 3", "rank 3 sends chunk 1 (sum of ranks 2, 3) to rank 0"])
    expect(cell.get_by_role("spinbutton", name="steps done")).to_have_value("1")
    assert picture_bytes(image) != before
    lab.page.keyboard.press("End")
    expect(sentence).to_contain_text("every chunk on every rank is the sum over all 4 ranks")
    choose(lab, cell.get_by_role("combobox", name="ranks"), 1)
    expect(sentence).to_contain_text("Reduce-scatter, step 1 of 2")
    assert lab.errors == []


@pytest.mark.soak
def test_latency_and_ranks_move_the_crossover(lab):
    lab.open("notebooks/02_collectives.ipynb")
    lab.run("import importlib.util")
    cell = lab.run("crossover_explorer()")
    sentence, image = cell.locator(".widget-html-content"), cell.locator("img")
    expect(sentence).to_contain_text("equally fast at 1,529 KB")
    before = picture_bytes(image)
    field = cell.get_by_role("spinbutton", name="latency, us")
    field.focus()
    field.select_text()
    lab.page.keyboard.type("50")
    lab.page.keyboard.press("Enter")
    expect(sentence).to_contain_text(f"equally fast at {50e-6 * 25e9 * (30 - 4) / (4 - 30 / 16) / 1e3:,.0f} KB")
    assert picture_bytes(image) != before
    cell.locator(".noUi-handle").first.focus()
    lab.page.keyboard.press("Home")
    expect(field).to_have_value("1")
    choose(lab, cell.get_by_role("combobox", name="ranks"), 3)
    expect(sentence).to_contain_text(f"equally fast at {1e-6 * 25e9 * (14 - 3) / (3 - 14 / 8) / 1e3:,.0f} KB")
    links = cell.get_by_role("combobox", name="links")
    expect(links).to_have_js_property("selectedIndex", 0)
    choose(lab, links, 1)
    expect(sentence).to_contain_text("Links differ")
