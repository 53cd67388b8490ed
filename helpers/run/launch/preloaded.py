"""What the fork server imports once, so that no rank has to.

Only the fork server imports this module, after those that `preload` has named.  Each rank is a copy of it: a rank
starts in milliseconds and shares these modules' memory with its siblings.
`torch._dynamo` and `symbolic_shapes` spare the first `DDP()` and the first
`backward(grad)` of every rank several seconds.
"""
import atexit
import gc
import itertools
import os
import shutil
import time

import torch
import torch._dynamo
import torch.distributed.fsdp
import torch.fx.experimental.symbolic_shapes

import helpers.run.launch.rank  # noqa: F401
from helpers.run.launch.hugepages import collapse

torch.set_num_threads(1)
gc.collect()
gc.freeze()                  # a collection in a rank would touch, and so copy, every shared page

MANY = 40                    # ranks: from then on, the CPU second that large pages take is worth it
server, kernel = os.getpid(), os.getppid()
_num_forks = itertools.count(1)


def _collapse_if_many() -> None:
    """Each rank then takes a third less to start and to end."""
    if os.getpid() == server and next(_num_forks) == MANY:      # a rank that forks has this hook, too
        collapse()


os.register_at_fork(before=_collapse_if_many)


@atexit.register
def _remove_folder() -> None:
    """A notebook kernel that is killed cannot remove the folder of the server's socket; one that lives needs it."""
    end = time.monotonic() + 2.0                        # a dying kernel closes its pipes before it is gone
    while os.getppid() == kernel and time.monotonic() < end:
        time.sleep(0.01)
    if os.getppid() != kernel:
        shutil.rmtree(os.environ["COURSE_SERVER_FOLDER"], ignore_errors=True)
