"""The sentence beside the picture of lesson 03: how much of a step's messages hides behind backward."""
from __future__ import annotations

from helpers.facts.trace import Trace, exposed_s


def overlap_in_words(step: Trace) -> str:
    """How much of a predicted step's messages is hidden behind backward."""
    spent = {kind: sum(s.duration_s for s in step if s.kind == kind) for kind in ("B", "all_reduce")}
    num = sum(s.kind == "all_reduce" for s in step)
    shown = exposed_s(step, 0, "all_reduce", behind="B")
    share = f" ({1 - shown / spent['all_reduce']:.0%} hidden)" if spent["all_reduce"] else ""
    why = " Messages take longer than backward, so they cannot hide." if spent["all_reduce"] > spent["B"] else ""
    return (f"Backward takes {1e3 * spent['B']:,.0f} ms, {num} all_reduce{'s' if num > 1 else ''} "
            f"{1e3 * spent['all_reduce']:,.0f} ms, of which {1e3 * shown:,.1f} ms are exposed{share}.{why}")
