"""`launch` runs functions of any origin on any number of ranks and brings everything home."""
import subprocess
import sys
import threading

import pytest
import torch
import torch.distributed as dist

from helpers.run.launch import RankFailed, fork_server, launch
from tests.run.launch import programs


@pytest.mark.parametrize("world_size", [1, 2, 3, 4, 8])
def test_every_rank_takes_part_once(world_size):
    """Rank r gives 10**r: digit r of the sum says how often rank r was added."""
    assert launch(programs.sums, world_size).results == [float("1" * world_size)] * world_size


def test_takes_positional_and_keyword_arguments():
    assert launch(programs.sums, 2, 3).results == launch(programs.sums, 2, factor=3).results == [33.0, 33.0]


def test_takes_lambdas_and_closures():
    offset = torch.tensor([5.0])
    assert launch(lambda rank, world_size: offset + rank, 2).results == [torch.tensor([5.0]), torch.tensor([6.0])]


def test_takes_functions_of_a_script(tmp_path):
    """A script without `if __name__ == "__main__"` must not be run again by its own ranks."""
    script = tmp_path / "script.py"
    script.write_text("from helpers.run.launch import launch\n"
                      "def program(rank, world_size):\n"
                      "    return rank\n"
                      "print(launch(program, 3).results)\n")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("[0, 1, 2]\n", "")


def test_prints_come_in_rank_order_and_on_stdout(capsys):
    run = launch(programs.speaks, 2)
    out, err = capsys.readouterr()
    assert out == ("[rank 0] rank 0 of 2\n[rank 0] from a child of 0\n[rank 0] to stderr\n"
                   "[rank 1] rank 1 of 2\n[rank 1] from a child of 1\n[rank 1] to stderr\n")
    assert err == ""
    assert run.printed[1] == "rank 1 of 2\nfrom a child of 1\nto stderr\n"


def test_long_prints_are_shortened_on_the_page_only(capsys):
    run = launch(lambda rank, world_size: print("\n".join(map(str, range(1000)))), 1)
    assert "... 940 lines left out; Run.printed[0] has them ..." in capsys.readouterr().out
    assert len(run.printed[0].splitlines()) == 1000


def test_trace_holds_every_call_of_every_rank():
    def program(rank, world_size):
        dist.all_reduce(torch.ones(6))
        dist.barrier()

    trace = launch(program, 2).trace
    assert sorted((s.rank, s.label, s.nbytes) for s in trace) == [
        (0, "all_reduce 1", 24), (0, "barrier 2", 0), (1, "all_reduce 1", 24), (1, "barrier 2", 0)]
    assert all(0 < s.duration_s < 10 for s in trace)


def test_spans_of_two_ranks_share_a_clock():
    """A rank cannot leave a barrier before the other has come."""
    def program(rank, world_size):
        import time

        time.sleep(0.2 * rank)
        dist.barrier()

    first, second = sorted(launch(program, 2).trace, key=lambda s: s.rank)
    assert first.start < second.start < first.end


def test_a_wrapped_collective_counts_once():
    def program(rank, world_size):
        dist.all_gather_object([None] * world_size, rank)

    assert [s.kind for s in launch(program, 2).trace] == ["all_gather_object"] * 2


def test_one_thread_a_rank():
    assert launch(lambda rank, world_size: torch.get_num_threads(), 2).results == [1, 1]


def test_ranks_find_torch_already_imported():
    """Else each rank imports it for seconds: the preload of the fork server has silently failed."""
    def program(rank, world_size):
        import sys

        return "helpers.run.launch.preloaded" in sys.modules and "torch._dynamo" in sys.modules

    assert launch(program, 2).results == [True, True]


def test_a_rank_may_have_workers_of_its_own():
    def program(rank, world_size):
        from torch.utils.data import DataLoader

        return sorted(int(x) for batch in DataLoader(range(6), num_workers=2) for x in batch)

    assert launch(program, 2).results == [[0, 1, 2, 3, 4, 5]] * 2


def test_a_copy_that_a_program_makes_of_itself_does_not_answer_for_it():
    def program(rank, world_size):
        import os

        return "child" if os.fork() == 0 else "parent"

    assert launch(program, 2).results == ["parent"] * 2


def test_ranks_and_runs_draw_different_numbers():
    """As new processes would; a copy of the fork server would draw what it would."""
    def program(rank, world_size):
        import numpy

        return numpy.random.rand()

    assert len({*launch(program, 2).results, *launch(program, 2).results}) == 4


def test_a_program_may_leave_its_group():
    def program(rank, world_size):
        dist.all_reduce(torch.ones(1))
        dist.destroy_process_group()
        return rank

    assert launch(program, 2).results == [0, 1]


def test_a_launch_inside_a_rank_is_refused():
    def program(rank, world_size):
        launch(programs.sums, 2)

    with pytest.raises(RankFailed, match="launch cannot be called inside a rank program"):
        launch(program, 1)


@pytest.mark.parametrize(("call", "says"), [
    (lambda: launch(max, 2), "launch calls program"),
    (lambda: launch(programs.sums, 0), "world_size is a whole number from 1 to 64, not 0"),
    (lambda: launch(programs.sums, 65), "not 65"),
    (lambda: launch(programs.sums, 2.0), "not 2.0"),
    (lambda: launch(programs.sums, True), "not True"),
    (lambda: launch("program", 2), "takes a function program"),
    (lambda: launch(programs.sums, 2, timeout_s=0), "timeout_s is a number of seconds"),
    (lambda: launch(programs.sums, 2, timeout_s="5"), "timeout_s is a number of seconds"),
    (lambda: launch(programs.sums, 2, args=(3,)), "unexpected keyword argument 'args'"),
    (lambda: launch(lambda: 1, 2), "launch calls program\\(rank, world_size"),
    (lambda: launch(lambda rank, world_size, lock: rank, 2, threading.Lock()), "must be sent to other processes"),
])
def test_refuses_calls_that_cannot_work(call, says):
    with pytest.raises(ValueError, match=says):
        call()


def test_says_what_to_do_on_windows(monkeypatch):
    monkeypatch.setattr(fork_server.sys, "platform", "win32")
    with pytest.raises(OSError, match="WSL 2"):
        launch(programs.sums, 2)


def test_uses_the_loopback_device_of_the_system(monkeypatch):
    assert fork_server._settings()["GLOO_SOCKET_IFNAME"] == "lo"
    monkeypatch.setattr(fork_server.sys, "platform", "darwin")
    assert fork_server._settings()["GLOO_SOCKET_IFNAME"] == "lo0"


def test_leaves_the_kernels_environment_as_it_was(monkeypatch):
    import os

    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    before = dict(os.environ)
    launch(programs.sums, 1)
    assert dict(os.environ) == before
