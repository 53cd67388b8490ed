"""Run check cells on what a student's process has handed over, inside a sandbox of the judge's own.

    {"prepare": [sources]}              the cells that come with the exercise: imports, given code
    {"seed": text}                      of unseen cases, after the server of ranks has been started
    {"check": source, "answers": {...}} -> {"points": float, "outputs": [...], "verdicts": [...]}

The judge never unpickles anything: functions go on to its ranks as they came, and ranks send plain data.  Its memory
cannot be read by its ranks, which are copies of a process that had neither the seed nor an answer yet.
"""
from __future__ import annotations

import ast
import contextlib
import io
import traceback
import types
from collections.abc import Callable

from helpers.checks.judge import seed, verdict
from helpers.grade.apart.answers import unpacked
from helpers.run.launch import fork_server, launcher, plain_data, warm_up

MOST_TEXT = 50_000              # characters of what a check says


def serve_checks() -> Callable[[dict], dict]:
    """The function that answers requests in a process of its own, which it changes for good."""
    fork_server.serve_from_here()
    launcher.distrust_ranks()
    warm_up()
    space = types.ModuleType("__main__").__dict__

    def serve(request: dict) -> dict:
        if "prepare" in request:
            for source in request["prepare"]:
                exec(compile(source, "<given>", "exec"), space)
        if "seed" in request:
            seed.use(request["seed"].encode())
        if "check" in request:
            return _checked(request["check"], space, request["answers"])
        return {}

    return serve


def _checked(source: str, space: dict, answers: dict) -> dict:
    mine, printed, hidden, points, failed = dict(space), io.StringIO(), io.StringIO(), 0.0, None
    verdicts: list[verdict.Verdict] = []
    try:
        mine |= {name: _answer(name, packed) for name, packed in answers.items()}
        with contextlib.redirect_stdout(printed), verdict.noted() as verdicts:
            points = _value(source, mine, hidden)
    except Exception as error:
        failed = {"output_type": "error", "ename": type(error).__name__, "evalue": str(error)[:MOST_TEXT],
                  "traceback": _lines(error)}
    outputs = [{"output_type": "stream", "name": "stdout", "text": text}] if (text := printed.getvalue()[:MOST_TEXT]) \
        else []
    if text := hidden.getvalue()[:MOST_TEXT]:
        outputs.append({"output_type": "display_data", "data": {"text/plain": text}, "metadata": {"hidden": True}})
    if failed is None:
        outputs.append({"output_type": "execute_result", "data": {"text/plain": repr(points)}, "metadata": {},
                        "execution_count": 1})
    return {"points": points, "outputs": outputs + ([failed] if failed else []),
            "verdicts": [[one.points, one.what, one.wrong] for one in verdicts],
            "broken": failed is not None and failed["ename"] != verdict.CheckFailed.__name__}


def _answer(name: str, packed: dict) -> object:
    try:
        return unpacked(packed)
    except plain_data.NotPlain as error:
        raise verdict.CheckFailed(f"{name} was not handed over: {error}") from None


def _value(source: str, space: dict, hidden: io.StringIO) -> float:
    """What the last expression of a cell gives: the points; what hidden tests print goes to `hidden`."""
    lines = source.splitlines()
    begin, end = (next((n for n, line in enumerate(lines, 1) if mark in line), 0)
                  for mark in ("### BEGIN HIDDEN TESTS", "### END HIDDEN TESTS"))
    *before, last = ast.parse(source).body
    if not isinstance(last, ast.Expr):
        raise ValueError("the check's last line is no expression, so it gives no points")
    for statement in before:
        is_hidden = begin < statement.lineno < end
        with contextlib.redirect_stdout(hidden) if is_hidden else contextlib.nullcontext():
            exec(compile(ast.Module([statement], []), "<check>", "exec"), space)
    return float(eval(compile(ast.Expression(last.value), "<check>", "eval"), space))


def _lines(error: Exception) -> list[str]:
    if isinstance(error, verdict.CheckFailed):
        return [f"CheckFailed: {error}"[:MOST_TEXT]]
    return "".join(traceback.format_exception(error))[:MOST_TEXT].splitlines()
