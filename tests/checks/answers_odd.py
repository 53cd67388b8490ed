"""Values and functions at which a check could stumble; no pytest here, so that ranks need not import it."""
from decimal import Decimal
from fractions import Fraction

import numpy as np
import torch


class PrintsNothingOfItself:
    def __repr__(self):
        raise RuntimeError("no text")

    __str__ = __repr__


class HasARepresentationThatIsNoText:
    def __repr__(self):
        return 5


class HasNoModule:
    """As a class made by `type()` in a namespace without a name can be."""


HasNoModule.__module__ = None


class HasNoSignature:
    """Callable, but asking for its signature raises an error without words."""

    @property
    def __signature__(self):
        raise ValueError("")

    def __call__(self, *args, **case):
        return 1


VALUES = {
    "400_digits": 10**400,
    "5000_digits": 10**5000,
    "minus_400_digits": -10**400,
    "a_size": torch.Size([1]),
    "a_meta_tensor": torch.empty(1, device="meta"),
    "cannot_be_printed": PrintsNothingOfItself(),
    "is_printed_as_a_number": HasARepresentationThatIsNoText(),
    "cannot_be_printed_in_a_list": [PrintsNothingOfItself()],
    "cannot_be_printed_in_an_array": np.array([PrintsNothingOfItself()], dtype=object),
    "has_no_module": HasNoModule(),
    "is_a_class_without_a_module": HasNoModule,
    "has_no_signature": HasNoSignature(),
    "a_date": np.datetime64("2020"),
    "a_decimal_that_is_no_number": Decimal("NaN"),
    "a_decimal_that_signals": Decimal("sNaN"),
    "a_fraction_of_400_digits": Fraction(10**400),
    "ten_million_letters": "x" * 10**7,
}


def returns_400_digits(**case):
    return 10**400


def returns_5000_digits(**case):
    return 10**5000


def returns_a_size(**case):
    return torch.Size([1])


def returns_a_meta_tensor(**case):
    return torch.empty(1, device="meta")


def returns_what_cannot_be_printed(**case):
    return PrintsNothingOfItself()


def returns_what_has_no_module(**case):
    return HasNoModule()


def returns_a_huge_fraction(**case):
    return Fraction(10**400)


def returns_ten_million_letters(**case):
    return "x" * 10**7


def prints_17_mb_of_blanks(**case):
    print(" " * 17 * 2**20)
    return 1


def raises_what_cannot_be_printed(**case):
    raise ValueError(PrintsNothingOfItself())


def raises_ten_million_letters(**case):
    raise ValueError("x" * 10**7)


def interrupts_itself(**case):
    raise KeyboardInterrupt
