"""Whatever a rank does wrong, the message names it, in time, and nothing is left."""
import contextlib
import functools
import os
import re
import signal
import sys
import threading
import time

import psutil
import pytest
import torch
import torch.distributed as dist

from helpers.run.launch import RankFailed, RankHung, launch
from tests.run.launch import programs

SOON_S = 3.0                    # after the fault, or after the deadline


@pytest.fixture(autouse=True, scope="module")
def _started():
    """What the first run opens, such as the fork server's pipe, stays open."""
    launch(programs.sums, 2)


@pytest.fixture(autouse=True)
def _leaves_nothing(_started, tmp_path, monkeypatch):
    """No rank, no folder, no open socket more than before."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before = psutil.Process().num_fds()
    yield
    server, = (c for c in psutil.Process().children()
               if c.status() != "zombie" and "forkserver" in " ".join(c.cmdline()))
    assert server.children(recursive=True) == []
    assert list(tmp_path.iterdir()) == []
    assert psutil.Process().num_fds() <= before


def said(error, program, world_size=2, **options) -> str:
    started = time.monotonic()
    with pytest.raises(error) as raised:
        launch(program, world_size, **options)
    assert time.monotonic() - started < options.get("timeout_s", 0) + SOON_S
    return str(raised.value)


FAILURES = [
    (programs.raises, "rank 1 of 3 raised ZeroDivisionError: division by zero"),
    (programs.exits, "rank 1 of 3 ended with exit code 3 before the program returned"),
    (programs.leaves, "rank 1 of 3 raised SystemExit: enough"),
    (programs.is_killed, "rank 1 of 3 was killed by SIGKILL (the system does so when memory runs out)"),
    (programs.aborts, "rank 1 of 3 aborted (SIGABRT)"),
    (programs.returns_a_lock, "rank 1 of 3 raised TypeError: the program returned a lock, which cannot be sent"),
    (programs.returns_what_cannot_be_read, "what rank 1 returned cannot be read here"),
]


@functools.cache
def said_on_three_ranks(program) -> str:
    return said(RankFailed, program, 3)


@pytest.mark.parametrize(("program", "says"), FAILURES, ids=lambda x: getattr(x, "__name__", ""))
def test_names_the_rank_that_failed(program, says):
    assert said_on_three_ranks(program).startswith(says)


@pytest.mark.parametrize("program", [p for p, _ in FAILURES[:5]], ids=lambda x: x.__name__)
def test_says_that_the_others_followed(program):
    assert "ranks 0 and 2 followed: without rank 1 the run cannot go on" in said_on_three_ranks(program)


def test_shows_the_learners_line_and_only_that():
    message = said_on_three_ranks(programs.raises)
    assert re.search(r'File "programs.py", line \d+, in raises\n    return 1 / 0\n', message)
    assert "rank.py" not in message


def test_two_failures_are_told_in_their_order():
    message = said(RankFailed, programs.wrong_here)
    assert message.index("rank 1 of 2 raised KeyError") < message.index("rank 0 raised ValueError: second, too")


def test_failing_alike_is_one_failure():
    def program(rank, world_size):
        raise ValueError("on every rank")

    assert said(RankFailed, program, 4).startswith("ranks 0, 1, 2 and 3 of 4 raised ValueError: on every rank")


def test_tensors_of_different_sizes_are_explained():
    message = said(RankFailed, programs.gives_other_sizes)
    assert "aborted (SIGABRT)" in message
    assert "The ranks gave tensors of different sizes or dtypes to one call." in message


def test_a_rank_that_returns_early_is_found():
    message = said(RankFailed, programs.returns_early, 3)
    assert message.startswith("ranks 0 and 2 of 3 waited for a rank that had already returned")
    assert "rank 1 has returned, and has made no call of torch.distributed" in message
    assert "rank 0 waits in all_reduce (collective 1)" in message


def test_printing_without_end_is_stopped():
    message = said(RankFailed, programs.prints_without_end)
    assert message.startswith("rank 1 printed more than 17 MB and was stopped; its last line: 'xxx")


def test_a_huge_result_is_refused():
    with pytest.raises(RankFailed, match="rank 1 of 2 raised ValueError: the program returned a Tensor of more than"):
        launch(programs.returns_something_huge, 2)


def test_a_hang_shows_line_collective_and_number_of_each_rank():
    message = said(RankHung, programs.hangs_in_collective, 3, timeout_s=1)
    assert message.startswith("not done after 1 s\n")
    for rank, call in enumerate(["barrier", "broadcast", "barrier"]):
        assert re.search(rf"rank {rank} waits in {call} \(collective 2\)\n    File .*, line \d+, in hangs", message)
    assert "The ranks are in different calls" in message


def test_a_hang_in_python_shows_its_line():
    message = said(RankHung, programs.hangs_in_python, 2, timeout_s=1)
    assert re.search(r"rank 1 has made no call of torch.distributed\n    File .*, line \d+, in hangs_in_py", message)
    assert "Look at rank 1 first. Collective calls that it has started: 0; another rank: 1." in message


def test_a_deadlock_of_sends_shows_both():
    message = said(RankHung, programs.both_send_first, 2, timeout_s=1)
    assert message.count("waits in send (point-to-point call 1)") == 2


def test_a_rank_stopped_by_a_signal_still_ends_with_the_call():
    def program(rank, world_size):
        import os
        import signal

        os.kill(os.getpid(), signal.SIGSTOP)

    assert said(RankHung, program, 1, timeout_s=1).startswith("not done after 1 s")


def test_what_a_rank_has_started_ends_with_it():
    for pid in launch(programs.starts_a_child, 2).results:
        gone = time.monotonic() + 2
        while psutil.pid_exists(pid) and psutil.Process(pid).status() != "zombie" and time.monotonic() < gone:
            time.sleep(0.01)
        assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == "zombie"


@pytest.mark.parametrize("num_runs", [5, pytest.param(50, marks=pytest.mark.soak)])
def test_each_of_many_runs_in_a_row_gives_its_own_sum(num_runs):
    for number in range(num_runs):
        assert launch(programs.sums, 2, factor=number).results == [11.0 * number] * 2


def test_a_killed_fork_server_is_replaced():
    server, = (c for c in psutil.Process().children() if "forkserver" in " ".join(c.cmdline()))
    server.kill()
    time.sleep(0.2)
    assert launch(programs.sums, 2).results == [11.0, 11.0]


def test_two_runs_at_once_do_not_meet():
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(2) as pool:
        runs = pool.map(lambda factor: launch(programs.sums, 2, factor=factor).results, [1, 2, 3, 4, 5, 6])
    assert list(runs) == [[11.0 * f] * 2 for f in (1, 2, 3, 4, 5, 6)]


def test_the_count_of_collectives_is_kept_through_other_calls():
    """Rank 0 has made as many collectives as rank 1, and then waits in a receive."""
    def program(rank, world_size):
        for _ in range(3):
            dist.all_reduce(torch.ones(1))
        if rank == 0:
            dist.recv(torch.ones(1), 1)
        else:
            time.sleep(60)

    message = said(RankHung, program, 2, timeout_s=1)
    assert "waits in recv (point-to-point call 1; 3 collectives so far)" in message
    assert "Look at rank" not in message


def test_calls_of_a_group_are_not_counted_against_those_outside():
    def program(rank, world_size):
        group = dist.new_group([1, 2])
        if rank == 1:
            time.sleep(60)
        if rank == 2:
            dist.all_reduce(torch.ones(1), group=group)

    message = said(RankHung, program, 3, timeout_s=1)
    assert "rank 2 waits in all_reduce (collective 1, of a group)" in message
    assert "only its ranks must make them" in message


class Unspeakable(Exception):
    def __str__(self):
        raise RuntimeError


def test_an_exception_that_cannot_be_printed_is_named():
    def program(rank, world_size):
        raise Unspeakable

    message = said(RankFailed, program, 1)
    assert "rank 0 of 1 raised" in message
    assert "Unspeakable" in message


@pytest.mark.parametrize("close", [lambda: sys.stdout.close(), lambda: setattr(sys, "stdout", None)])
def test_a_program_may_close_its_output(close):
    def program(rank, world_size):
        close()
        return rank

    assert launch(program, 2).results == [0, 1]


def test_deep_recursion_is_shown_in_a_few_lines():
    def down():
        down()

    def program(rank, world_size):
        down()

    message = said(RankFailed, program, 1)
    assert "RecursionError" in message
    assert "more lines ..." in message
    assert len(message.splitlines()) < 20


def test_a_cause_is_told_and_a_long_error_is_cut():
    def program(rank, world_size):
        try:
            {}["key"]
        except KeyError as error:
            raise ValueError("x" * 100_000) from error

    message = said(RankFailed, program, 1)
    assert "caused by KeyError: 'key'" in message
    assert len(message) < 4000


def test_a_bare_assert_is_no_empty_sentence():
    def program(rank, world_size):
        raise AssertionError

    assert said(RankFailed, program, 1).startswith("rank 0 of 1 raised AssertionError\n")


def test_a_real_time_signal_is_told_by_its_number():
    def program(rank, world_size):
        os.kill(os.getpid(), 40)

    assert "rank 0 of 1 was killed by signal 40" in said(RankFailed, program, 1)


@pytest.fixture
def interruptible():
    """Also where Ctrl-C is ignored, as under nohup: who starts pytest there has it ignore SIGINT."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_a_second_interrupt_waits_for_the_clean_up(interruptible):
    """As when somebody presses Ctrl-C twice: both come, and nothing is left."""
    def program(rank, world_size):
        time.sleep(60)

    for delay_s in (0.3, 0.31, 0.35):
        for after_s in (0.3, delay_s):
            threading.Timer(after_s, os.kill, (os.getpid(), signal.SIGINT)).start()
        with contextlib.suppress(KeyboardInterrupt):            # the second one may come after the first was raised
            launch(program, 2)
        with contextlib.suppress(KeyboardInterrupt):
            time.sleep(0.5)
