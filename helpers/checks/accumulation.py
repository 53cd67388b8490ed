"""Checks of exercise set 03: accumulation under PyTorch's DDP, held against one process that has all samples."""
from __future__ import annotations

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from helpers.checks.elsewhere import Raised
from helpers.checks.ranks import on_ranks
from helpers.checks.verdict import Verdict, first_wrong, score, unseen
from helpers.run.meters import wire

WIDTH, RATE = 64, 0.5


def check_accumulation(function: object) -> float:
    """3 points: a step equal to the big batch's, twice in a row, for one reduction's bytes."""
    run = on_ranks(_accumulated, function, (4, 4, 4, 4), 2)
    if isinstance(run, Raised):
        return score([Verdict(3, "a step of four microbatches", run.words)], "")
    first, second, sent, once = run.results[0]
    right = first or (None if second is None else f"the first step is right, but in the second {second}")
    words = f"{sent / once:.1f} times the bytes of one reduction are sent, expected once"
    hints = {4: ": each backward reduces; is no_sync around forward, too?", 0: ": nothing is reduced"}
    cost = None if 0.9 < sent / once < 1.5 else words + hints.get(round(sent / once), "")
    return score([Verdict(1, "a step equal to the big batch's", first), Verdict(1, "and so is the next step", right),
                  Verdict(1, "gradients are sent once", "judged once the step is right" if first else cost)],
                 "Four microbatches, one message.")


@unseen
def check_accumulation_unseen(function: object) -> float:
    """1 point: microbatches of unlike sizes, a single one, three ranks."""
    wrongs = []
    for sizes, world_size in (((5, 3, 1), 2), ((6,), 2), ((2, 7), 3)):
        run = on_ranks(_accumulated, function, sizes, world_size)
        wrongs += [run.words] if isinstance(run, Raised) else [f"microbatches of {sizes}: {wrong}" if wrong else None
                                                             for result in run.results for wrong in result[:2]]
    return score([Verdict(1, "microbatches of unlike sizes, one, three ranks", first_wrong(wrongs))],
                 "Samples count, not microbatches.")


def _accumulated(function, rank: int, world_size: int, sizes: tuple[int, ...]) -> tuple:
    """What is wrong with the first step and with the second, bytes sent in the first, and bytes of one reduction."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, 1))
    ddp, alone = DistributedDataParallel(model), nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, 1))
    ddp(torch.ones(1, WIDTH)).sum().backward()          # forms the buckets anew; leaves gradients behind
    optimizers = [torch.optim.SGD(m.parameters(), RATE, momentum=0.9) for m in (ddp, alone)]
    alone.load_state_dict(model.state_dict())
    everything = torch.randn(2, world_size, sum(sizes), WIDTH + 1)
    wrongs, sent = [], []
    for data in everything:
        with wire() as moved:
            function(ddp, optimizers[0], [(part[:, :WIDTH], part[:, WIDTH:]) for part in data[rank].split(sizes)])
        sent.append(moved.sent)
        whole = data.flatten(0, 1)
        alone.zero_grad()
        nn.functional.mse_loss(alone(whole[:, :WIDTH]), whole[:, WIDTH:]).backward()
        optimizers[1].step()
        wrongs.append(_another_step(model, alone))
    with wire() as once:
        for parameter in alone.parameters():
            dist.all_reduce(parameter.grad)
    return *wrongs, sent[0], once.sent


def _another_step(model: nn.Module, alone: nn.Module) -> str | None:
    for (name, got), expected in zip(model.named_parameters(), alone.parameters(), strict=True):
        away = ((got - expected).abs().max() / expected.abs().max()).item()
        if not away < 1e-5:
            return f"{name} is {away:.1e} away, relatively, from a step of one process on all samples"
    return None
