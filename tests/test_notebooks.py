"""Every lesson has the same anatomy, and was executed from top to bottom."""
import re

import nbformat
import pytest

from sources.build import ROOT

LESSONS = sorted((ROOT / "notebooks").glob("[0-9]*.ipynb"))
ORDER = ["Setup", "Question", "Idea", "Predict", "Run", "Compare", "Scale it", "Break it", "Read the helper",
         "Check yourself", "Recap"]
NOT_IN_LESSONS = re.compile(r"\s*(try:|except|import matplotlib|plt\.|os\.kill)")
MAY_REPEAT = {"Predict", "Run", "Compare"}
SETUP = ('import importlib.util\n\nif not importlib.util.find_spec("helpers"):  # on Colab\n'
         '    get_ipython().run_line_magic(\n'
         '        "pip", "install -q --no-deps git+https://github.com/')


def notebook(path):
    return nbformat.read(path, 4)


def anatomy_faults(cells) -> list[str]:
    """What is wrong with a lesson's headings and cells."""
    prose = [c.source for c in cells if c.cell_type == "markdown"]
    headings = [h for text in prose for h in re.findall(r"^## (.+)$", text, re.MULTILINE)]
    once = [h for n, h in enumerate(headings) if h not in headings[:n]]
    faults = [] if once == ORDER else [f"headings are {headings}"]
    last = len(headings) - 1 - headings[::-1].index("Compare") if "Compare" in headings else 0
    faults += [f"{h} stands twice" for h in headings if h not in MAY_REPEAT and headings.count(h) > 1]
    if any(h in MAY_REPEAT for h in headings[last + 1:]):
        faults.append("a round of Predict and Run without Compare")
    faults += [f"{len(cells)} cells, at most 45"] if len(cells) > 45 else []
    faults += [f"{words(text)} words of prose in one cell: {text[:40]!r}" for text in prose if words(text) > 120]
    faults += [f"code cell with {line!r}" for c in cells if c.cell_type == "code"
               for line in c.source.splitlines() if NOT_IN_LESSONS.match(line)]
    faults += [f"{length} lines of code in one cell: {c.source[:40]!r}" for c in cells if c.cell_type == "code"
               and not c.source.startswith("import importlib") and (length := len(c.source.splitlines())) > 16]
    return faults


def words(text: str) -> int:
    """Words of prose: tables, formulas, headings, folded answers and sources are not read in one go."""
    text = re.sub(r"<details>.*?</details>|\$\$.*?\$\$", "", text, flags=re.DOTALL)
    return len(re.sub(r"^\|.*$|^#.*$|^\*\*Sources\..*$|https?://\S+", "", text, flags=re.MULTILINE).split())


@pytest.mark.parametrize("path", LESSONS, ids=lambda p: p.stem)
def test_a_lesson_has_all_its_parts_in_order(path):
    assert anatomy_faults(notebook(path).cells) == []


@pytest.mark.parametrize("path", LESSONS, ids=lambda p: p.stem)
def test_a_lesson_says_what_it_is_for_and_where_to_run_it(path):
    first = notebook(path).cells[0].source
    assert first.startswith(f"# {path.stem[:2]} ")
    assert "You will be able to" in first
    assert re.search(r"\*\*\d+ minutes\.\*\* Needs", first)
    assert f"urlpath=lab/tree/notebooks/{path.name}" in first
    assert f"blob/main/notebooks/{path.name}" in first


@pytest.mark.parametrize("path", LESSONS, ids=lambda p: p.stem)
def test_a_lesson_begins_with_the_same_lines(path):
    first_code = next(c.source for c in notebook(path).cells if c.cell_type == "code")
    assert first_code.startswith(SETUP)
    assert first_code.endswith("\n\nwarm_up()")


@pytest.mark.parametrize("path", LESSONS, ids=lambda p: p.stem)
def test_a_guess_is_empty_in_what_is_published(path):
    guesses = [c.source for c in notebook(path).cells if c.cell_type == "code" and c.source.startswith("guess =")]
    assert guesses
    assert all(re.fullmatch(r"guess = None  # \S.*", guess) for guess in guesses)


@pytest.mark.parametrize("path", LESSONS, ids=lambda p: p.stem)
def test_a_lesson_fails_only_where_it_means_to(path):
    for cell in notebook(path).cells:
        failed = any(o.output_type == "error" for o in cell.get("outputs", []))
        assert failed == ("raises-exception" in cell.metadata.get("tags", [])), cell.source[:60]


@pytest.mark.parametrize("path", LESSONS, ids=lambda p: p.stem)
def test_each_picture_is_put_into_words(path):
    """JupyterLab gives images of a cell no alternative text."""
    cells = notebook(path).cells
    for number, cell in enumerate(cells):
        if any("image/png" in o.get("data", {}) for o in cell.get("outputs", [])):
            assert "The picture in words:" in cells[number + 1].source
    for image in re.findall(r"!\[(.*?)\]\(", "\n".join(c.source for c in cells if c.cell_type == "markdown")):
        assert len(image) > 20


@pytest.mark.parametrize("path", LESSONS, ids=lambda p: p.stem)
def test_three_questions_with_folded_answers(path):
    check = next(c.source for c in notebook(path).cells if "## Check yourself" in c.source)
    assert check.count("<details><summary>Answer</summary>") == 3


@pytest.mark.parametrize("path", LESSONS, ids=lambda p: p.stem)
def test_few_outputs_are_left_unchecked(path):
    """nbval compares all others with what is stored: only widgets, times and the kernel's memory may differ."""
    cells = [c for c in notebook(path).cells if c.cell_type == "code"]
    unchecked = [c.source for c in cells if "nbval-ignore-output" in c.metadata.get("tags", [])]
    assert len(unchecked) <= 4
    may_differ = r"_explorer\(|schedule_builder\(|trace_of\(|_seconds\(|exposed_s\(|\.private|typical_peak\("
    assert all(re.search(may_differ, source) for source in unchecked)


def test_the_readme_names_every_lesson():
    readme = (ROOT / "README.md").read_text()
    assert [p.name for p in LESSONS if f"(notebooks/{p.name})" not in readme] == []


def cell(kind: str, source: str):
    return nbformat.NotebookNode(cell_type=kind, source=source)


@pytest.mark.parametrize(("extra", "says"), [
    (cell("markdown", "## Run"), "without Compare"),
    (cell("markdown", "## Setup"), "Setup stands twice"),
    (cell("markdown", "## More"), "headings are"),
    (cell("markdown", "word " * 121), "121 words"),
    (cell("code", "try:\n    x()\nexcept: pass"), "code cell with 'try:'"),
    (cell("code", "x\n" * 17), "17 lines"),
])
def test_a_fault_of_anatomy_is_found(extra, says):
    good = [cell("markdown", f"## {heading}") for heading in ORDER]
    assert anatomy_faults(good) == []
    assert any(says in fault for fault in anatomy_faults([*good, extra]))


def test_code_in_prose_stands_in_the_helpers_and_so_runs():
    """A fenced block is code that a learner may copy."""
    sources = "\n".join(p.read_text() for p in (ROOT / "helpers").rglob("*.py"))
    blocks = [block for path in LESSONS for c in notebook(path).cells if c.cell_type == "markdown"
              for block in re.findall(r"```python\n(.*?)```", c.source, re.DOTALL)]
    assert blocks
    assert [line for block in blocks for line in block.splitlines() if f"    {line}\n" not in sources] == []
