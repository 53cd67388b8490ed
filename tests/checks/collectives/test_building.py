"""Exercises 1, 2, 3 and 6 of set 02 accept every right collective, and say of a wrong one what is wrong."""
import functools

import pytest

from helpers.checks.collectives import building, mesh_runs
from helpers.run.collectives import recursive_doubling_all_reduce, ring_all_gather, ring_reduce_scatter, tree_broadcast
from tests.checks.collectives import answers_broadcast as broadcast
from tests.checks.collectives import answers_gather as gather
from tests.checks.collectives import answers_mended as mended
from tests.checks.collectives import answers_scatter as scatter
from tests.checks.outcome import outcome

RIGHT = {
    "all_gather": [gather.goes_round_downwards, gather.starts_both_and_waits, gather.expects_all_chunks_at_once,
                   gather.copies_into_a_buffer, functools.partial(gather.goes_round_downwards),
                   lambda mesh, tensor: gather.goes_round_downwards(mesh, tensor)],
    "reduce_scatter": [scatter.goes_round_upwards, scatter.goes_round_downwards, scatter.sends_each_chunk_to_its_owner,
                       scatter.posts_everything_at_once, scatter.pads_every_chunk, scatter.leaves_out_what_is_empty],
    "broadcast": [broadcast.doubles_who_has_it, broadcast.halves_the_distance, broadcast.splits_the_ranks_in_two,
                  broadcast.asks_its_parent_and_tells_its_children],
    "mended_all_reduce": [mended.lower_sends_first, mended.higher_sends_first, mended.looks_at_the_bit,
               mended.sums_up_a_tree_and_back_down],
}
POINTS = {"all_gather": 3, "reduce_scatter": 3, "broadcast": 2, "mended_all_reduce": 2}
PRAISE = {"all_gather": "A ring has two directions, and both work.",
          "reduce_scatter": "No rank sends more than it must.",
          "broadcast": "Who has the data doubles in each step.",
          "mended_all_reduce": "In every pair one sends while the other receives."}
DEAR_ALL_GATHER = "WRONG  N-1 messages, (N-1)/N T bytes: 2 ranks, 4 elements: right values, but "
# the function, its points among those that a learner sees, and what he reads
ALL_GATHER = [
    (gather.forgets_the_last_chunk, 0, "2 ranks, 4 elements: rank 0 holds [1, 1, 0, 0], expected [1, 1, 2, 2]. "
                                       "Rank r had r+1 in its own chunk, and 0 in the others."),
    (gather.keeps_the_chunk_numbers_of_the_other_direction, 0,
     "3 ranks, 6 elements: rank 0 holds [1, 1, 3, 3, 2, 2], expected [1, 1, 2, 2, 3, 3]"),
    (gather.forwards_its_own_chunk_only, 0, "rank 0 holds [1, 1, 2, 2, 2, 2], expected [1, 1, 2, 2, 3, 3]"),
    (gather.all_send_first, 0, "2 ranks, 4 elements: hangs: rank 0 waits to send 2 elements to rank 1, which does not "
                               "receive\n  rank 1 waits to send 2 elements to rank 0, which does not receive"),
    (gather.returns_a_new_tensor, 0,
     "it returns the right values, but `tensor` itself must hold them: fill it in place"),
    (gather.imports_the_courses_ring, 0, "uses helpers.run.collectives, which this exercise asks you to do without"),
    (ring_all_gather, 0, "uses helpers.run.collectives, which this exercise asks you to do without"),
    (gather.shares_data_through_a_global, 0, "right values, but all ranks together send 0 bytes, and 32 must travel: "
                                             "tensors go from rank to rank by calls of the mesh only"),
    (gather.shares_data_and_sends_what_nobody_needs, 2, f"{DEAR_ALL_GATHER}2 messages follow one another"),
    (gather.knows_four_ranks_at_most, 3, "3 of 3 points"),
]
REDUCE_SCATTER = [
    (scatter.assumes_chunks_of_one_length, 1, "WRONG  ragged chunks: 2 ranks, 5 elements: rank 0 returned [11, 22], "
                                              "expected [11, 22, 33]. Element j of rank r was (j+1) 10**r"),
    (scatter.receives_the_size_that_it_sends, 1, "WRONG  ragged chunks: 2 ranks, 5 elements: raised BadValue: rank 1 "
                                                 "sends 3 elements of torch.float64 to rank 0, which expects 2 of"),
    (scatter.cuts_with_chunk, 1, "4 ranks, 3 elements: raised IndexError: tuple index out of range"),
    (scatter.owns_the_chunk_of_the_next_rank, 0, "rank 0 returned [33, 44], expected [11, 22]"),
    (scatter.adds_twice, 0, "rank 0 returned [21, 42], expected [11, 22]. Element j of rank r was (j+1) 10**r: "
                            "digit r of a sum says what rank r gave."),
    (scatter.overwrites_instead_of_adding, 0, "rank 0 returned [10, 20], expected [11, 22]"),
    (scatter.forgets_the_last_step, 0, "rank 0 returned [1, 2], expected [11, 22]"),
    (scatter.has_buffers_of_float32, 0, "elements of torch.float64 to rank 0, which expects 2 of torch.float32"),
    (scatter.forgets_to_return, 0, "rank 0 returned None, expected [11, 22]: is there a return?"),
    (scatter.returns_the_whole_tensor, 0, "rank 0 returned [11, 22, 3, 4], expected [11, 22]"),
    (scatter.returns_a_numpy_array, 0, "rank 0 returned array([11., 22.]) of type ndarray; a flat tensor of 2 is"),
    (scatter.returns_a_list, 0, "rank 0 returned [11.0, 22.0] of type list; a flat tensor of 2 is expected"),
    (scatter.returns_a_matrix, 0, "rank 0 returned [[11.0, 22.0]]; a flat tensor of 2 is expected"),
    (ring_reduce_scatter, 0, "uses helpers.run.collectives, which this exercise asks you to do"),
    (scatter.knows_four_ranks_at_most, 3, "3 of 3 points"),
]
SLOW_BROADCAST = "WRONG  ceil(log2 N) sends: 4 ranks, 2 elements, source 0: right values, but 3 sends of the tensor"
BROADCAST = [
    (broadcast.ignores_the_source, 0, "2 ranks, 2 elements, source 1: rank 0 holds [1, 10], expected [2, 20]. "
                                      "Rank r had r+1 and 10 (r+1)."),
    (broadcast.sends_to_one_after_the_other, 1, f"{SLOW_BROADCAST} follow one another; 2 are enough"),
    (broadcast.sends_to_all_at_once, 1, f"{SLOW_BROADCAST} follow one another; 2 are enough"),
    (broadcast.passes_it_round, 1, f"{SLOW_BROADCAST} follow one another; 2 are enough"),
    (broadcast.tells_everybody_and_waits_for_nobody, 1, f"{SLOW_BROADCAST} follow one another; 2 are enough"),
    (broadcast.is_dear_when_called_first_only, 0, "called again, it holds or sends something else"),
    (broadcast.assumes_a_power_of_two, 0, "5 ranks, 2 elements, source 4: hangs: rank 0 waits to send 2 elements to "
                                          "rank 4, which does not receive\n  rank 1 waits to send"),
    (broadcast.counts_from_rank_0_again, 0, "rank 0 can send to and receive from the other ranks of 2, not 0"),
    (broadcast.does_not_count_round_the_end, 0, "rank 0 can send to and receive from the other ranks of 2, not -1"),
    (broadcast.stops_a_step_early, 0, "rank 0 holds [1, 10], expected [2, 20]"),
    (tree_broadcast, 0, "uses helpers.run.collectives, which this exercise asks you to do without"),
    (broadcast.knows_eight_ranks_at_most, 2, "2 of 2 points"),
]
MENDED = [
    (mended.is_still_broken, 0, "2 ranks, 2 elements: hangs: rank 0 waits to send 2 elements to rank 1, which does "),
    (mended.all_receive_first, 0, "hangs: rank 0 waits to receive 2 elements from rank 1, which does not send"),
    (mended.looks_at_parity_only, 0, "4 ranks, 2 elements: hangs: rank 0 waits to send 2 elements to rank 2, which "
                                     "does not receive\n  rank 1 waits to receive 2 elements from rank 3, which does "
                                     "not send\n  rank 2 waits to send 2 elements to rank 0, which does not receive\n"
                                     "  rank 3 waits to receive 2 elements from rank 1, which does not send\n"),
    (mended.adds_before_sending, 0, "rank 0 holds [12, 24], expected [11, 22]"),
    (mended.adds_twice, 0, "rank 0 holds [21, 42], expected [11, 22]. Element j of rank r was (j+1) 10**r"),
    (mended.stops_a_step_early, 0, "4 ranks, 2 elements: rank 0 holds [11, 22], expected [1111, 2222]"),
    (mended.adds_the_distance, 0, "rank 0 holds [2222, 4444], expected [1111, 2222]"),
    (mended.uses_exchange, 0, "this exercise allows send, recv, add, not exchange"),
    (mended.uses_isend, 0, "this exercise allows send, recv, add, not isend"),
    (mended.reaches_behind_the_mesh, 0, "'function' object has no attribute '__self__'"),
    (mended.returns_a_new_tensor, 0, "it returns the right values, but `tensor` itself must hold them"),
    (recursive_doubling_all_reduce, 0, "uses helpers.run.collectives, which this exercise asks you to do without"),
    (mended.knows_eight_ranks_at_most, 2, "2 of 2 points"),
]
WRONG = [(name, *case) for name, cases in (("all_gather", ALL_GATHER), ("reduce_scatter", REDUCE_SCATTER),
                                           ("broadcast", BROADCAST), ("mended_all_reduce", MENDED)) for case in cases]
# right values on any number of ranks, but not at the cost that was asked for
DEAR = [
    ("all_gather", gather.gathers_at_rank_0_first, 1, f"{DEAR_ALL_GATHER}rank 0 sends 32 bytes; 16 are enough"),
    ("all_gather", gather.sends_the_whole_tensor_every_step, 2, f"{DEAR_ALL_GATHER}rank 0 sends 32 bytes; 16 are"),
    ("all_gather", gather.takes_turns_by_parity, 2, f"{DEAR_ALL_GATHER}2 messages follow one another; 1 are enough"),
    ("all_gather", gather.sends_up_instead_of_down, 2, "WRONG  each rank sends to the one below only: 3 ranks, 6 "
                                                       "elements: rank 0 sends to rank 1, not to rank 2"),
    ("all_gather", gather.sends_its_chunk_to_everybody, 2, "rank 0 sends to rank 1, not to rank 2"),
    ("reduce_scatter", scatter.sends_the_whole_tensor_every_step, 2, "WRONG  N-1 messages of a chunk: 2 ranks, 5 "
     "elements: right values, but rank 0 sends 40 bytes; 24 are enough"),
    ("reduce_scatter", scatter.sums_all_at_rank_0, 2, "right values, but rank 1 sends 40 bytes; 24 are enough"),
    ("mended_all_reduce", mended.sums_at_rank_0, 1,
     "WRONG  2 log2 N messages: 4 ranks, 2 elements: right values, but rank 0 "
                                         "sends 48 bytes; 32 are enough"),
]
UNSEEN = [
    ("all_gather", gather.knows_four_ranks_at_most, "7 ranks, 7 elements: rank 0 holds [1, 0, 0, 0, 0, 0, 0]"),
    ("all_gather", gather.shares_data_and_sends_what_nobody_needs, "3 ranks, 12 elements: rank 0 holds [1, 1, 1, 1, 0"),
    ("reduce_scatter", scatter.assumes_chunks_of_one_length, "6 ranks, 8 elements: rank 0 returned [111111], expected"),
    ("reduce_scatter", scatter.knows_four_ranks_at_most, "6 ranks, 8 elements: rank 0 returned [1, 2, 3, 4, 5, 6"),
    ("broadcast", broadcast.passes_it_round, "7 ranks, 2 elements, source 6: right values, but 6 sends of the tensor"),
    ("broadcast", broadcast.knows_eight_ranks_at_most, "16 ranks, 2 elements, source 9: right values, but 15 sends"),
    ("mended_all_reduce", mended.knows_eight_ranks_at_most,
     "16 ranks, 1 element: rank 0 holds [1], expected [1111111111111111]"),
    ("mended_all_reduce", mended.looks_at_parity_only, "  ... and 8 more"),
]


def seen(name: str, function: object) -> tuple[float, str]:
    return outcome(getattr(building, f"check_{name}"), function)


def unseen(name: str, function: object) -> tuple[float, str]:
    return outcome(getattr(building, f"check_{name}_unseen"), function)


@pytest.mark.parametrize(("name", "function"), [(name, function) for name, some in RIGHT.items() for function in some])
def test_a_right_collective_gets_all_points(name, function):
    points, words = seen(name, function)
    assert (points, PRAISE[name] in words, "WRONG" in words) == (POINTS[name], True, False)
    points, words = unseen(name, function)
    assert (points, "It holds on gloo, too." in words) == (1, True)


@pytest.mark.parametrize(("name", "function", "points", "says"), WRONG)
def test_a_wrong_collective_is_told_what_is_wrong_and_fails_the_unseen_cases(name, function, points, says):
    got, words = seen(name, function)
    assert got == points
    assert says in words
    if not points:
        assert "values first" in words                  # so that no learner looks for cheaper wrong values
    assert unseen(name, function)[0] == 0


@pytest.mark.parametrize(("name", "function", "points", "says"), DEAR)
def test_right_values_that_cost_too_much_keep_their_point(name, function, points, says):
    got, words = seen(name, function)
    assert got == points
    assert says in words
    assert unseen(name, function)[0] == 1


@pytest.mark.parametrize(("name", "function", "says"), UNSEEN)
def test_unseen_cases_find_what_a_few_ranks_do_not(name, function, says):
    points, words = unseen(name, function)
    assert points == 0
    assert words.startswith("unseen cases: ")
    assert says in words


def test_a_rank_that_fails_on_gloo_only_is_shown_at_the_learners_line(monkeypatch):
    """And at no line of the check."""
    points, words = unseen("mended_all_reduce", mended.fails_on_gloo)
    assert points == 0
    assert "4 ranks, 3 elements: on real ranks: ranks 0, 1, 2 and 3 of 4 raised KeyError: 'real'" in words
    assert 'File "answers_mended.py", line ' in words
    assert "played.py" not in words
    monkeypatch.setattr(mesh_runs, "GLOO_DEADLINE_S", 1.0)
    points, words = unseen("mended_all_reduce", mended.hangs_on_gloo)
    assert points == 0
    assert "on real ranks: not done after 1 s" in words
    assert "in hangs_on_gloo: " in words
    assert "played.py" not in words
