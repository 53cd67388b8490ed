"""One JupyterLab and one browser for all tests of this folder; both end with it."""
import os

import pytest

from tests.browser.lab import Lab, chromium, find_browser, jupyterlab

BROWSER = find_browser()
MISSING = "no Chromium or Chrome found, so no lesson is tried in a browser: apt-get install chromium"


def pytest_itemcollected(item):
    if BROWSER is None and os.environ.get("COURSE_BROWSER_REQUIRED") != "1":
        item.add_marker(pytest.mark.skip(reason=MISSING))


@pytest.fixture(scope="package")       # not session: while it lives, an event loop runs in the main thread
def lab(tmp_path_factory):
    if BROWSER is None:
        pytest.fail(MISSING, pytrace=False)
    folder = tmp_path_factory.mktemp("jupyterlab")
    with jupyterlab(folder) as address, chromium(BROWSER) as browser:
        yield Lab(browser, address, folder / "course")


@pytest.fixture(autouse=True)
def _picture(lab, tmp_path):
    """What the page looked like at the end of each test."""
    yield
    lab.page.screenshot(path=tmp_path / "page.png")
