"""Exercise 6 accepts every program that measures, and says of a wrong one what its bytes are."""
import math
import re
from decimal import Decimal
from fractions import Fraction

import pytest
import torch

from helpers.checks.memory import measured
from helpers.checks.memory.measured import check_measured, check_measured_unseen
from tests.checks import answers_odd
from tests.checks.answers import Generous, TrueForEverything
from tests.checks.memory import programs
from tests.checks.memory import programs_odd as odd
from tests.checks.memory import programs_wrong as wrong
from tests.checks.outcome import outcome

RIGHT_MIB = 24                  # 16 matrices of 512 x 512: 4 Mi parameters, 12 bytes each, on two ranks
RIGHT = [programs.is_written_out, programs.uses_functions_of_its_own, programs.takes_three_steps,
         programs.has_nesterov_and_a_loss, programs.takes_any_arguments, programs.measures_twice,
         programs.returns_a_fraction, programs.returns_a_decimal, programs.returns_a_number_of_numpy,
         programs.returns_a_tensor]
WRONG = [
    (wrong.does_not_shard, "holds 48.00 MiB, expected 24.00: that is DDP's size, the model is not sharded"),
    (wrong.uses_ddp, "that is DDP's size, the model is not sharded"),
    (wrong.uses_adam, "holds 32.00 MiB, expected 24.00: 16 bytes a parameter: Adam, or an optimizer made before"),
    (wrong.makes_the_optimizer_before_sharding, "Adam, or an optimizer made before fully_shard?"),
    (wrong.uses_plain_sgd, "holds 16.00 MiB, expected 24.00: 8 of 12 bytes a parameter: no "),
    (wrong.takes_no_step, "8 of 12 bytes a parameter: no momentum, no step inside the block"),
    (wrong.steps_after_the_block, "no step inside the block, or gradients cleared?"),
    (wrong.clears_the_gradients, "or gradients cleared?"),
    (wrong.skips_the_backward_pass, "only the parameters are there: no backward pass?"),
    (wrong.has_half_the_depth, "is it mlp(width=512, depth=16), sharded, with a batch of 2 and one step of SGD?"),
    (wrong.shards_the_whole_only, "gathered the whole model at once: put fully_shard on each block, too"),
    (wrong.frees_the_model_before_the_block_ends, "rank 0 holds 0.00 MiB, expected 24.00: everything was freed"),
    (wrong.returns_inside_the_block, "return grown.tensors after the block; before it ends, it is 0"),
    (wrong.returns_without_measuring, "rank 0 has no memory() block that measured anything"),
    (wrong.returns_the_size_without_a_block, "rank 0 has no memory() block that measured anything"),
    (wrong.allocates_the_right_size, "rank 0 holds the right size, but has not gathered all parameters and"),
    (wrong.gathers_without_reducing, "reduced all gradients: is it FSDP?"),
    (wrong.shards_by_hand_without_gathering, "has not gathered all parameters"),
    (wrong.answers_in_mib, "bytes are asked for, not MiB"),
    (wrong.sums_over_ranks, "rank 0 returned 50,3"),
    (wrong.returns_the_private_bytes, "return that measurement's tensors"),
    (wrong.returns_nothing, "rank 0 returned None of type NoneType; the number of bytes is asked for"),
    (wrong.returns_text, "bytes' of type str; the number of bytes is asked for"),
    (wrong.returns_the_measurement, "of type Memory; the number of bytes is asked for"),
    (wrong.returns_true, "rank 0 returned True of type bool; the number of bytes is asked for"),
    (wrong.true_for_everything, "of type TrueForEverything; the number of bytes is asked for"),
    (wrong.measures_on_rank_0_only, "rank 0 of 2 waited for a rank that had already returned"),
    (wrong.forgets_the_world_size, "launch calls program(rank, world_size, ...)"),
    (wrong.misspells_a_name, "NameError: name 'mlpp' is not defined"),
    (wrong.exits_the_process, "ended with exit code 3"),
    (wrong.prints_that_it_is_right, "[rank 0] 2 of 2 points."),
    (wrong.is_not_written_yet, "measured on 2 ranks: is not written yet"),
    (None, "measured on 2 ranks: nothing here yet"),
    (..., "measured on 2 ranks: nothing here yet"),
    (25165824, "not 25165824"),
]
ODD = [
    (odd.spoils_the_record_at_last, "rank 0"),
    (odd.spoils_the_record_at_first, "TypeError"),
    (odd.clears_the_record, "rank 0 has no memory() block that measured anything"),
    (odd.returns_400_digits, "000... of type int; the number of bytes is asked for"),
    (odd.returns_5000_digits, "rank 0 returned something of type int; the number of bytes is asked for"),
    (odd.returns_a_huge_fraction, "the number of bytes is asked for"),
    (odd.returns_a_size, "rank 0 returned torch.Size([1]) of type Size; the number of bytes is asked for"),
    (odd.returns_a_meta_tensor, "of type Tensor; the number of bytes is asked for"),
    (odd.returns_what_cannot_be_printed, "something of type PrintsNothingOfItself; the number of bytes is asked for"),
    (odd.returns_what_has_no_module, "of type HasNoModule; the number of bytes is asked for"),
    (odd.prints_17_mb_of_blanks, "printed more than 17 MB and was stopped"),
    pytest.param(answers_odd.HasNoSignature(), "launch calls program(rank, world_size, ...)", id="has_no_signature"),
    pytest.param(answers_odd.PrintsNothingOfItself(), "WRONG", id="cannot_be_printed"),
    pytest.param(10**5000, "WRONG", id="is_a_number_of_5000_digits"),
]
WRONG_UNSEEN = [
    (wrong.fails_on_four_ranks, 0.5, "ValueError: four are too many"),
    (wrong.works_on_two_ranks_only, 0, "ValueError: made for two ranks"),
    (wrong.uses_adam, 0, "on 3 ranks: rank 0 holds 21.38 MiB, expected 16.00: 16 bytes a parameter: Adam"),
    (wrong.uses_plain_sgd, 0, "8 of 12 bytes a parameter: no "),
    (wrong.frees_the_model_before_the_block_ends, 0, "holds 0.00 MiB"),
    (wrong.shards_the_whole_only, 0, "put fully_shard on each block, too"),
    (wrong.allocates_the_right_size, 0, "is it FSDP?"),
    (wrong.gathers_without_reducing, 0, "is it FSDP?"),
    (wrong.returns_without_measuring, 0, "unseen cases: rank 0 has no memory() block that measured anything"),
    (wrong.answers_in_mib, 0, "on 4 ranks: rank 0 returned 12, but its memory() block measured 12,58"),
    (wrong.returns_nothing, 0, "rank 0 returned None of type NoneType"),
    (wrong.is_not_written_yet, 0, "unseen cases: is not written yet"),
    (None, 0, "unseen cases: nothing here yet"),
]


@pytest.mark.parametrize("measure", RIGHT)
def test_a_right_program_gets_all_points(measure):
    points, words = outcome(check_measured, measure, RIGHT_MIB)
    assert (points, "Prediction and measurement agree." in words) == (2.0, True)


@pytest.mark.parametrize("measure", [*RIGHT[:2], *(pytest.param(one, marks=pytest.mark.soak) for one in RIGHT[2:])])
def test_a_right_program_gets_the_unseen_point(measure):
    points, words = outcome(check_measured_unseen, measure)
    assert (points, "whatever the number of ranks" in words) == (1.0, True)


@pytest.mark.parametrize(("measure", "says"), WRONG)
def test_a_wrong_program_keeps_the_point_of_the_prediction(measure, says):
    points, words = outcome(check_measured, measure, RIGHT_MIB)
    assert points == 1
    assert says in words
    assert "ok     predicted" in words


@pytest.mark.parametrize(("measure", "says"), ODD)
def test_an_odd_program_is_wrong_and_nothing_worse(measure, says):
    points, words = outcome(check_measured, measure, RIGHT_MIB)
    assert points == 1
    assert says in words
    assert "ok     predicted" in words
    assert len(re.sub(" +", " ", words)) < 3000


@pytest.mark.parametrize("measure", [odd.spoils_the_record_at_last, odd.returns_5000_digits, odd.returns_a_meta_tensor,
                                     odd.prints_17_mb_of_blanks, answers_odd.PrintsNothingOfItself()])
def test_an_odd_program_gets_nothing_for_unseen_cases(measure):
    points, words = outcome(check_measured_unseen, measure)
    assert points == 0
    assert "unseen cases: " in words


@pytest.mark.parametrize("value", [pytest.param(value, id=name) for name, value in answers_odd.VALUES.items()])
def test_an_odd_prediction_is_no_number(value):
    points, words = outcome(check_measured, None, value)
    assert points == 0
    assert "WRONG  predicted: a number is asked for, not " in words


@pytest.mark.parametrize(("measure", "points", "says"), WRONG_UNSEEN)
def test_other_numbers_of_ranks_find_what_two_do_not(measure, points, says):
    got, words = outcome(check_measured_unseen, measure)
    assert got == points
    assert says in words


@pytest.mark.parametrize("predicted", [24, 24.0, torch.tensor(24), torch.tensor([24.0]).numpy(), 24.1, Fraction(24),
                                       Decimal(24)])
def test_a_right_prediction_keeps_its_point_without_a_program(predicted):
    points, words = outcome(check_measured, wrong.returns_true, predicted)
    assert points == 1
    assert "ok     predicted" in words


@pytest.mark.parametrize(("predicted", "says"), [
    pytest.param(48, "48 is DDP's size; FSDP shares it between two ranks", id="predicts_ddp"),
    pytest.param(32, "32 has a second moment; SGD keeps a momentum only", id="predicts_adam"),
    pytest.param(16, "16 leaves out the momentum", id="forgets_the_momentum"),
    pytest.param(8, "8 is the parameters' share alone", id="predicts_the_parameters"),
    pytest.param(24 * 2**20, "is the number of bytes; MiB are asked for", id="answers_in_bytes"),
    pytest.param(25.165824, "is the size in MB; MiB are asked for", id="answers_in_mb"),
    pytest.param(1.5, "1.5 is too little", id="counts_one_matrix"),
    pytest.param("24 MiB", "a number is asked for, not '24 MiB' of type str", id="writes_text"),
    pytest.param(True, "of type bool", id="answers_true"),
    pytest.param(math.nan, "a number is asked for, not nan", id="answers_nan"),
    pytest.param(TrueForEverything(), "of type TrueForEverything", id="true_for_everything"),
    pytest.param(Generous(24), "of type Generous", id="a_float_that_equals_all"),
    pytest.param(None, "predicted: nothing here yet", id="is_not_started"),
])
def test_a_wrong_prediction_is_explained(predicted, says):
    points, words = outcome(check_measured, wrong.returns_true, predicted)
    assert points == 0
    assert says in words
    assert "ok " not in words


def test_a_wrong_prediction_keeps_the_point_of_the_program():
    points, words = outcome(check_measured, programs.is_written_out, 48)
    assert points == 1
    assert "ok     measured on 2 ranks" in words


def test_a_program_that_never_ends_is_shown_where_it_is(monkeypatch):
    monkeypatch.setattr(measured, "DEADLINE_S", 1.0)
    points, words = outcome(check_measured, wrong.never_ends, RIGHT_MIB)
    assert points == 1
    assert "not done after 1 s" in words
    assert "in never_ends" in words
    points, words = outcome(check_measured_unseen, wrong.never_ends)
    assert points == 0
    assert "not done after 1 s" in words
    assert "4 ranks" not in words                       # one deadline is long enough
