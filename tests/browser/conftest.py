"""One JupyterLab and one browser for all tests of this folder; both end with it."""
import os

import pytest

from tests.browser.lab import Lab, chromium, find_browser, jupyterlab


@pytest.fixture(scope="package")       # not session: while it lives, an event loop runs in the main thread
def lab(tmp_path_factory):
    executable = find_browser()
    if executable is None:
        missing = "no Chromium or Chrome found, so no lesson is tried in a browser: apt-get install chromium"
        if os.environ.get("COURSE_BROWSER_REQUIRED") == "1":
            pytest.fail(missing, pytrace=False)
        pytest.skip(missing)
    folder = tmp_path_factory.mktemp("jupyterlab")
    with jupyterlab(folder) as address, chromium(executable) as browser:
        yield Lab(browser, address, folder / "course")


@pytest.fixture(autouse=True)
def _picture(lab, tmp_path):
    """What the page looked like at the end of each test."""
    yield
    lab.page.screenshot(path=tmp_path / "page.png")
