"""Run a student's cells, inside a sandbox, and hand over what a check asks for.

    {"run": source}            -> {"outputs": [...], "failed": bool}, outputs as a notebook stores them
    {"hand_over": [names]}     -> {"answers": {name: packed}}

Plain values are handed over as plain data, everything else as a pickle that the judge never opens.  Whatever the
student's code does to this process, it can only hand over what a student may hand in.
"""
from __future__ import annotations

import base64
from collections.abc import Callable

from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

from helpers.checks.judge.captured import without_annotations
from helpers.checks.judge.sent import Sent
from helpers.checks.judge.verdict import plain
from helpers.run.launch import fork_server, pickling, plain_data

MOST_TEXT = 100_000             # characters of one output that are kept


class Shell(InteractiveShell):
    """IPython without a terminal; keeps an error instead of printing it."""

    failed: dict | None = None

    def _showtraceback(self, etype, evalue, stb) -> None:
        self.failed = {"output_type": "error", "ename": _text(etype.__name__), "evalue": _text(str(evalue)),
                       "traceback": [_text(line) for line in stb]}


def serve_answers() -> Callable[[dict], dict]:
    """The function that answers requests in a process of its own, which it changes for good."""
    fork_server.serve_from_here()
    shell = Shell.instance()

    def serve(request: dict) -> dict:
        if "run" in request:
            return _run(shell, request["run"])
        return {"answers": {name: _packed(shell.user_ns[name]) for name in request["hand_over"]
                            if name in shell.user_ns}}

    return serve


def _run(shell: Shell, source: str) -> dict:
    shell.failed = None
    with capture_output() as captured:
        try:
            shell.run_cell(source, store_history=True)
        except BaseException as error:                  # what IPython lets through, such as SystemExit
            shell.failed = {"output_type": "error", "ename": type(error).__name__, "evalue": _text(str(error)),
                            "traceback": []}
    outputs = [{"output_type": "stream", "name": name, "text": _text(text)}
               for name, text in (("stdout", captured.stdout), ("stderr", captured.stderr)) if text]
    outputs += [{"output_type": "display_data", "data": {kind: _text(data) for kind, data in rich.data.items()},
                 "metadata": {}} for rich in captured.outputs if isinstance(rich.data, dict)]
    return {"outputs": outputs + ([shell.failed] if shell.failed else []), "failed": shell.failed is not None}


def _text(data: object) -> str:
    text = data if isinstance(data, str) else base64.b64encode(data).decode() if isinstance(data, bytes) else str(data)
    if isinstance(data, str) and len(text) > MOST_TEXT:
        text = f"{text[:MOST_TEXT]}\n... and {len(text) - MOST_TEXT:,} characters more"
    return text.encode(errors="replace").decode()


def _packed(value: object) -> dict:
    value = plain(value)
    try:
        return {"plain": plain_data.encode(value).decode()}
    except plain_data.NotPlain:
        pass
    try:
        with without_annotations(value):
            data = pickling.pickle_by_value(value)
    except Exception as error:
        return {"refused": _text(f"it cannot be sent to another process: {type(error).__name__}: {error}")}
    return {"sent": base64.b64encode(data).decode(), "type_name": type(value).__name__, "is_callable": callable(value)}


def unpacked(packed: dict) -> object:
    """A value as the judge gets it: plain data, or `Sent`.  Raises `NotPlain` for anything that is neither."""
    if "plain" in packed:
        return plain_data.decode(packed["plain"].encode())
    if "sent" in packed:
        return Sent(base64.b64decode(packed["sent"]), str(packed["type_name"])[:80], bool(packed["is_callable"]))
    raise plain_data.NotPlain(str(packed.get("refused", "nothing was handed over"))[:500])
