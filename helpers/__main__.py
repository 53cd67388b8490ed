"""The course on a terminal.

    python -m helpers doctor         what is wrong with the environment, and how to mend it
    python -m helpers collectives    one algorithm on queues, on gloo and on a virtual clock, every byte counted
"""
from __future__ import annotations

import argparse
import sys


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m helpers", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("doctor", help="check the environment").set_defaults(run=_doctor)
    collectives = commands.add_parser("collectives", help="count the bytes of collectives on three transports")
    collectives.add_argument("--world-size", type=int, default=4, help="ranks (default 4)")
    collectives.add_argument("--num-elements", type=int, default=64, help="float32 numbers on each rank (default 64)")
    collectives.add_argument("--source", type=int, default=0, help="rank that broadcasts (default 0)")
    collectives.set_defaults(run=_collectives)
    options = parser.parse_args()
    return options.run(options)


def _doctor(options: argparse.Namespace) -> int:
    from helpers.run.doctor import check_environment

    diagnosis = check_environment()
    print(diagnosis)
    return not diagnosis.healthy


def _collectives(options: argparse.Namespace) -> int:
    from helpers.compare.transports import three_transports
    from helpers.facts.errors import CourseError

    try:
        print(three_transports(options.world_size, options.num_elements, options.source))
    except CourseError as error:
        print(error)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
