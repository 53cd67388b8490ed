"""Functions that import, and functions that are stubs or are none; nothing of helpers is imported here."""


def imported(names):
    """Which of many imports succeed, in the process where an answer is checked."""
    import importlib

    found = []
    for name in names:
        parent, _, module = name.rpartition(".")
        for code in (f"import {name}", f"from {parent} import {module}"):
            try:
                exec(code, {})
                found.append(code)
            except ImportError:
                pass
        try:
            importlib.import_module(name)
            found.append(name)
        except ImportError:
            pass
    return ", ".join(found) or "none"


def torch_raises(x):
    import torch

    class Unfinished(torch.autograd.Function):
        pass

    return Unfinished.apply(torch.ones(1, requires_grad=True))      # torch raises NotImplementedError here


def stub(x):
    raise NotImplementedError


def calls_a_stub(x):
    return stub(x)
