"""Exercise 6 accepts every program that measures, and says of a wrong one what its bytes are."""
import math

import pytest
import torch

from helpers.checks import memory_functions
from helpers.checks.memory_functions import check_measured, check_measured_unseen
from helpers.run.launch import launch
from tests.checks import programs
from tests.checks.answers import Generous, TrueForEverything
from tests.checks.outcome import outcome

RIGHT_MIB = 24                  # 16 matrices of 512 x 512: 4 Mi parameters, 12 bytes each, on two ranks
RIGHT = [programs.is_written_out, programs.uses_functions_of_its_own, programs.takes_three_steps,
         programs.has_nesterov_and_a_loss, programs.takes_any_arguments]
WRONG = [
    (programs.does_not_shard, "holds 48.00 MiB, expected 24.00: that is DDP's size, the model is not sharded"),
    (programs.uses_ddp, "that is DDP's size, the model is not sharded"),
    (programs.uses_adam, "holds 32.00 MiB, expected 24.00: that is Adam"),
    (programs.uses_plain_sgd, "holds 16.00 MiB, expected 24.00: the momentum is missing"),
    (programs.takes_no_step, "has the optimizer taken its step inside the block?"),
    (programs.steps_after_the_block, "has the optimizer taken its step inside the block?"),
    (programs.skips_the_backward_pass, "only the parameters are there: no backward pass?"),
    (programs.has_half_the_depth, "is it mlp(width=512, depth=16), each block and the whole under fully_shard"),
    (programs.frees_the_model_before_the_block_ends, "rank 0 holds 0.00 MiB, expected 24.00"),
    (programs.returns_inside_the_block, "rank 0 returned 0, but its memory() block measured 25,1"),
    (programs.returns_without_measuring, "rank 0 returned 25,165,824, but"),
    (programs.shards_by_hand_without_gathering, "no parameters were gathered: is it sharded?"),
    (programs.answers_in_mib, "rank 0 returned 24, but its memory() block measured 25,1"),
    (programs.sums_over_ranks, "rank 0 returned 50,3"),
    (programs.returns_the_private_bytes, "return that measurement's tensors"),
    (programs.returns_nothing, "rank 0 returned a NoneType; the number of bytes is asked for"),
    (programs.returns_text, "rank 0 returned a str; the number of bytes is asked for"),
    (programs.returns_the_measurement, "rank 0 returned a Memory; the number of bytes is asked for"),
    (programs.returns_true, "rank 0 returned a bool; the number of bytes is asked for"),
    (programs.true_for_everything, "rank 0 returned a TrueForEverything"),
    (programs.measures_on_rank_0_only, "rank 0 of 2 waited for a rank that had already returned"),
    (programs.forgets_the_world_size, "launch calls program(rank, world_size, ...)"),
    (programs.misspells_a_name, "NameError: name 'mlpp' is not defined"),
    (programs.exits_the_process, "ended with exit code 3"),
    (programs.prints_that_it_is_right, "[rank 0] 2 of 2 points."),
    (None, "not None"),
    (25165824, "not 25165824"),
]
WRONG_UNSEEN = [
    (programs.fails_on_four_ranks, 0.5, "ValueError: four are too many"),
    (programs.works_on_two_ranks_only, 0, "ValueError: made for two ranks"),
    (programs.uses_adam, 0, "that is Adam"),
    (programs.uses_plain_sgd, 0, "the momentum is missing"),
    (programs.steps_after_the_block, 0, "has the optimizer taken its step inside the block?"),
    (programs.skips_the_backward_pass, 0, "only the parameters are there: no backward pass?"),
    (programs.has_half_the_depth, 0, "is it mlp(width=512, depth=16)"),
    (programs.frees_the_model_before_the_block_ends, 0, "holds 0.00 MiB"),
    (programs.returns_without_measuring, 0, "on 4 ranks: rank 0 returned 12,582,912, but"),
    (programs.answers_in_mib, 0, "on 4 ranks: rank 0 returned 12, but its memory() block measured 12,58"),
    (programs.returns_nothing, 0, "rank 0 returned a NoneType"),
    (programs.is_not_written_yet, 0, "on 4 ranks: "),
    (None, 0, "not None"),
]


@pytest.mark.parametrize("measure", RIGHT)
def test_a_right_program_gets_all_points(measure):
    points, words = outcome(check_measured, measure, RIGHT_MIB)
    assert (points, "Prediction and measurement agree." in words) == (2.0, True)
    points, words = outcome(check_measured_unseen, measure)
    assert (points, "whatever the number of ranks" in words) == (1.0, True)


@pytest.mark.parametrize(("measure", "says"), WRONG)
def test_a_wrong_program_keeps_the_point_of_the_prediction(measure, says):
    points, words = outcome(check_measured, measure, RIGHT_MIB)
    assert points == 1
    assert says in words
    assert "ok     predicted" in words


@pytest.mark.parametrize(("measure", "points", "says"), WRONG_UNSEEN)
def test_other_numbers_of_ranks_find_what_two_do_not(measure, points, says):
    got, words = outcome(check_measured_unseen, measure)
    assert got == points
    assert says in words


@pytest.mark.parametrize("predicted", [24, 24.0, torch.tensor(24), torch.tensor([24.0]).numpy(), 24.1])
def test_a_right_prediction_keeps_its_point_without_a_program(predicted):
    points, words = outcome(check_measured, programs.returns_true, predicted)
    assert points == 1
    assert "ok     predicted" in words


@pytest.mark.parametrize(("predicted", "says"), [
    pytest.param(48, "48 is DDP's size; FSDP shares it between two ranks", id="predicts_ddp"),
    pytest.param(32, "32 has Adam's variance; SGD keeps a momentum only", id="predicts_adam"),
    pytest.param(16, "16 leaves out the momentum", id="forgets_the_momentum"),
    pytest.param(8, "8 is the parameters' share alone", id="predicts_the_parameters"),
    pytest.param(24 * 2**20, "is the number of bytes; MiB are asked for", id="answers_in_bytes"),
    pytest.param(25.165824, "is the size in MB; MiB are asked for", id="answers_in_mb"),
    pytest.param(1.5, "1.5 is too little", id="counts_one_matrix"),
    pytest.param("24 MiB", "a number is asked for, not '24 MiB' of type str", id="writes_text"),
    pytest.param(True, "of type bool", id="answers_true"),
    pytest.param(math.nan, "a number is asked for, not 'nan'", id="answers_nan"),
    pytest.param(TrueForEverything(), "of type TrueForEverything", id="true_for_everything"),
    pytest.param(Generous(24), "of type Generous", id="a_float_that_equals_all"),
    pytest.param(None, "predicted: nothing here yet", id="is_not_started"),
])
def test_a_wrong_prediction_is_explained(predicted, says):
    points, words = outcome(check_measured, programs.returns_true, predicted)
    assert points == 0
    assert says in words
    assert "nothing is right yet" in words


def test_a_wrong_prediction_keeps_the_point_of_the_program():
    points, words = outcome(check_measured, programs.is_written_out, 48)
    assert points == 1
    assert "ok     measured on 2 ranks" in words


def test_a_program_that_never_ends_is_shown_where_it_is(monkeypatch):
    monkeypatch.setattr(memory_functions, "launch",
                        lambda program, world_size, **given: launch(program, world_size, timeout_s=1))
    points, words = outcome(check_measured, programs.never_ends, RIGHT_MIB)
    assert points == 1
    assert "not done after 1 s" in words
    assert "in never_ends" in words
    points, words = outcome(check_measured_unseen, programs.never_ends)
    assert points == 0
    assert "not done after 1 s" in words
