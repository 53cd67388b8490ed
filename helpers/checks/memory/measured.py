"""Checks of exercise set 01: a rank program that measures its own memory.

The program must measure, not compute: what it returns is held against the
meter's own record, and the calls of torch.distributed against what sharding
must move.
"""
from __future__ import annotations

import math
import pickle

from helpers.checks.judge.other_process import Raised, about_stub_or_import
from helpers.checks.judge.sent import Sent
from helpers.checks.judge.verdict import Verdict, first_wrong, is_number, number_verdict, plain, score, shown, unseen
from helpers.facts.units import MiB
from helpers.predict.memory import recipe, state_bytes
from helpers.run.launch import RankFailed, RankHung, Run, launch

WIDTH, DEPTH = 512, 16
PARAMS = WIDTH**2 * DEPTH
SGD = recipe("fp32, SGD with momentum")
DEADLINE_S = 30.0


def check_measured(measure: object, predicted_mib: object) -> float:
    """2 points: a prediction for two ranks, and a program that measures it there."""
    right = state_bytes(PARAMS, 2, 3, SGD) / MiB
    mistakes = {"is DDP's size; FSDP shares it between two ranks": state_bytes(PARAMS, 1, 0, SGD) / MiB,
                "has a second moment; SGD keeps a momentum only": state_bytes(PARAMS, 2, 3, recipe("fp32")) / MiB,
                "leaves out the momentum": state_bytes(PARAMS, 2, 3, recipe("fp32, plain SGD")) / MiB,
                "is the number of bytes; MiB are asked for": right * MiB,
                "is the size in MB; MiB are asked for": right * MiB / 1e6,
                "is the parameters' share alone": 4 * PARAMS / 2 / MiB}
    return score([number_verdict(1, "predicted", predicted_mib, right, mistakes),
                  Verdict(1, "measured on 2 ranks", _wrong(measure, 2)[0])], "Prediction and measurement agree.")


@unseen
def check_measured_unseen(measure: object) -> float:
    """1 point: the same program on other numbers of ranks."""
    verdicts = []
    for ranks in (3, 4):
        wrong, hung = _wrong(measure, ranks)
        verdicts.append(Verdict(0.5, f"measured on {ranks} ranks", wrong))
        if hung:
            break                                               # one deadline is long enough
    return score(verdicts, "The program measures, whatever the number of ranks.")


def _wrong(measure: object, ranks: int) -> tuple[str | None, bool]:
    """What is wrong with a program that should measure SGD with momentum under FSDP, and whether it hung."""
    if measure is None or measure is ...:
        return "nothing here yet", False
    is_sent = isinstance(measure, Sent)
    if not (measure.is_callable if is_sent else callable(measure)):
        return f"a function measure(rank, world_size) is asked for, not {shown(measure)}", False
    program, *args = (_unpacked, measure.packed) if is_sent else (measure,)
    try:
        run = launch(program, ranks, *args, timeout_s=DEADLINE_S)
    except RankFailed as failure:
        return next(filter(None, map(about_stub_or_import, failure.errors)), str(failure)), False
    except RankHung as hang:
        return str(hang), True
    except ValueError as error:
        return str(error) or "cannot be launched", False
    return first_wrong(_rank_wrong(run, rank, ranks) for rank in range(ranks)), False


def _unpacked(rank: int, world_size: int, packed: bytes) -> object:
    """On a rank: what the program returns, or how it is shown."""
    returned = plain(pickle.loads(packed)(rank, world_size))
    return returned if is_number(returned) else Raised(f"returned {shown(returned)}")


def _rank_wrong(run: Run, rank: int, ranks: int) -> str | None:
    got, metered, expected = plain(run.results[rank]), run.memory[rank].tensors, state_bytes(PARAMS, ranks, 3, SGD)
    if isinstance(got, Raised):
        return f"rank {rank} {got.words}; the number of bytes is asked for"
    if not is_number(got):
        return f"rank {rank} returned {shown(got)}; the number of bytes is asked for"
    if not is_number(metered) or not metered:
        return f"rank {rank} has no memory() block that measured anything"
    if got != metered:
        return (f"rank {rank} returned {got:,.0f}, but its memory() block measured {metered:,}: "
                + _not_metered(got, metered))
    if not math.isclose(got, expected, rel_tol=0.01):
        return f"rank {rank} holds {got / MiB:.2f} MiB, expected {expected / MiB:.2f}: {_known_mistake(got, ranks)}"
    gathers = sum(s.rank == rank and s.kind.startswith("all_gather") for s in run.trace)
    moved = {family: sum(s.nbytes for s in run.trace if s.rank == rank and s.kind.startswith(family))
             for family in ("all_gather", "reduce_scatter")}
    if moved["all_gather"] < 4 * PARAMS or moved["reduce_scatter"] < 4 * PARAMS / ranks:
        return (f"rank {rank} holds the right size, but has not gathered all parameters and reduced all gradients: "
                "is it FSDP?")
    if gathers < DEPTH:
        return f"rank {rank} gathered the whole model at once: put fully_shard on each block, too"
    return None


def _not_metered(got: float, metered: int) -> str:
    if got == 0:
        return "return grown.tensors after the block; before it ends, it is 0"
    if math.isclose(got, metered / MiB, rel_tol=0.01):
        return "bytes are asked for, not MiB"
    return "return that measurement's tensors"


def _known_mistake(got: float, ranks: int) -> str:
    each = PARAMS / ranks
    known = {"that is DDP's size, the model is not sharded": 12 * PARAMS,
             "8 of 12 bytes a parameter: no momentum, no step inside the block, or gradients cleared?": 8 * each,
             "16 bytes a parameter: Adam, or an optimizer made before fully_shard?": 16 * each,
             "only the parameters are there: no backward pass?": 4 * each}
    if got < MiB:
        return "everything was freed before the block ended; keep model and optimizer"
    a_gathered_block = 4 * WIDTH**2             # now and then one is not freed yet
    return next((words for words, size in known.items() if 0.99 * size <= got <= 1.01 * (size + a_gathered_block)),
                "is it mlp(width=512, depth=16), sharded, with a batch of 2 and one step of SGD?")
