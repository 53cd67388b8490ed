"""In a real notebook kernel: functions of cells, an interrupt, and the kernel's own death.

One kernel for all tests, since each imports torch; the test that kills it is the last.
"""
import os
import signal
import threading
import time

import psutil
import pytest
from jupyter_client.manager import start_new_kernel

SLEEPER = """
from helpers.run.launch import launch
def program(rank, world_size):
    import time
    print("up")
    time.sleep(60)
launch(program, 2, timeout_s=50)
"""


@pytest.fixture(scope="module")
def kernel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kernel")
    manager, client = start_new_kernel(env={**os.environ, "TMPDIR": str(folder)})
    manager.folder = folder
    yield manager, client
    client.stop_channels()
    manager.shutdown_kernel(now=True)


def answer(client, code: str) -> tuple[str, int]:
    """What a cell shows, its prints and its error as a learner sees it; and the cell's number."""
    shown = []

    def hook(message):
        content = message["content"]
        shown.append(content.get("text", "") or "\n".join(content.get("traceback", [])))

    reply = client.execute_interactive(code, output_hook=hook, timeout=60)
    return "".join(shown), reply["content"]["execution_count"]


def runs(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def wait_for_ranks(manager, count: int) -> list[psutil.Process]:
    end = time.monotonic() + 30
    while time.monotonic() < end:
        family = psutil.Process(manager.provisioner.pid).children(recursive=True)
        ranks = [p for p in family if p.ppid() != manager.provisioner.pid]
        if len(ranks) >= count:
            return family
        time.sleep(0.05)
    raise TimeoutError("the ranks did not start")


def test_a_failing_cell_shows_its_line_and_nothing_of_the_course(kernel):
    _, client = kernel
    shown, number = answer(client, "from helpers.run.launch import launch\n"
                                   "def program(rank, world_size):\n"
                                   "    if rank == 1:\n"
                                   "        return 1 / 0\n"
                                   "launch(program, 2);")
    assert shown == ("RankFailed: rank 1 of 2 raised ZeroDivisionError: division by zero\n"
                     f"  Cell In[{number}], line 4, in program\n"
                     "    return 1 / 0")


def test_an_interrupt_says_where_each_rank_was_and_ends_them(kernel):
    manager, client = kernel
    families = []

    def interrupt():
        families.append(wait_for_ranks(manager, 2))
        time.sleep(0.5)
        manager.interrupt_kernel()

    threading.Thread(target=interrupt).start()
    shown, number = answer(client, SLEEPER)
    for rank in (0, 1):
        assert (f"  rank {rank} has made no call of torch.distributed\n"
                f"    Cell In[{number}], line 5, in program: time.sleep(60)\n") in shown
        assert f"[rank {rank}] up\n" in shown
    assert "KeyboardInterrupt" in shown
    server, = (p for p in families[0] if runs(p) and "forkserver" in " ".join(p.cmdline()))
    assert server.children() == []
    assert not list(manager.folder.glob("ranks-*"))
    assert "[11.0, 11.0]" in answer(client, "import torch, torch.distributed as dist\n"
                                            "def sums(rank, world_size):\n"
                                            "    t = torch.tensor([10.0 ** rank])\n"
                                            "    dist.all_reduce(t)\n"
                                            "    return t.item()\n"
                                            "print(launch(sums, 2).results)")[0]


def test_a_killed_kernel_leaves_no_process_and_no_file(kernel):
    manager, client = kernel
    client.execute(SLEEPER)
    family = wait_for_ranks(manager, 2)
    os.kill(manager.provisioner.pid, signal.SIGKILL)
    end = time.monotonic() + 5
    while (left := [p for p in family if runs(p)] + [*manager.folder.iterdir()]) and time.monotonic() < end:
        time.sleep(0.05)
    assert left == []
