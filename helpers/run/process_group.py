"""Which ranks take part: those of a process group, or all of them.

Two parallelisms share the ranks of one program by working in different groups.  A group is one axis of a mesh:

    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("pp", "dp"))

                dp 0      dp 1          mesh.get_group("dp")    ranks 0 and 1, or 2 and 3: a row
        pp 0    rank 0    rank 1        mesh.get_group("pp")    ranks 0 and 2, or 1 and 3: a column
        pp 1    rank 2    rank 3

Inside a group, ranks are counted from 0 again.  torch's `src` and `dst` are ranks of the whole program all the same,
so code for any group names its peers by `group_src` and `group_dst`.

Source: torch/distributed/distributed_c10d.py and device_mesh.py.
"""
from __future__ import annotations

import torch.distributed as dist

from helpers.facts.errors import BadValue


def checked_group(process_group: dist.ProcessGroup | None) -> dist.ProcessGroup | None:
    """`process_group` itself, if this rank is in it; None stands for all ranks."""
    if process_group is None or isinstance(process_group, dist.ProcessGroup):
        return process_group
    if type(process_group) is int and process_group == dist.GroupMember.NON_GROUP_MEMBER:
        raise BadValue(f"rank {dist.get_rank()} is not in this process_group: torch gave it a placeholder when it made "
                       "the group of other ranks; pass each rank the group that it is in, as mesh.get_group(\"dp\") of "
                       "init_device_mesh does")
    raise BadValue(f"process_group is {process_group!r}: pass a group such as mesh.get_group(\"dp\") or "
                   "torch.distributed.new_group([0, 1]) gives, or None for all ranks")
