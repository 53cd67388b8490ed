"""What a rank holds while it trains, state and activations, and a sentence on whether a card holds that.

    state           P/t parameters, sharded over N/t ranks by the stage
    activations     all blocks, recomputed or not, and what lies outside of them
    recomputed      what comes back of one block while backward runs it again
    logits          fp32, for the loss

P parameters, N ranks, t of them tensor parallel.  Left out: gathered units, buckets, messages, the allocator.
"""
from __future__ import annotations

from dataclasses import dataclass, replace

from helpers.facts.errors import BadValue
from helpers.facts.specs import TransformerSpec
from helpers.facts.units import in_unit
from helpers.predict.activations import RECOMPUTES, BlockShape, block_bytes, pipeline_stage_parts
from helpers.predict.flops import Shape, num_params, recomputed_share
from helpers.predict.memory import state_by_term

MOST_SEQUENCES = 4096               # of a microbatch; more are not looked for


@dataclass(frozen=True)
class TrainingJob:
    """A training run, by what one rank of it holds; mixed precision, with dropout as in the paper."""

    model: TransformerSpec
    ranks: int = 1
    zero_stage: int = 0             # over the ranks that are not tensor parallel
    batch: int = 1                  # sequences of one rank's microbatch
    seq: int = 2048
    recompute: str = "none"
    attention: str = "stored"       # or "flash"
    tensor_parallel: int = 1
    sequence_parallel: bool = False

    def __post_init__(self):
        if self.ranks % self.tensor_parallel:
            raise BadValue(f"ranks is a multiple of tensor_parallel = {self.tensor_parallel}, not {self.ranks}")

    @property
    def shape(self) -> Shape:
        """The model as `predict.flops` counts it."""
        return Shape(self.model.layers, self.model.hidden, self.seq, self.model.vocab, attention=self.attention)

    @property
    def block(self) -> BlockShape:
        """One block and its microbatch as `predict.activations` counts them."""
        return BlockShape(self.seq, self.batch, self.model.hidden, self.model.heads, attention=self.attention)


def ledger(job: TrainingJob) -> dict[str, float]:
    """Bytes on a rank, by term, as if all of them were there at once when backward begins."""
    t = job.tensor_parallel
    how = {"tensor_parallel": t, "sequence_parallel": job.sequence_parallel}
    parts = pipeline_stage_parts(job.block, job.model.layers, job.model.vocab, **how, recompute=job.recompute)
    logits = parts.pop("logits")
    back = block_bytes(job.block, **how) - block_bytes(job.block, **how, recompute=job.recompute)
    terms = state_by_term(num_params(job.shape) / t, job.ranks // t, job.zero_stage)
    terms |= {"activations": sum(parts.values()), "recomputed_block": back, "logits": logits}
    return {term: num_bytes for term, num_bytes in terms.items() if num_bytes}


def held_bytes(job: TrainingJob) -> float:
    """Bytes that one rank holds: its state, activations and logits."""
    return sum(ledger(job).values())


def least_recompute(job: TrainingJob, card_bytes: float) -> str | None:
    """The least recomputation with which a rank holds less than the card; None if even all of it does not help."""
    return next((recompute for recompute in RECOMPUTES if held_bytes(replace(job, recompute=recompute)) < card_bytes),
                None)


def largest_batch(job: TrainingJob, card_bytes: float) -> int:
    """The most sequences of a microbatch that fit, everything else as it is; 0 if not even one does."""
    fits, too_many = 0, MOST_SEQUENCES + 1
    while too_many - fits > 1:
        middle = (fits + too_many) // 2
        fits, too_many = (middle, too_many) if held_bytes(replace(job, batch=middle)) < card_bytes else (fits, middle)
    return fits


def job_in_words(job: TrainingJob, card_bytes: float) -> str:
    """What a rank holds, whether that fits, and what would."""
    terms = ledger(job)
    state = sum(num_bytes for term, num_bytes in terms.items() if term not in ("activations", "recomputed_block",
                                                                              "logits"))
    total, limit = sum(terms.values()), in_unit(card_bytes, "GiB", 3)
    verdict = f"fits into {limit}" if total < card_bytes else f"does not fit into {limit}"
    dp = job.ranks // job.tensor_parallel
    return (f"{job.model.name}, {job.batch} x {job.seq:,} tokens a rank, recompute {job.recompute}: state "
            f"{in_unit(state, 'GiB', 3)} (stage {job.zero_stage} over {dp} rank{'s' * (dp > 1)}), activations and "
            f"logits {in_unit(total - state, 'GiB', 3)}, together {in_unit(total, 'GiB', 3)}, which {verdict}. "
            + (_while_it_fits(job, card_bytes) if total < card_bytes else _what_would(job, state, card_bytes)))


def _while_it_fits(job: TrainingJob, card_bytes: float) -> str:
    least = least_recompute(job, card_bytes)
    room = f"The largest microbatch that does has {_sequences(largest_batch(job, card_bytes))}."
    if least == job.recompute:
        return room
    saved = _percent(recomputed_share(job.shape, job.recompute) - recomputed_share(job.shape, least))
    return f"So does recompute {least}, which saves {saved} of FLOPs. {room}"


def _what_would(job: TrainingJob, state: float, card_bytes: float) -> str:
    if state >= card_bytes:
        return "The state alone is too much, and recomputation does not touch it: shard more."
    flash = " Flash attention would, too." if job.attention == "stored" and held_bytes(
        replace(job, attention="flash")) < card_bytes else ""
    if least := least_recompute(job, card_bytes):
        more = _percent(recomputed_share(job.shape, least) - recomputed_share(job.shape, job.recompute))
        return f"What would: recompute {least}, for {more} more FLOPs.{flash}"
    if most := largest_batch(replace(job, recompute="full"), card_bytes):
        return f"No recomputation is enough; with full, {_sequences(most)} fit{'s' * (most == 1)}."
    return ("Not even one sequence does, fully recomputed: divide it, by tensor and sequence parallelism, or shorten "
            "it; more data-parallel ranks divide state alone.")


def _sequences(number: int) -> str:
    return f"{number if number < MOST_SEQUENCES else f'{MOST_SEQUENCES} or more'} sequence{'s' * (number != 1)}"


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %"
