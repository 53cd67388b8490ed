"""Sentences about pictures of ZeRO."""
from __future__ import annotations

from helpers.facts.units import in_unit
from helpers.predict.collectives import step_elements_sent
from helpers.predict.memory import recipe, state_bytes
from helpers.run.measure.residency import Residency


def residency_in_words(alive: Residency, sent: int, zero_stage: int, world_size: int, num_params: int) -> str:
    """State by the formula, the peak of the step, what made it, and the bytes sent; all on one rank, in fp32."""
    phase = [name for name, start in alive.phases.items() if start <= alive.peak][-1]
    parts = {kind: size for kind, size in alive.at(alive.peak).items() if size >= 1024}
    state = state_bytes(num_params, world_size, zero_stage, recipe("fp32"))
    formula = 4 * step_elements_sent(num_params, zero_stage, world_size)
    listed = ", ".join(f"{in_unit(size, 'KiB', 3)} {kind}" for kind, size in parts.items())
    return (f"ZeRO-{zero_stage} on {world_size} rank{'s' if world_size > 1 else ''}: state by the formula "
            f"{in_unit(state, 'KiB')}. The step peaks at {in_unit(alive.peak_bytes, 'KiB')}, in {phase}: {listed}. "
            f"Sent: {in_unit(sent, 'KB')}, by the formula {in_unit(formula, 'KB')}.")
