"""`python -m helpers doctor` says what is wrong with the environment and how to mend it."""
from __future__ import annotations

import argparse
import sys


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m helpers", description=__doc__)
    parser.add_argument("command", choices=["doctor"])
    parser.parse_args()
    from helpers.run.doctor import check_environment

    diagnosis = check_environment()
    print(diagnosis)
    return not diagnosis.healthy


if __name__ == "__main__":
    sys.exit(main())
