"""Sentences on a step of FSDP."""
from __future__ import annotations

from helpers.facts.units import in_unit
from helpers.predict.fsdp import Sharding, num_collectives, passing_bytes, peak_bytes, step_bytes_sent


def sharding_in_words(sharding: Sharding, limit_bytes: float, unit: str = "GiB") -> str:
    """Collectives, bytes sent, the fullest moment, and whether the card holds it."""
    counts, held, passing = num_collectives(sharding), peak_bytes(sharding), passing_bytes(sharding)
    least, gloo = (in_unit(step_bytes_sent(sharding, gloo), "GB" if unit == "GiB" else "MB") for gloo in (False, True))
    units = "1 unit" if sharding.num_units == 1 else f"{sharding.num_units} units"
    verdict = "fits" if held < limit_bytes else "does not fit"
    return (f"{units} on {sharding.ranks} ranks: {_number(counts['all_gather'], 'all_gather')} and "
            f"{_number(counts['reduce_scatter'], 'reduce_scatter')} a step, in which each rank sends at least {least} "
            f"({gloo} on gloo). Its fullest moment holds about {in_unit(held, unit)}: "
            f"{in_unit(held - passing, unit)} of parameter and Adam shards, {in_unit(passing, unit)} that come and go. "
            f"That {verdict} in {in_unit(limit_bytes, unit)}, activations left out.")


def _number(count: int, name: str) -> str:
    return f"{count} {name}{'s' if count > 1 else ''}"
