"""A learner's function runs in a process of its own: nothing that it does there harms or fools the check."""
import os
import socket
import subprocess
import sys
import threading
import time
from decimal import Decimal
from fractions import Fraction

import numpy as np
import psutil
import pytest
import torch

from helpers.checks.ddp import buckets
from helpers.checks.judge import other_process, verdict
from helpers.checks.judge.other_process import Raised
from helpers.checks.judge.verdict import CheckFailed
from helpers.facts.errors import BadValue
from tests.checks import answers, answers_odd
from tests.checks.memory import answers_bytes
from tests.checks.outcome import outcome


def test_values_come_back_in_the_order_of_the_cases():
    assert other_process.answers(lambda x: x * x, [{"x": x} for x in range(5)]) == [0, 1, 4, 9, 16]
    assert other_process.answers(lambda x: [7, True, 1.5, "text"][x], [{"x": x} for x in range(4)]) == [
        7, True, 1.5, "text"]


def test_one_case_that_raises_leaves_the_others():
    assert other_process.answers(lambda x: 6 / x, [{"x": 2}, {"x": 0}, {"x": 3}]) == [
        3.0, Raised("raised ZeroDivisionError: division by zero"), 2.0]


@pytest.mark.parametrize(("function", "words"), [
    (answers.returns_nothing, "returned None: is there a return?"),
    (answers.is_not_written_yet, "is not written yet"),
    (answers.leaves_with_sys_exit, "raised SystemExit: enough"),
    (answers.returns_a_list, "returned a list; a number is asked for"),
    (answers_odd.returns_a_size, "returned a Size; a number is asked for"),
    (answers_odd.returns_a_meta_tensor, "returned a Tensor; a number is asked for"),
    (answers_odd.returns_what_cannot_be_printed, "returned a PrintsNothingOfItself; a number is asked for"),
    (answers_odd.returns_what_has_no_module, "returned a HasNoModule; a number is asked for"),
    (answers_odd.interrupts_itself, "raised KeyboardInterrupt"),
    (answers_odd.raises_ten_million_letters, f"raised ValueError: {'x' * 160}"),
])
def test_what_is_no_number_comes_back_as_words(function, words):
    assert other_process.answers(function, [{}, {}]) == [Raised(words)] * 2


def test_words_name_what_the_exercise_asks_for():
    got = other_process.answers(answers.returns_a_list, [{}], "a name")
    assert got == [Raised("returned a list; a name is asked for")]


def test_errors_of_the_course_come_back_whole_and_others_cut():
    def raises(kind):
        raise {"own": BadValue, "other": ValueError}[kind]("x" * 500)

    own, other = other_process.answers(raises, [{"kind": "own"}, {"kind": "other"}])
    assert (own.words, other.words) == (f"raised BadValue: {'x' * 500}", f"raised ValueError: {'x' * 160}")


@pytest.mark.parametrize(("function", "number"), [
    (lambda: Fraction(3, 2), 1.5), (lambda: Decimal("1.5"), 1.5), (lambda: np.float32(1.5), 1.5),
    (lambda: torch.tensor([7]), 7), (answers_odd.returns_400_digits, 10**400),
    (answers_odd.returns_5000_digits, 10**5000)], ids=range(6))
def test_numbers_of_any_kind_come_back_as_pythons_own(function, number):
    (got,) = other_process.answers(function, [{}])
    assert (type(got), got == number) == (type(number), True)


def test_each_case_is_a_copy():
    """What a function does to its arguments changes neither the other cases nor those of the check."""
    kept = {"gradient": 4, "parameter": 2}
    cases = [{"recipe": kept}, {"recipe": kept}]
    assert other_process.answers(lambda recipe: recipe.popitem()[1] + len(recipe), cases) == [3, 3]
    assert cases == [{"recipe": {"gradient": 4, "parameter": 2}}] * 2


def test_functions_of_a_cell_travel_with_what_they_use():
    cell = {"__name__": "__main__", "np": __import__("numpy"), "factor": 3}
    exec("def helper(x):\n    return np.int64(factor * x)\ndef function(x):\n    return helper(x) + 1", cell)
    assert other_process.answers(cell["function"], [{"x": 2}]) == [7]


@pytest.mark.parametrize("code", [
    "from helpers.predict.memory import state_bytes\ndef function():\n    return state_bytes(1, 1, 0)",
    "from helpers.predict import memory\ndef function():\n    return memory.state_bytes(1, 1, 0)",
    "import helpers.predict.memory\ndef function():\n    return helpers.predict.memory.state_bytes(1, 1, 0)",
    "def function():\n    import helpers.predict.memory as m\n    return m.state_bytes(1, 1, 0)",
    "import functools\nfrom helpers.predict.memory import state_bytes\nfunction = functools.partial(state_bytes, 1)",
    "from helpers.predict.memory import state_bytes as function",
])
def test_helpers_predict_cannot_be_used(code):
    cell = {"__name__": "__main__"}
    exec(code, cell)
    (got,) = other_process.answers(cell["function"], [{}])
    assert isinstance(got, Raised)
    assert "helpers.predict" in got.words


ANNOTATED = """
import functools
from dataclasses import dataclass
from helpers.facts.schedules import Action
def helper(x: Action) -> list[Action]:
    return x
def function(x: int, y: Action = 1, *, z: Action = 2) -> list[Action]:
    return x + y + z if x else function(helper(1))
class Clock:
    def ticks(self, x) -> Action:
        return x + 3
def with_a_class(x: Action) -> Action:
    return Clock().ticks(x)
def has_one_inside(x):
    def inner(x: Action) -> Action:
        return x + 3
    return inner
inside = has_one_inside(1)
part = functools.partial(function)
method = Clock().ticks
def uses_it(x) -> Action:
    return Action("F", 0, 0).stage
"""


@pytest.mark.parametrize("name", ["function", "with_a_class", "inside", "part", "method"])
def test_annotations_use_nothing(name):
    cell = {"__name__": "__main__"}
    exec(ANNOTATED, cell)
    before = dict(cell["function"].__annotations__)
    assert other_process.answers(cell[name], [{"x": 1}], forbidden=("helpers.facts.schedules",)) == [4]
    assert (cell["function"].__annotations__, len(before)) == (before, 4)


def test_what_is_used_besides_annotations_is_still_forbidden():
    cell = {"__name__": "__main__"}
    exec(ANNOTATED, cell)
    (got,) = other_process.answers(cell["uses_it"], [{"x": 1}], forbidden=("helpers.facts.schedules",))
    assert got == Raised("uses helpers.facts.schedules, which this exercise asks you to do without")


def test_this_process_can_use_helpers_predict_afterwards():
    other_process.answers(int, [{}])
    assert sys.modules["helpers.predict"] is not None
    assert other_process.answers(answers_bytes.uses_helpers_predict, [{}]) != [0]
    __import__("helpers.predict.memory")


def test_changes_made_over_there_stay_there():
    other_process.answers(answers.makes_the_check_generous_over_there, [{}])
    assert verdict.CLOSE == 0.005
    assert not verdict.is_number(True)


@pytest.mark.parametrize(("function", "says"), [
    (answers.exits_the_process, "exit code 3"), (answers.is_killed, "SIGKILL"),
    (answers_odd.prints_17_mb_of_blanks, "printed more than 17 MB")])
def test_a_function_that_ends_its_process_is_told_so(function, says):
    with pytest.raises(CheckFailed, match=f"(?s)the function ended its process: .*{says}"):
        other_process.answers(function, [{}])


@pytest.mark.parametrize("make", [lambda: (lambda lock: lambda: lock)(threading.Lock()),
                                  lambda: (lambda place: lambda: place)(socket.socket()),
                                  lambda: (n for n in "").__next__], ids=["a_lock", "a_socket", "a_generator"])
def test_what_cannot_be_sent_is_named(make):
    with pytest.raises(CheckFailed, match=r"the function cannot be sent to another process: .*pickle"):
        other_process.answers(make(), [{}])


def test_a_function_that_loops_is_ended(impatient, tmp_path):
    note = str(tmp_path / "pid")

    def notes_its_process_and_loops():
        with open(note, "w") as file:
            file.write(str(os.getpid()))
        while True:
            pass

    started = time.monotonic()
    with pytest.raises(CheckFailed, match=r"after 0.3 s: does a loop in it never end, or does it try too many cases\?"):
        other_process.answers(notes_its_process_and_loops, [{}])
    assert time.monotonic() - started < 5
    assert not psutil.pid_exists(int((tmp_path / "pid").read_text()))


def test_children_of_a_function_are_ended():
    (pid,) = other_process.answers(lambda: subprocess.Popen(["sleep", "60"]).pid, [{}])
    deadline = time.monotonic() + 5
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_thread_that_goes_on_does_not_hold_the_check_up():
    started = time.monotonic()
    assert other_process.answers(lambda: threading.Thread(target=time.sleep, args=(30,)).start() or 3, [{}]) == [3]
    assert time.monotonic() - started < 5


def test_what_a_function_prints_is_marked_as_its_own(capsys):
    assert other_process.answers(answers.prints_that_it_is_right, [{}]) == [0]
    assert capsys.readouterr().out == "[rank 0] ok     stage 0\n[rank 0] 2 of 2 points.\n"


def test_a_function_may_need_a_gigabyte():
    assert other_process.answers(lambda: len(bytearray(10**9)), [{}]) == [10**9]


@pytest.mark.parametrize("code", ["from helpers.predict.collectives import bytes_sent",
                                  "import helpers.predict.collectives",
                                  "from helpers import predict", "from helpers.predict import collectives",
                                  "from helpers.compare.table import number"])
def test_on_ranks_what_a_check_has_loaded_itself_is_forbidden_all_the_same(code):
    cell = {"__name__": "__main__"}
    exec(compile(f"def function(*answer):\n    {code}", "<cell>", "exec"), cell)
    words = outcome(buckets.check_buckets, cell["function"])[1]
    package = ".".join(code.split()[1].split(".")[:2])
    assert f"uses {package}" in words
    assert "which this exercise asks you to do without" in words
