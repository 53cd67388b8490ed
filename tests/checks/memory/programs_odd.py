"""Rank programs that return or do something odd; no pytest here, so that ranks need not import it."""
from fractions import Fraction

import torch

from helpers.run.measure import meters
from tests.checks.answers_odd import HasNoModule, PrintsNothingOfItself
from tests.checks.memory.programs import measured


def spoils_the_record_at_last(rank, world_size):
    returned = measured()
    meters._fullest.tensors = "x"
    return returned


def spoils_the_record_at_first(rank, world_size):
    meters._fullest.tensors = "x"
    return measured()


def clears_the_record(rank, world_size):
    returned = measured()
    meters._fullest.tensors = None
    return returned


def returns_400_digits(rank, world_size):
    return 10**400


def returns_5000_digits(rank, world_size):
    return 10**5000


def returns_a_huge_fraction(rank, world_size):
    return Fraction(10**400)


def returns_a_size(rank, world_size):
    return torch.Size([1])


def returns_a_meta_tensor(rank, world_size):
    return torch.empty(1, device="meta")


def returns_what_cannot_be_printed(rank, world_size):
    return PrintsNothingOfItself()


def returns_what_has_no_module(rank, world_size):
    return HasNoModule()


def prints_17_mb_of_blanks(rank, world_size):
    print(" " * 17 * 2**20)
