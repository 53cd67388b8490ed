"""Functions of any signature that give no right answer; no pytest here, so that ranks need not import it."""
import os
import sys


def is_not_written_yet(**case):
    raise NotImplementedError()


def returns_nothing(**case):
    pass


def returns_text(**case):
    return "22222"


def returns_nan(**case):
    return float("nan")


def returns_infinity(**case):
    return float("inf")


def returns_true(**case):
    return True


def returns_a_complex_number(**case):
    return 22222 + 0j


def returns_a_list(**case):
    return [1, 2, 3]


def returns_itself(**case):
    return returns_itself


def yields_instead_of_returning(**case):
    yield 22222


class TrueForEverything:
    """Claims to be equal to anything, and to be any number."""

    def __eq__(self, other):
        return True

    def __hash__(self):
        return hash("DDP")

    def __float__(self):
        return 208.0

    def __int__(self):
        return 9


class Generous(float):
    """A number, by its own account as large as any other."""

    def __eq__(self, other):
        return True

    __hash__ = float.__hash__


class GenerousInt(int):
    def __eq__(self, other):
        return True

    __hash__ = int.__hash__


def true_for_everything(**case):
    return TrueForEverything()


def returns_a_float_of_its_own(**case):
    return Generous(22222)


def returns_an_int_of_its_own(**case):
    return GenerousInt(6)


def renames_its_arguments(p, n, s, r):
    return 0


def takes_positions_only(params, ranks, stage, recipe, /):
    return 0


def divides_by_zero(**case):
    return 1 / 0


def calls_itself_for_ever(**case):
    return calls_itself_for_ever(**case)


def never_ends(**case):
    while True:
        pass


def exits_the_process(**case):
    os._exit(3)


def leaves_with_sys_exit(**case):
    sys.exit("enough")


def is_killed(**case):
    os.kill(os.getpid(), 9)


def prints_that_it_is_right(**case):
    print("ok     stage 0\n2 of 2 points.")
    return 0


def makes_the_check_generous_over_there(**case):
    """Whatever it changes in its own process, the comparison is made in another."""
    from helpers.checks.judge import verdict
    verdict.CLOSE = 1e9
    verdict.is_number = lambda value: True
    return -1
