"""Start one function as N processes joined by gloo, wait for all of them, and report how they failed.

    check_call        Refuse calls of `launch` that cannot work, before anything is started
    failure_report    Say in words how a run went wrong: which rank, on which line, in which collective
                      RankFailed, RankHung
    fork_server       Processes that start in milliseconds: copies of one server that has imported torch
                      preload, warm_up
    hugepages         Make this process cheap to copy
    launcher          Run one function as N real processes joined by gloo
                      Run, launch
    outcome           What became of each rank of a run, as plain data that the kernel reads without torch
    pickling          Pack what travels between the kernel and the ranks
    plain_data        Data that can be read without running anything: what a judge takes from processes that it does not
                      trust
    preloaded         What the fork server imports once, so that no rank has to
    progress          What a run shows while and after it runs: a line that counts seconds, then what the ranks printed
    rank              What happens inside each process that `launch` starts
    stack             Stacks of ranks: read from faulthandler's dump, and which of their lines are the learner's own
    started_rank      One rank that the launcher has started: what it has sent home so far, and what became of it
"""
from helpers.run.launch.failure_report import RankFailed, RankHung
from helpers.run.launch.fork_server import preload, warm_up
from helpers.run.launch.launcher import Run, launch

__all__ = ["RankFailed", "RankHung", "Run", "launch", "preload", "warm_up"]
