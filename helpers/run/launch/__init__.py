"""Start one function as N processes joined by gloo, wait for all of them, and report how they failed."""
from helpers.run.launch.failure_report import RankFailed, RankHung
from helpers.run.launch.fork_server import preload, warm_up
from helpers.run.launch.launcher import Run, launch

__all__ = ["RankFailed", "RankHung", "Run", "launch", "preload", "warm_up"]
