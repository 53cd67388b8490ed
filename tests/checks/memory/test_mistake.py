"""Exercise 4 accepts the right row and sum however they are written, and says what a wrong one is."""
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
import torch

from helpers.checks.memory.values import check_mistake
from tests.checks import answers_odd
from tests.checks.answers import Generous, TrueForEverything
from tests.checks.outcome import named, outcome

RIGHT_GB = 142.5                # 30 * (2 + 2 + 12 / 16)


@pytest.mark.parametrize("term", ["gradient", " Gradient ", "GRADIENTS", "the gradient", "gradient row",
                                  "gradient (bf16)", "bf16 gradients"])
@pytest.mark.parametrize("right_gb", [RIGHT_GB, 142, 143.0, np.float64(RIGHT_GB), torch.tensor(RIGHT_GB),
                                      Fraction(285, 2), Decimal("142.5"), np.array([RIGHT_GB])], ids=repr)
def test_the_wrong_row_and_the_right_sum_may_be_written_in_any_way(term, right_gb):
    points, words = outcome(check_mistake, term, right_gb)
    assert (points, "WRONG" in words) == (2.0, False)
    assert "2 of 2 points. With sharded gradients it is stage 2's table" in words


@pytest.mark.parametrize(("term", "says"), named({
    "names_the_master": ("master", "'master' of type str is right: the optimizer keeps it, and stage 1 shards that"),
    "names_the_master_copy": ("fp32 master copy", "is right: the optimizer keeps it, and stage 1 shards that"),
    "names_the_momentum": ("Momentum", "is right: the optimizer keeps it, and stage 1 shards that"),
    "names_the_variance": ("variances", "is right: the optimizer keeps it, and stage 1 shards that"),
    "names_the_parameters": ("Parameters", "the parameters are right: stage 1 keeps them whole on every rank"),
    "names_activations": ("activations", "'activations' of type str is no row of the table; name one as it stands"),
    "names_the_sum": ("sum", "'sum' of type str is no row of the table"),
    "names_two_rows": ("gradient, variance", "is no row of the table"),
    "names_the_master_and_more": ("master gradient", "'master gradient' of type str is right"),
    "denies_it": ("not gradient", "'not gradient' of type str is no row of the table"),
    "names_the_dtype_only": ("bf16", "is no row of the table"),
    "gives_the_number_of_the_row": (2, "the name of a term is asked for, not 2 of type int"),
    "gives_a_list": (["gradient"], "the name of a term is asked for, not ['gradient'] of type list"),
    "gives_bytes": (b"gradient", "the name of a term is asked for, not b'gradient' of type bytes"),
    "true_for_everything": (TrueForEverything(), "the name of a term is asked for"),
    "is_empty": ("", "is no row of the table"),
    "is_long": ("gradient or " * 10**5, "... of type str is no row of the table"),
    "is_not_started": (None, "the wrong row: nothing here yet"),
}))
def test_a_wrong_row_keeps_the_point_of_the_sum(term, says):
    points, words = outcome(check_mistake, term, RIGHT_GB)
    assert points == 1
    assert says in words
    assert "ok     the right sum" in words


@pytest.mark.parametrize(("right_gb", "says"), named({
    "repeats_the_ledger": (86.25, "86.25 is what the table says, and that is stage 2's"),
    "gives_the_size_under_ddp": (480, "480 is DDP's size; stage 1 shards the optimizer's terms"),
    "divides_everything": (30, "30 shards everything; stage 1 keeps some terms whole"),
    "gives_the_wrong_row_alone": (60, "60 is the wrong row alone; the sum is asked for"),
    "answers_in_gib": (132.713, "132.7 is the size in GiB; GB are asked for"),
    "answers_in_bytes": (142.5e9, "is the number of bytes; GB are asked for"),
    "sums_over_ranks": (2280, "2280 is the sum over all ranks; one rank's share is asked for"),
    "adds_the_right_row_to_the_wrong_one": (146.25, "146.2 is too much"),
    "is_off_by_one_percent": (141, "141 is too little"),
    "negates": (-142.5, "-142.5 is too little"),
    "writes_text": ("142.5 GB", "a number is asked for, not '142.5 GB' of type str"),
    "answers_true": (True, "a number is asked for, not True of type bool"),
    "answers_nan": (math.nan, "a number is asked for, not nan"),
    "a_float_that_equals_all": (Generous(1), "of type Generous"),
    "true_for_everything": (TrueForEverything(), "of type TrueForEverything"),
    "is_not_started": (None, "the right sum: nothing here yet"),
}))
def test_a_wrong_sum_keeps_the_point_of_the_row(right_gb, says):
    points, words = outcome(check_mistake, "gradient", right_gb)
    assert points == 1
    assert says in words
    assert "ok     the wrong row" in words


@pytest.mark.parametrize(("answer", "words"), named({
    "is_not_started": ((None, None), "nothing here yet"),
    "swaps_its_two_answers": ((142.5, "gradient"), "a number is asked for, not 'gradient' of type str"),
    "believes_the_ledger": (("variance", 86.25), "that is stage 2's"),
    "has_not_started_the_sum": (("dropout", None), "the right sum: nothing here yet"),
}))
def test_both_wrong_gets_nothing(answer, words):
    points, said = outcome(check_mistake, *answer)
    assert points == 0
    assert words in said
    assert "ok " not in said


@pytest.mark.parametrize("value", [pytest.param(value, id=name) for name, value in answers_odd.VALUES.items()])
def test_an_odd_value_in_place_of_either_keeps_the_point_of_the_other(value):
    points, words = outcome(check_mistake, "gradient", value)
    assert (points, "WRONG  the right sum: a number is asked for, not " in words) == (1, True)
    points, words = outcome(check_mistake, value, RIGHT_GB)
    assert (points, "WRONG  the wrong row: " in words) == (1, True)
    assert len(words) < 300
