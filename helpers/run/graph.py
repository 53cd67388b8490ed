"""Walk the graph that a forward has left for backward."""
from __future__ import annotations

import torch
from torch import nn
from torch.utils._pytree import tree_leaves


def parameters_behind(output: object) -> set[nn.Parameter]:
    """The parameters that a backward from `output`, a tensor or any nesting of them, will give a gradient."""
    ahead = [leaf.grad_fn for leaf in tree_leaves(output) if isinstance(leaf, torch.Tensor)]
    seen, found = set(), set()
    while ahead:
        function = ahead.pop()
        if function is None or function in seen:
            continue
        seen.add(function)
        if hasattr(function, "variable"):               # the node that adds to a leaf's .grad
            found.add(function.variable)
        ahead += [following for following, _ in function.next_functions]
    return found
