"""The course on a terminal.

    python -m helpers doctor         what is wrong with the environment, and how to mend it
    python -m helpers collectives    one algorithm on queues, on gloo and on a virtual clock, every byte counted
    python -m helpers ddp-demo       a few steps of DDP: spread of the parameters, gradients against one process
    python -m helpers ddp            one process, our DDP and PyTorch's, trained side by side
    python -m helpers zero           the stages of ZeRO: loss, equality with Adam, bytes of state on a rank
    python -m helpers pipeline       a schedule simulated and played: Gantt, bubble, equality with one process

The last four also run under torchrun: torchrun --nproc-per-node 2 -m helpers ddp-demo
"""
from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from helpers.facts.errors import CourseError
from helpers.facts.schedules import BUILDERS

DEMO_FILE = Path("outputs/ddp-demo.json")


def main() -> int:
    """Run `python -m helpers ...` with these arguments, those of the command line if None; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m helpers", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("doctor", help="check the environment").set_defaults(run=_doctor)
    collectives = commands.add_parser("collectives", help="count the bytes of collectives on three transports")
    collectives.add_argument("--world-size", type=int, default=4, help="ranks (default 4)")
    collectives.add_argument("--num-elements", type=int, default=64, help="float32 numbers on each rank (default 64)")
    collectives.add_argument("--source", type=int, default=0, help="rank that broadcasts (default 0)")
    collectives.set_defaults(run=_collectives)
    _add_training(commands)
    _add_pipeline(commands)
    options = parser.parse_args()
    try:
        code = _called(options)
        sys.stdout.flush()
        return code
    except BrokenPipeError:                             # the reader, such as head, has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())      # Python flushes once more at its end
        return 1


def _called(options: argparse.Namespace) -> int:
    try:
        return options.run(options)
    except CourseError as error:
        print(error)
        return 2


def _add_training(commands: argparse._SubParsersAction) -> None:
    demo = commands.add_parser("ddp-demo", help="train with DDP and write what came of it")
    demo.add_argument("--backend", default="gloo", help="of torch.distributed; only gloo runs on CPUs (default gloo)")
    demo.add_argument("--no-write", action="store_true", help=f"do not write {DEMO_FILE}")
    demo.set_defaults(run=_ddp_demo)
    ddp = commands.add_parser("ddp", help="hold DDP against one process")
    ddp.set_defaults(run=_ddp)
    zero = commands.add_parser("zero", help="hold the stages of ZeRO against one process")
    zero.add_argument("--rate", type=float, default=0.05, help="learning rate of Adam (default 0.05)")
    zero.set_defaults(run=_zero)
    for command, world_size, num_steps, seed in ((demo, 2, 6, 0), (ddp, 4, 20, 7), (zero, 4, 20, 13)):
        command.add_argument("--world-size", type=int, help=f"ranks (default {world_size}, or torchrun's)")
        command.add_argument("--num-steps", type=int, default=num_steps, help=f"(default {num_steps})")
        command.add_argument("--batch-size", type=int, default=8, help="samples on each rank (default 8)")
        command.add_argument("--seed", type=int, default=seed, help=f"(default {seed})")


def _add_pipeline(commands: argparse._SubParsersAction) -> None:
    command = commands.add_parser("pipeline", help="simulate a pipeline's schedule and play it on real ranks")
    command.add_argument("--world-size", type=int, help="ranks (default 4, or torchrun's)")
    command.add_argument("--num-microbatches", type=int, default=8, help="(default 8)")
    command.add_argument("--schedule", default="1F1B", help=f"{', '.join(BUILDERS)} (default 1F1B)")
    command.add_argument("--unit-ms", type=float, default=50.0, help="a forward takes this, B twice (default 50)")
    command.set_defaults(run=_pipeline)


def _doctor(options: argparse.Namespace) -> int:
    from helpers.run.commands.doctor import check_environment

    diagnosis = check_environment()
    print(diagnosis)
    return not diagnosis.healthy


def _collectives(options: argparse.Namespace) -> int:
    from helpers.compare.commands.collectives import three_transports

    print(three_transports(options.world_size, options.num_elements, options.source))
    return 0


def _ddp_demo(options: argparse.Namespace) -> int:
    from helpers.compare.commands.ddp import ddp_demo, demo_table, write

    outcome = ddp_demo(options.world_size, options.num_steps, options.batch_size, options.seed, options.backend)
    if outcome is not None:
        print(demo_table(outcome))
        if not options.no_write:
            write(outcome, DEMO_FILE)
            print(f"written to {DEMO_FILE}")
    return 0


def _ddp(options: argparse.Namespace) -> int:
    from helpers.compare.commands.ddp import one_process_against_ddp

    table = one_process_against_ddp(options.world_size, options.num_steps, options.batch_size, options.seed)
    if table is not None:
        print(table)
    return 0


def _zero(options: argparse.Namespace) -> int:
    from helpers.compare.commands.zero import zero

    tables = zero(options.world_size, options.num_steps, options.batch_size, options.seed, options.rate)
    if tables is not None:
        print(*tables, sep="\n\n")
    return 0


def _pipeline(options: argparse.Namespace) -> int:
    from helpers.compare.commands.pipeline import pipeline

    report = pipeline(options.world_size, options.schedule, options.num_microbatches, options.unit_ms)
    if report is not None:
        print(*report, sep="\n\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
