"""Nothing that a function does with the mesh, its process or torch gets it points, or harms the check."""
import re
import time

import pytest
import torch

from helpers.checks.collectives import building
from helpers.checks.collectives.mesh_runs import MOST_ELEMENTS, MeshCase, on_gloo, outcomes
from helpers.checks.judge.other_process import Raised
from tests.checks.collectives import answers_gather, answers_mesh
from tests.checks.outcome import outcome

CHECKS = {name: (getattr(building, f"check_{name}"), getattr(building, f"check_{name}_unseen"))
          for name in ("all_gather", "reduce_scatter", "broadcast", "mended_all_reduce")}
EVERYWHERE = [
    (answers_mesh.is_not_written_yet, "is not written yet"),
    (answers_mesh.does_nothing, "expected "),
    (answers_mesh.divides_by_zero, "raised ZeroDivisionError: division by zero"),
    (answers_mesh.exits_the_process, "the function ended its process: rank 0 of 1 ended with exit code 3"),
    (answers_mesh.leaves_a_huge_tensor, "a tensor of 1,000,000,000,000 elements; a flat tensor of "),
    (None, "a function is asked for, not None of type NoneType"),
]
ODD = [
    (answers_mesh.takes_no_mesh, "raised TypeError: takes_no_mesh() takes 1 positional argument but 2 were given"),
    (answers_mesh.yields_instead_of_working, "rank 0 holds [1, 1, 0, 0], expected [1, 1, 2, 2]"),
    (answers_mesh.swallows_every_exception, "hangs: rank 0 waits to receive 4 elements from rank 1"),
    (answers_mesh.leaves_with_sys_exit, "enough"),
    (answers_mesh.interrupts_itself, "2 ranks, 4 elements: raised KeyboardInterrupt (line "),
    (answers_mesh.leaves_the_clock, "WRONG  every rank has all chunks: 2 ranks, 4 elements: "),
    (answers_mesh.forgets_to_receive, "2 ranks, 4 elements: all ranks are done, and messages are left over\n"
                                      "  rank 0 has begun to send 4 elements to rank 1, which does not receive"),
    (answers_mesh.gives_its_turn_away, "WRONG  every rank has all chunks: 2 ranks, 4 elements: "),
    (answers_mesh.prints_17_mb_of_blanks, "rank 0 holds [1, 1, 0, 0], expected [1, 1, 2, 2]"),
    (answers_mesh.prints_that_it_is_right, "rank 0 holds [1, 1, 0, 0], expected [1, 1, 2, 2]"),
    (answers_mesh.launches_ranks, "launch cannot be called inside a rank program"),
    (answers_mesh.asks_torch, "rank 0 holds [1, 1, 0, 0], expected [1, 1, 2, 2]"),
    (answers_mesh.fills_with_nan, "rank 0 holds [nan, nan, nan, nan], expected [1, 1, 2, 2]"),
    (answers_mesh.sends_a_list, "a mesh sends, receives and adds tensors, not [1.0] of type list"),
    (answers_mesh.sends_what_weighs_nothing, "a mesh sends, receives and adds tensors, not Weightless("),
    (answers_mesh.sends_to_itself, "rank 0 can send to and receive from the other ranks of 2, not 0"),
    (answers_mesh.forgets_whom_to_send_to, "raised TypeError: missing a required argument: 'to'"),
    (answers_mesh.receives_what_has_gaps, "on a contiguous tensor: give it tensor.contiguous()"),
    (answers_mesh.forges_its_list, "rank 0 holds [1, 1, 0, 0], expected [1, 1, 2, 2]"),
    (answers_mesh.forges_its_class, "rank 0 holds []; a flat tensor of 4 is expected"),
    (answers_mesh.forges_torch, "rank 0 holds [0, 0, 0, 0]; a flat tensor of 4 is expected"),
    (3, "a function is asked for, not 3 of type int"),
    ((n for n in "").__next__, "the function cannot be sent to another process: "),
    (len, "raised TypeError: len() takes exactly one argument (2 given)"),
]


@pytest.mark.parametrize("name", CHECKS)
@pytest.mark.parametrize(("function", "says"), EVERYWHERE)
def test_what_is_no_collective_gets_nothing_from_any_check(name, function, says):
    for check in CHECKS[name]:
        points, words = outcome(check, function)
        assert points == 0
        assert says in words


@pytest.mark.parametrize(("function", "says"), ODD)
def test_an_odd_function_is_wrong_and_nothing_worse(function, says):
    seen, unseen = CHECKS["all_gather"]
    points, words = outcome(seen, function)
    assert points == 0
    assert says in words
    assert "ok " not in words
    assert len(words) < 1000
    points, words = outcome(unseen, function)
    assert points == 0
    assert "unseen cases: " in words
    assert len(re.sub(" +", " ", words)) < 1500


@pytest.mark.parametrize("function", [answers_mesh.never_ends, answers_mesh.sleeps])
def test_a_function_that_never_ends_is_ended(impatient, function):
    started = time.monotonic()
    for check in CHECKS["all_gather"]:
        points, words = outcome(check, function)
        assert points == 0
        assert "not done after 0.3 s: does a loop in it never end, or does it try too many cases?" in words
    assert time.monotonic() - started < 8


def test_a_matrix_of_one_row_costs_all_its_bytes():
    """The clock takes a tensor's length for its size."""
    points, words = outcome(building.check_all_gather, answers_mesh.hides_bytes_in_one_row)
    assert points == 2
    assert "right values, but rank 0 sends 32 bytes; 16 are enough" in words


def test_what_a_function_prints_on_virtual_ranks_is_not_said_to_be_rank_0s():
    points, words = outcome(building.check_all_gather, answers_mesh.prints_what_it_has)
    assert points == 3
    assert "[rank" not in words


def test_messages_that_nobody_waits_for_take_time_too():
    """Two sends of a whole tensor through one port: two seconds, although all ranks were done after none."""
    def forgets_to_wait(mesh, tensor):
        if mesh.rank == 0:
            mesh.isend(tensor, 1)
            mesh.isend(tensor, 2)
        else:
            mesh.irecv(tensor, 0)

    (got,) = outcomes(forgets_to_wait, [MeshCase([[1.0, 2.0]] * 3)])
    assert (got.messages, got.tensors_moved, got.sent) == (1, 2, [32, 0, 0])


def test_inputs_are_not_shared_between_ranks_runs_and_cases():
    def adds_one(mesh, tensor):
        tensor += 1
        return tensor

    case = MeshCase([[1.0], [2.0], [3.0]])
    for got in [*outcomes(adds_one, [case, case]), on_gloo(adds_one, case)]:
        assert (got.held, got.returned) == ([[2.0], [3.0], [4.0]],) * 2
    assert case.tensors == [[1.0], [2.0], [3.0]]


@pytest.mark.parametrize(("make", "shown"), [
    (lambda n: torch.ones(n).tolist(), "[1.0, 1.0] of type list"), (lambda n: torch.ones(n).numpy(), "type ndarray"),
    (lambda n: torch.ones(n, device="meta"), "of type Tensor"), (lambda n: torch.ones(n).to_sparse(), "of type Tensor"),
    (lambda n: torch.ones(1).expand(MOST_ELEMENTS + n), "a tensor of 10,002 elements")], ids=range(5))
def test_what_is_no_plain_tensor_comes_back_as_words(make, shown):
    for got in [*outcomes(lambda mesh, tensor: make(2), [MeshCase([[0.0]])]), on_gloo(lambda mesh, tensor: make(2),
                                                                                  MeshCase([[0.0]]))]:
        assert not isinstance(got, Raised)
        assert shown in got.returned[0]


def test_what_is_not_written_yet_needs_no_line_and_no_case():
    points, words = outcome(building.check_all_gather, answers_mesh.is_not_written_yet)
    assert points == 0
    assert "WRONG  every rank has all chunks: is not written yet\n" in words


def test_the_line_that_raised_is_named():
    cell = {"__name__": "__main__"}
    code = "def chunk(chunks, at):\n    return chunks[at]\n\ndef all_gather(mesh, tensor):\n    chunk([], 7)"
    exec(compile(code, "<cell>", "exec"), cell)
    points, words = outcome(building.check_all_gather, cell["all_gather"])
    assert points == 0
    assert "2 ranks, 4 elements: raised IndexError: list index out of range (line 2, in chunk)\n" in words


def test_right_answers_that_are_made_in_a_cell_travel():
    cell = {"__name__": "__main__", "right": answers_gather.goes_round_downwards}
    exec("def helper(mesh, tensor):\n    right(mesh, tensor)\ndef all_gather(mesh, tensor):\n    helper(mesh, tensor)",
         cell)
    assert [outcome(check, cell["all_gather"])[0] for check in CHECKS["all_gather"]] == [3, 1]
