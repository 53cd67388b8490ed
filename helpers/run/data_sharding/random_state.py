"""Draw from a loader, and leave all randomness as it was."""
from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import numpy
import torch
from torch.utils.data import DataLoader, IterableDataset, Sampler


@contextmanager
def preserved_random_state(loader: DataLoader) -> Iterator[None]:
    """Put the global generators back, and the generators and counters of the loader and its samplers."""
    put_back = list(_states(loader, set()))
    pythons, numpys = random.getstate(), numpy.random.get_state()
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        random.setstate(pythons)
        numpy.random.set_state(numpys)
        for put in put_back:
            put()


def _states(thing: object, seen: set[int]) -> Iterator[Callable[[], object]]:
    """What restores each attribute of a loader or sampler, and of the samplers within."""
    if id(thing) in seen:
        return
    seen.add(id(thing))
    attributes = getattr(thing, "__dict__", {})
    yield partial(_forget, attributes, set(attributes))
    for name, value in attributes.items():
        if isinstance(value, torch.Generator):
            yield partial(value.set_state, value.get_state())
        elif isinstance(value, random.Random):
            yield partial(value.setstate, value.getstate())
        elif isinstance(value, numpy.random.Generator):
            yield partial(setattr, value.bit_generator, "state", value.bit_generator.state)
        elif isinstance(value, (list, numpy.ndarray, torch.Tensor)):        # an order, shuffled in place
            kept = value.clone() if isinstance(value, torch.Tensor) else value.copy()
            yield partial(value.__setitem__, slice(None), kept)
        elif isinstance(value, (Sampler, IterableDataset)):
            yield from _states(value, seen)
        elif isinstance(value, (int, type(None))):      # an epoch; a loader's iterator with its workers, if it has none
            yield partial(attributes.__setitem__, name, value)


def _forget(attributes: dict, known: set[str]) -> None:
    """A counter that stood in the class until it was first raised."""
    for name in set(attributes) - known:
        if isinstance(attributes[name], int):
            del attributes[name]
