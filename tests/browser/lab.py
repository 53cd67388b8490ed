"""JupyterLab as a learner has it: a server on a copy of the lessons, a real browser, and notebooks opened in it."""
from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import nbformat
import psutil
from playwright.sync_api import Browser, Locator, Page, expect, sync_playwright

LESSONS = Path(__file__).parents[2] / "notebooks"
PATIENCE_S = 60                 # of every wait: a loaded machine is slow, not wrong
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable",
            "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome")
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
         "--disable-background-networking", "--disable-component-update", "--disable-sync"]
SETTINGS = {
    "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
    "docmanager-extension/plugin": {"autosave": False},         # a page opened later shows what is committed
}
UNANSWERED = "Canceled future for"      # JupyterLab's own error where a test ends a kernel that has not answered yet
CURRENT = "window.jupyterapp.shell.currentWidget"


def find_browser() -> str | None:
    return next((path for name in BROWSERS if (path := shutil.which(name))), None)


@contextmanager
def chromium(executable: str) -> Iterator[Browser]:
    """A browser with a new profile; playwright ends it."""
    expect.set_options(timeout=PATIENCE_S * 1000)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=FLAGS)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def jupyterlab(folder: Path) -> Iterator[str]:
    """The address of a server on a copy of the lessons, with settings of its own; it ends with all it started."""
    shutil.copytree(LESSONS, folder / "course" / "notebooks", ignore=shutil.ignore_patterns(".ipynb_checkpoints"))
    for name, settings in SETTINGS.items():
        file = folder / "settings" / "@jupyterlab" / f"{name}.jupyterlab-settings"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(settings))
    (folder / "config").mkdir()
    (folder / "config" / "jupyter_server_config.py").write_text("c.LabApp.news_url = None\n")
    port, log = _free_port(), folder / "server.log"
    with log.open("wb") as output:
        server = subprocess.Popen(_command(folder, port), env=_environment(folder), stdin=subprocess.DEVNULL,
                                  stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        _wait_until_it_answers(server, f"http://127.0.0.1:{port}/api/status", log)
        yield f"http://127.0.0.1:{port}"
    finally:
        _end(server)


def _command(folder: Path, port: int) -> list[str]:
    return [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ip=127.0.0.1", f"--port={port}",
            "--ServerApp.port_retries=0", "--IdentityProvider.token=", "--ServerApp.password=",
            "--ServerApp.disable_check_xsrf=True", f"--ServerApp.root_dir={folder / 'course'}",
            "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
            "--LabApp.expose_app_in_browser=True", "--ServerApp.terminals_enabled=False"]


def _environment(folder: Path) -> dict[str, str]:
    """Of this process, less what would lead to the user's own settings and kernels."""
    places = {"JUPYTER_CONFIG_DIR": "config", "JUPYTERLAB_SETTINGS_DIR": "settings", "JUPYTER_DATA_DIR": "data",
              "JUPYTERLAB_WORKSPACES_DIR": "workspaces", "JUPYTER_RUNTIME_DIR": "runtime", "IPYTHONDIR": "ipython"}
    return os.environ | {name: str(folder / place) for name, place in places.items()}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _wait_until_it_answers(server: subprocess.Popen, address: str, log: Path) -> None:
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end and server.poll() is None:
        try:
            with urllib.request.urlopen(address, timeout=5):
                return
        except OSError:
            time.sleep(0.05)
    raise RuntimeError(f"JupyterLab does not answer:\n{log.read_text(errors='replace')[-2000:]}")


def _end(server: subprocess.Popen) -> None:
    """Ask the server to end, which ends its kernels; then make sure, since kernels lead groups of their own."""
    family = psutil.Process(server.pid).children(recursive=True) if server.poll() is None else []
    try:
        server.send_signal(signal.SIGTERM)
        server.wait(15)
    except subprocess.TimeoutExpired:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()
    _, left = psutil.wait_procs(family, timeout=3)
    for process in left:
        process.kill()


class Lab:
    """One page with JupyterLab; the notebook opened last is the current one."""

    def __init__(self, browser: Browser, address: str, course: Path):
        self.course, self.errors = course, []
        self.page: Page = browser.new_page(viewport={"width": 1280, "height": 900})
        self.page.set_default_timeout(PATIENCE_S * 1000)
        self.page.on("pageerror", self._note)
        self.page.goto(f"{address}/lab")
        self.page.wait_for_function("() => window.jupyterapp")
        self._ask("() => window.jupyterapp.restored")
        self.notebook = self.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden)")

    def _note(self, error: Exception) -> None:
        if UNANSWERED not in str(error):
            self.errors.append(str(error))

    def open(self, path: str) -> None:
        """Show a notebook of the course and wait for its kernel: "run" before that silently runs nothing."""
        self._ask(f"""async path => {{
            await window.jupyterapp.commands.execute("docmanager:open", {{path}});
            const notebook = {CURRENT};
            await notebook.context.ready; await notebook.revealed; await notebook.sessionContext.ready;
            await notebook.sessionContext.session.kernel.info; }}""", path)

    def add(self, path: str, cells: list[str]) -> None:
        """Write a notebook into the server's copy of the course, and open it."""
        book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
        book.metadata.kernelspec = {"name": "python3", "display_name": "Python 3"}      # else a dialog asks for it
        nbformat.write(book, self.course / path)
        self.open(path)

    def cell(self, code: str) -> Locator:
        """The first code cell that contains `code`, scrolled into view and made the active one."""
        number = self._ask(f"""async code => {{
            const notebook = {CURRENT}.content;
            const number = notebook.widgets.findIndex(
                cell => cell.model.type == "code" && cell.model.sharedModel.source.includes(code));
            if (number < 0) throw new Error("no cell contains " + code);
            notebook.deselectAll();
            notebook.activeCellIndex = number;
            await notebook.scrollToItem(number, "start");
            return number; }}""", code)
        return self.notebook.locator(f'.jp-Cell[data-windowed-list-index="{number}"]')

    def start(self, code: str) -> Locator:
        """Start the cell that contains `code`."""
        cell = self.cell(code)
        self.page.evaluate("() => { window.jupyterapp.commands.execute('notebook:run-cell'); }")
        return cell

    def run(self, code: str) -> Locator:
        """Run the cell that contains `code` to its end."""
        cell = self.cell(code)
        self._ask("() => window.jupyterapp.commands.execute('notebook:run-cell')")
        return cell

    def run_all(self) -> None:
        """Run all cells to their end; the command itself ends at the first cell that raises."""
        self._ask("() => window.jupyterapp.commands.execute('notebook:run-all-cells')")
        self.page.wait_for_function(f"""() => {CURRENT}.content.widgets.every(
            cell => cell.model.type != "code" || cell.model.executionCount)""")

    def outputs(self) -> list[tuple[int | None, list[dict]]]:
        """Of each code cell of the notebook: its number, and what it shows."""
        return self._ask(f"""() => {CURRENT}.content.widgets.filter(cell => cell.model.type == "code")
            .map(cell => [cell.model.executionCount, cell.model.outputs.toJSON()])""")

    def end_kernel(self) -> None:
        self._ask(f"() => {CURRENT}.sessionContext.shutdown()")

    def _ask(self, script: str, *argument):
        """What the script returns; evaluate alone would wait for ever."""
        return self.page.evaluate(f"""argument => Promise.race([({script})(argument), new Promise((_, fail) =>
            setTimeout(() => fail(new Error("not done after {PATIENCE_S} s")), {PATIENCE_S * 1000}))])""", *argument)
