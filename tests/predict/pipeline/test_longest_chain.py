"""The chain that makes a trace as long as it is: by hand, and laws that hold for any schedule."""
from itertools import pairwise

import pytest
from hypothesis import given

from helpers.facts.schedules import dependencies, dualpipe, gpipe, interleaved, one_f_one_b, parse
from helpers.facts.trace import duration_s
from helpers.predict.pipeline import critical_path, simulate
from tests.predict.pipeline.test_simulator import played


def labels(schedule, durations, send_s=0.0):
    return [span.label for span in critical_path(schedule, simulate(schedule, durations, send_s=send_s),
                                                 send_s=send_s)]


def num_transfers(chain):
    return sum(first.rank != second.rank for first, second in pairwise(chain))


def test_the_chain_of_two_ranks_by_hand():
    assert labels(one_f_one_b(2, 2), {"F": 1, "B": 2}) == ["0F0", "1F0", "1B0", "1F1", "1B1", "0B1"]


def test_a_slow_first_stage_is_on_the_chain_with_all_its_forwards():
    chain = labels(one_f_one_b(2, 3), {"F": [5, 1], "B": [5, 1]})
    assert chain == ["0F0", "0F1", "0B0", "0F2", "0B1", "0B2"]


def test_a_slow_last_stage_is_on_the_chain_with_all_its_steps():
    chain = labels(one_f_one_b(3, 3), {"F": [1, 1, 7], "B": [1, 1, 7]})
    assert chain == ["0F0", "1F0", "2F0", "2B0", "2F1", "2B1", "2F2", "2B2", "1B2", "0B2"]


def test_of_two_steps_that_let_one_start_the_chain_takes_that_of_another_rank():
    """1F1 could have been let by 1F0, and 0B1 by 0B0."""
    assert labels(gpipe(2, 2), {"F": 1, "B": 1}) == ["0F0", "0F1", "1F1", "1B0", "1B1", "0B1"]


@given(played(smallest=1))
def test_the_chain_and_its_messages_are_as_long_as_the_trace(played):
    schedule, durations, send_s = played
    trace = simulate(schedule, durations, send_s=send_s)
    chain = critical_path(schedule, trace, send_s=send_s)
    length = sum(span.duration_s for span in chain)
    assert chain[0].start == 0
    assert chain[-1].end == max(span.end for span in trace)
    assert length + send_s * num_transfers(chain) == duration_s(trace)


@given(played(smallest=1))
def test_each_step_of_the_chain_starts_when_the_one_before_lets_it_and_because_of_it(played):
    schedule, durations, send_s = played
    chain = critical_path(schedule, simulate(schedule, durations, send_s=send_s), send_s=send_s)
    for first, second in pairwise(chain):
        if first.rank == second.rank:
            assert first.end == second.start
        else:
            assert first.end + send_s == second.start
            needed = {a for part in parse(second.label).parts for a in dependencies(part, schedule)}
            assert needed & set(parse(first.label).parts)


@given(played(smallest=1))
def test_a_shorter_step_off_the_chain_gains_nothing_and_the_chain_is_a_lower_bound(played):
    """Any trace with the same steps on the chain takes at least as long."""
    schedule, durations, send_s = played
    trace = simulate(schedule, durations, send_s=send_s)
    on_chain = {(a.kind, a.stage) for span in critical_path(schedule, trace, send_s=send_s)
                for a in parse(span.label).parts}
    shorter = {kind: [time if (kind, stage) in on_chain else time - 1 for stage, time in enumerate(times)]
               for kind, times in durations.items()}
    assert duration_s(simulate(schedule, shorter, send_s=send_s)) == duration_s(trace)


@pytest.mark.parametrize(("p", "v"), [(2, 2), (4, 2), (4, 3), (8, 4)])
def test_the_chain_of_interleaved_1f1b_passes_2pv_minus_2_transfers(p, v):
    """arXiv:2401.10241, tables 5 and 8, counts p fewer."""
    schedule = interleaved(p, 4 * p, v)
    chain = critical_path(schedule, simulate(schedule, {"F": 10, "B": 20}, send_s=0.5), send_s=0.5)
    assert num_transfers(chain) == 2 * p * v - 2


def test_an_empty_trace_has_an_empty_chain():
    assert critical_path(dualpipe(2, 4), []) == []
