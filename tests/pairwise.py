"""Few combinations of options in which any two values still meet.

    pairwise((2, 3, 4), ("fp32", "bf16"), (True, False))        6 rows, and not 12

A fault mostly shows when two options meet, and hardly ever only when three do (Kuhn, Wallace and Gallo, "Software fault
interactions and implications for software testing", IEEE Transactions on Software Engineering 30 (6), 2004).
"""
import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Sequence


def pairwise(*options: Sequence, allowed: Callable[..., bool] = lambda *row: True,
             given: Iterable[tuple] = ()) -> list[tuple]:
    """Rows with one value of each option; every two values that meet in an allowed row meet in one of these, or in one
    of `given`, which are not returned.

    Each row is the one with the most pairs that are still missing, and of these the one whose values are used least.
    """
    rows = [row for row in itertools.product(*options) if allowed(*row)]
    missing = set().union(*map(pairs, rows)) - set().union(*map(pairs, given))
    chosen, used = [], Counter()
    while missing:
        best = max(rows, key=lambda row: (len(pairs(row) & missing), -sum(used[value] for value in enumerate(row))))
        missing -= pairs(best)
        used.update(enumerate(best))
        chosen.append(best)
    return chosen


def pairs(row: tuple) -> set[tuple]:
    """Any two of its values, each with the number of its option."""
    return set(itertools.combinations(enumerate(row), 2))
