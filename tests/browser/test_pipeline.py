"""Lessons 09 and 10 in JupyterLab: a schedule built by mouse and keyboard and played, and the explorer's boxes."""
from playwright.sync_api import Locator, expect

from tests.browser.lab import Lab
from tests.browser.test_lessons import choose

CHART = "svg[role=img]"


def press(lab: Lab, button: Locator, times: int = 1) -> None:
    """From the keyboard: focus, then Space."""
    for _ in range(times):
        button.focus()
        lab.page.keyboard.press("Space")


def type_steps(lab: Lab, cell: Locator, rank: int, steps: str) -> None:
    field = cell.get_by_role("textbox", name=f"rank {rank}")
    field.focus()
    lab.page.keyboard.press("Control+A")
    lab.page.keyboard.type(steps)
    lab.page.keyboard.press("Enter")


def boxes(cell: Locator) -> list[str]:
    return cell.locator(CHART).first.locator("g text").all_text_contents()


def test_a_schedule_is_built_by_mouse_and_keyboard_and_then_played_by_real_ranks(lab):
    lab.open("notebooks/09_pipeline.ipynb")
    lab.run("import importlib.util")
    cell = lab.run("schedule_builder(num_ranks=3, num_microbatches=4, cap=3)")
    run = cell.get_by_role("button", name="run on real ranks")
    expect(run).to_be_disabled()
    cell.get_by_role("button", name="F on rank 1").click()
    alert = cell.get_by_role("alert")
    expect(alert).to_have_text("Not possible: rank 1 cannot do F0 yet: it needs F0 of rank 0, which is not on the "
                               "board.")
    assert boxes(cell) == []
    for _ in range(3):
        cell.get_by_role("button", name="F on rank 0").click()
    expect(cell).to_contain_text("21 steps are left to place. Length so far: 3, 67% of it idle. "
                                 "Held at most, by rank: 3, 0, 0 of 3.")
    press(lab, cell.get_by_role("button", name="F on rank 0"))
    expect(alert).to_contain_text("rank 0 has memory for 3 microbatches, and F3 would be one more")
    press(lab, cell.get_by_role("button", name="F on rank 1"), 2)
    type_steps(lab, cell, 2, "F0 B0 F1 B1 F2")
    expect(alert).to_contain_text("rank 2 cannot do F2 yet: it needs F2 of rank 1")
    expect(cell).to_contain_text("Not placed: F2.")
    expect(cell.get_by_role("textbox", name="rank 2")).to_have_value("")
    type_steps(lab, cell, 1, "b0 f b1")
    for rank, steps in ((0, "B0 F3 B1"), (2, "F2 B2"), (1, "F B"), (2, "F B"), (1, "B"), (0, "B B")):
        type_steps(lab, cell, rank, steps)
    expect(cell).to_contain_text("Complete: 18 units, bubble 33.33% of total; 1F1B takes 18 and has 33.33%.")
    assert len(boxes(cell)) == 24
    press(lab, run)
    expect(cell).to_contain_text("Played by 3 processes at 50 ms a unit", timeout=30_000)
    expect(cell).to_contain_text("Gradients differ from one process by at most")
    assert len(cell.locator(CHART).nth(1).locator("g").all()) == 24
    press(lab, cell.get_by_role("button", name="undo on rank 0"))
    expect(cell).to_contain_text("1 step is left to place")
    expect(run).to_be_disabled()
    assert lab.errors == []


def test_the_explorer_names_what_a_box_is_and_refuses_sizes_that_a_schedule_does_not_take(lab):
    lab.open("notebooks/10_zero_bubble.ipynb")
    lab.run("import importlib.util")
    cell = lab.run("pipeline_explorer(")
    sentence = cell.locator(".widget-html-content").first
    expect(sentence).to_contain_text("ZB-H1: 4 stages on 4 ranks, 8 microbatches, 27 units. Idle: 3 units a rank; "
                                     "11.11% of total")
    first = cell.locator(f"{CHART} g title").first
    assert first.text_content() == "forward of microbatch 0 in stage 0, from 0 to 1 units"
    choose(lab, cell.get_by_role("combobox", name="W takes"), 0)
    expect(sentence).to_contain_text("Idle: 5.25 units a rank")
    choose(lab, cell.get_by_role("combobox", name="schedule"), 6)
    field = cell.get_by_role("spinbutton", name="microbatches")
    field.focus()
    field.select_text()
    lab.page.keyboard.type("7")
    lab.page.keyboard.press("Enter")
    expect(sentence).to_contain_text("DualPipe takes an even number of ranks and an even number of microbatches")
    assert cell.locator(CHART).count() == 0
    assert lab.errors == []
