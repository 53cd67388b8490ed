"""A schedule written step by step: what is possible, what is not and why."""
import pytest

from helpers.facts.errors import BadValue
from helpers.facts.schedules import gpipe, most_held, one_f_one_b, validate, zb_h1
from helpers.facts.schedules.board import IllegalMove, action_kinds, empty_board, place, undo


def placed(board, *moves):
    """The board after moves such as "0F1": rank, kind, microbatch."""
    for move in moves:
        board = place(board, int(move[0]), move[1:])
    return board


def refused(board, rank, text) -> str:
    with pytest.raises(IllegalMove) as caught:
        place(board, rank, text)
    return str(caught.value)


@pytest.mark.parametrize("schedule", [gpipe(3, 4), one_f_one_b(3, 4), zb_h1(3, 4)], ids=lambda s: s.name)
def test_a_known_schedule_can_be_written_and_is_what_was_written(schedule):
    board = empty_board(3, 4, split=schedule.name == "ZB-H1")
    left = [list(steps) for steps in schedule.steps]
    while any(left):
        for rank, steps in enumerate(left):
            try:
                while steps:
                    board = place(board, rank, f"{steps[0].kind}{steps[0].microbatch}")
                    del steps[0]
            except IllegalMove:
                continue
    assert board.full
    assert board.num_left == 0
    assert board.placed.steps == schedule.steps
    validate(board.placed)


def test_a_letter_alone_takes_the_next_microbatch():
    board = placed(empty_board(2, 3), "0F", "0f", "0 f2", "1F")
    assert [str(step) for step in board.placed.steps[0]] == ["0F0", "0F1", "0F2"]
    assert refused(board, 0, "F") == "rank 0 has done all its F"


def test_what_is_missing_is_named_with_its_rank():
    board = empty_board(3, 2)
    assert refused(board, 1, "F0") == "rank 1 cannot do F0 yet: it needs F0 of rank 0, which is not on the board"
    board = placed(board, "0F0", "1F0")
    assert "needs B0 of rank 2, which is not" in refused(board, 1, "B0")
    assert "needs F0 of rank 2, which is not" in refused(board, 2, "B0")
    assert "needs F1 of rank 1 and B1 of rank 2, which are not" in refused(board, 1, "B1")


def test_w_needs_its_i_and_nothing_else_does():
    board = placed(empty_board(2, 1, split=True), "0F0", "1F0", "1I0", "0I0")
    assert "needs I0" in refused(empty_board(2, 1, split=True), 0, "W0")
    assert placed(board, "0W0", "1W0").full


def test_a_full_memory_refuses_a_forward_until_something_ends():
    board = placed(empty_board(2, 3, cap=1), "0F0", "1F0")
    assert refused(board, 0, "F1") == ("rank 0 has memory for 1 microbatches, and F1 would be one more: it must finish "
                                       "one first, with B")
    board = placed(board, "1B0", "0B0", "0F1")
    assert most_held(board.placed) == [1, 1]
    split = placed(empty_board(1, 2, split=True, cap=1), "0F0", "0I0")
    assert refused(split, 0, "F1").endswith("first, with W")


@pytest.mark.parametrize("text", ["", "X0", "F", "W0", "F9", "F-1", "F0 F1", "0F0"])
def test_what_is_no_step_of_the_board_is_refused_in_a_sentence(text):
    board = placed(empty_board(1, 2), "0F0", "0F1")
    assert len(refused(board, 0, text)) > 20


def test_a_step_twice_is_refused():
    assert refused(placed(empty_board(1, 2), "0F0"), 0, "F0") == "rank 0 has done F0 already"


def test_undo_takes_back_the_last_step_unless_another_needs_it():
    board = placed(empty_board(2, 1), "0F0", "1F0")
    with pytest.raises(IllegalMove, match=r"F0 of rank 1 on the board needs F0 of rank 0: take that back first"):
        undo(board, 0)
    assert undo(undo(board, 1), 0) == empty_board(2, 1)
    with pytest.raises(IllegalMove, match="rank 1 has nothing to take back"):
        undo(empty_board(2, 1), 1)


def test_a_move_leaves_the_board_before_it_as_it_was():
    before = empty_board(2, 1)
    placed(before, "0F0")
    assert before.placed.steps == ((), ())
    assert [action_kinds(empty_board(2, 1, split=split)) for split in (False, True)] == ["FB", "FIW"]


@pytest.mark.parametrize("rank", [-1, 2])
def test_a_rank_that_is_not_there_is_refused(rank):
    assert refused(empty_board(2, 3), rank, "F0") == f"there is no rank {rank}, only 0 to 1"
    with pytest.raises(IllegalMove, match=f"there is no rank {rank}"):
        undo(empty_board(2, 3), rank)


def test_memory_for_nothing_is_refused():
    with pytest.raises(BadValue, match="cap is a whole number of at least 1, not 0"):
        empty_board(2, 3, cap=0)
