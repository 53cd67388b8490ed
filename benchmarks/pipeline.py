"""How near a padded pipeline on real ranks comes to its simulation, and what a step of ours takes beside PyTorch's.

Padded steps last 100 ms (B 200 ms), so what is above 1 is messages, waking up, and whatever else the machine does; of
two plays the shorter counts.
Against PyTorch both run in the same processes, one after the other, so that a busy machine slows both.

    python -m benchmarks.pipeline
"""
from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.distributed import pipelining
from torch.nn.functional import mse_loss

from benchmarks.turns import Pairs, ratio, taking_turns
from helpers.facts.bubbles import bubble_of_total
from helpers.facts.schedules import BUILDERS, Schedule
from helpers.facts.schedules.durations import UNIT_DURATIONS
from helpers.facts.trace import Trace, duration_s
from helpers.predict.pipeline import simulate
from helpers.run.launch import launch
from helpers.run.models import cut, mlp
from helpers.run.pipeline import run_schedule

RANKS, MICROBATCHES = 4, 8
SECONDS = {kind: 0.1 * units for kind, units in UNIT_DURATIONS.items()}
WIDTH, DEPTH, SAMPLES, PAIRS = 512, 16, 32, 25          # 4.2M parameters; samples of a microbatch
TORCHS = {"GPipe": pipelining.ScheduleGPipe, "1F1B": pipelining.Schedule1F1B}


def padded(rank: int, world_size: int, schedule: Schedule) -> Trace:
    stages = cut(mlp(16, schedule.num_stages), schedule.num_stages)
    x = torch.ones(schedule.num_microbatches, 16)
    return run_schedule(schedule, {number: stages[number] for number in schedule.stages_of[rank]}, x, x, mse_loss,
                        boundary=(1, 16), pad_s=SECONDS).trace


def _traced(schedule: Schedule) -> Trace:
    return [span for trace in launch(padded, RANKS, schedule, timeout_s=60).results for span in trace]


def steps(rank: int, world_size: int, name: str) -> Pairs:
    return taking_turns(_torchs(rank, name), _ours(rank, name), PAIRS)


def _torchs(rank: int, name: str) -> Callable[[], object]:
    stage, x = _stage(rank), torch.ones(MICROBATCHES * SAMPLES, WIDTH)
    pipeline = TORCHS[name](pipelining.PipelineStage(stage, rank, RANKS, torch.device("cpu")), MICROBATCHES,
                            loss_fn=mse_loss)
    given = ([x] if rank == 0 else []), ({"target": x} if rank == RANKS - 1 else {})
    return lambda: pipeline.step(*given[0], **given[1])


def _ours(rank: int, name: str) -> Callable[[], object]:
    stage, x = _stage(rank), torch.ones(MICROBATCHES * SAMPLES, WIDTH)
    schedule = BUILDERS[name](RANKS, MICROBATCHES)
    return lambda: run_schedule(schedule, {rank: stage}, x, x, mse_loss, boundary=(SAMPLES, WIDTH))


def _stage(rank: int) -> nn.Module:
    return cut(mlp(WIDTH, DEPTH), RANKS)[rank]


def main() -> None:
    for name, build in BUILDERS.items():
        schedule = build(RANKS, MICROBATCHES)
        traced = min((_traced(schedule) for _ in range(2)), key=duration_s)     # a busy machine only adds
        simulated = simulate(schedule, SECONDS)
        print(f"{name}, {RANKS} ranks, {MICROBATCHES} microbatches, padded: traced / simulated makespan "
              f"{duration_s(traced) / duration_s(simulated):.3f} of {duration_s(simulated):.1f} s; bubble "
              f"{bubble_of_total(traced):.1%}, simulated {bubble_of_total(simulated):.1%}")
    for name, torchs in TORCHS.items():
        pairs = launch(steps, RANKS, name, timeout_s=300).results[0]
        print(f"{name}, one step of {WIDTH * WIDTH * DEPTH / 1e6:.1f}M parameters, {RANKS} ranks / torch's "
              f"{torchs.__name__}: {ratio(pairs)}")


if __name__ == "__main__":
    main()
