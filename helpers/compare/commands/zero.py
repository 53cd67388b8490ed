"""What `python -m helpers zero` prints."""
from __future__ import annotations

from helpers.compare.commands.ddp import NUM_PARAMETERS, check
from helpers.compare.table import Table
from helpers.predict.collectives import step_elements_sent
from helpers.predict.memory import RECIPES, state_bytes
from helpers.run.commands.torchrun import launch_or_join
from helpers.run.commands.zero import ALONE, DDP, FSDP, MIXED, OURS, REDUNDANCY, ZeroRun, stages
from helpers.run.measure.state import COUNTER

STAGE_OF = {ALONE: 0, DDP: 0, REDUNDANCY: 1, FSDP: 3} | {name: stage for stage, name in enumerate(OURS, 1)}


def zero(world_size: int | None, num_steps: int, batch_size: int, seed: int, rate: float) -> tuple[Table, Table] | None:
    """Loss and equality, then memory; None on ranks of torchrun other than 0."""
    check(num_steps, batch_size)
    ranks = launch_or_join(stages, world_size, 4, num_steps, batch_size, seed, rate)
    return None if ranks is None else (training_table(ranks, num_steps, batch_size), memory_table(ranks))


def training_table(ranks: list[dict[str, ZeroRun]], num_steps: int, batch_size: int) -> Table:
    """Loss, distance from Adam and bytes sent of each way to train, as a table."""
    rows = []
    for name, first in ranks[0].items():
        alone = ranks[0][ALONE + MIXED * name.endswith(MIXED)].parameters
        away = max((rank[name].parameters - alone).abs().max().item() for rank in ranks) / alone.abs().max().item()
        sends = ("", "") if name.startswith(ALONE) else (f"{_bytes_sent(name, len(ranks)):,.0f}",
                                                         f"{max(rank[name].sent for rank in ranks):,.0f}")
        rows.append((name, f"{first.before:.4f}", f"{first.after:.4f}", f"{away:.1e}", *sends))
    header = (f"{num_steps} steps of Adam, {len(ranks)} ranks of {batch_size} samples", "loss before", "loss after",
              "relative difference", "bytes sent a step: formula", "measured")
    return Table(header, tuple(rows), (
        "Losses are over all data; the difference is that of the rank that is farthest from one process in the same "
        "dtypes.", "bf16 gradients round differently when they are summed in another order, and where a gradient is "
        "nearly 0\nAdam makes a whole step of that: parameters part, losses hardly.",
        "Formulas are the algorithms'. Beside DDP, gradients are all_reduced and whole tensors are dealt out and "
        "broadcast; gloo's\nreduce_scatter sends what an all_reduce does. In so small a model, headers count, too."))


def _bytes_sent(name: str, world_size: int) -> float:
    """By the formula of the way's stage."""
    stage, element_bytes = STAGE_OF[name.removesuffix(MIXED)], 2 if name.endswith(MIXED) else 4
    return element_bytes * step_elements_sent(NUM_PARAMETERS, stage, world_size)


def memory_table(ranks: list[dict[str, ZeroRun]]) -> Table:
    """Bytes of state on rank 0, which has the largest share."""
    rows, n = [], len(ranks)
    for name, trained in ranks[0].items():
        stage, kept = STAGE_OF[name.removesuffix(MIXED)], RECIPES["mixed" if name.endswith(MIXED) else "fp32"]
        held = {term: size for term, size in trained.state.items() if term != COUNTER}
        total, whole = sum(held.values()), state_bytes(NUM_PARAMETERS, 1, 0, kept)
        rows.append((name, f"{state_bytes(NUM_PARAMETERS, n, stage, kept):,.0f}", f"{total:,}",
                     f"{_optimizer(held):,}", f"{1 - total / whole:.1%}"))
    return Table((f"bytes of state, {NUM_PARAMETERS:,} parameters", "formula", "held by rank 0", "of these, optimizer",
                  "less than 16P"), tuple(rows), ("Adam's step counters, 4 bytes a tensor, are left out.",))


def _optimizer(held: dict[str, int]) -> int:
    return sum(size for term, size in held.items() if term in ("master", "momentum", "variance"))
