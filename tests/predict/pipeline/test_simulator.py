"""Schedules on a clock: solved by hand, and laws that hold for any schedule and any durations."""
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.facts.bubbles import busy_s, idle_s
from helpers.facts.errors import BadValue
from helpers.facts.schedules import BUILDERS, dependencies, from_csv, gpipe, interleaved, one_f_one_b, parse
from helpers.facts.schedules.durations import duration_of
from helpers.facts.trace import duration_s
from helpers.predict.pipeline import simulate
from tests.facts.schedules.test_schedules import BUILT

TIMES = st.integers(0, 9)                                       # whole numbers are exact


@st.composite
def played(draw, smallest=0):
    """A schedule, durations that differ by kind and stage, and a transfer."""
    schedule = draw(BUILT)
    by_stage = st.lists(st.integers(smallest, 9), min_size=schedule.num_stages, max_size=schedule.num_stages)
    return schedule, {kind: draw(by_stage) for kind in "FBIW"}, draw(TIMES)


def test_two_ranks_and_two_microbatches_solved_by_hand():
    trace = simulate(one_f_one_b(2, 2), {"F": 1, "B": 2}, send_s=0.5)
    assert {span.label: (span.rank, span.start, span.end) for span in trace} == {
        "0F0": (0, 0.0, 1.0), "0F1": (0, 1.0, 2.0), "1F0": (1, 1.5, 2.5), "1B0": (1, 2.5, 4.5),
        "0B0": (0, 5.0, 7.0), "1F1": (1, 4.5, 5.5), "1B1": (1, 5.5, 7.5), "0B1": (0, 8.0, 10.0)}


def test_a_pair_waits_for_the_inputs_of_both_its_parts_and_ends_both():
    schedule = from_csv("0F0,0F1,0B0,0B1\n1F0,(1F1;1B0)OVERLAP_F_B,1B1")
    spans = {span.label: (span.start, span.end) for span in simulate(schedule, {"F": 3, "B": 1, "F&B": 3.5})}
    assert spans["(1F1;1B0)OVERLAP_F_B"] == (6.0, 9.5)          # 1F0 ends at 6, as does 0F1
    assert spans["0B0"] == (9.5, 10.5)
    assert spans["1B1"] == (9.5, 10.5)


def test_1f1b_on_4_ranks_with_8_microbatches_takes_22_slots_and_idles_in_3_of_11():
    """One stage a rank, F = B: 2 (m + p - 1)."""
    trace = simulate(one_f_one_b(4, 8), {"F": 1, "B": 1})
    assert duration_s(trace) == 22
    assert sum(idle_s(trace)) / (4 * 22) == 3 / 11


@given(played())
def test_a_rank_does_its_steps_in_order_each_as_long_as_it_takes(played):
    schedule, durations, send_s = played
    trace, duration = simulate(schedule, durations, send_s=send_s), duration_of(durations, schedule.num_stages)
    for rank, steps in enumerate(schedule.steps):
        mine = [span for span in trace if span.rank == rank]
        assert [span.label for span in mine] == list(map(str, steps))
        assert [span.kind for span in mine] == [step.kind for step in steps]
        assert [span.duration_s for span in mine] == list(map(duration, steps))
        assert all(first.end <= second.start for first, second in pairwise(mine))


@given(played())
def test_a_step_starts_the_moment_that_its_rank_and_the_last_of_its_inputs_let_it(played):
    schedule, durations, send_s = played
    ended, free = {}, [0.0] * schedule.num_ranks
    for span in simulate(schedule, durations, send_s=send_s):               # each comes after all that it needs
        step = parse(span.label)
        arrivals = [ended[a] + (send_s if schedule.rank_of[a] != span.rank else 0)
                    for part in step.parts for a in dependencies(part, schedule)]
        assert span.start == max([free[span.rank], *arrivals])
        ended |= dict.fromkeys(step.parts, span.end)
        free[span.rank] = span.end
    assert ended.keys() == schedule.rank_of.keys()


@given(played(), st.integers(1, 5))
def test_slower_messages_never_help_and_work_stays_the_same(played, more):
    schedule, durations, send_s = played
    fast, slow = (simulate(schedule, durations, send_s=s) for s in (send_s, send_s + more))
    assert duration_s(fast) <= duration_s(slow)
    assert busy_s(fast) == busy_s(slow)
    ends = {span.label: span.end for span in slow}
    assert all(span.end <= ends[span.label] for span in fast)


@given(played(), st.sampled_from("FBIW"))
def test_a_longer_step_never_helps(played, kind):
    schedule, durations, send_s = played
    longer = durations | {kind: [time + 1 for time in durations[kind]]}
    assert duration_s(simulate(schedule, durations, send_s=send_s)) <= duration_s(
        simulate(schedule, longer, send_s=send_s))


@given(played(smallest=1), st.integers(2, 7))
def test_twice_as_long_steps_and_messages_take_twice_as_long(played, factor):
    schedule, durations, send_s = played
    scaled = {kind: [factor * time for time in times] for kind, times in durations.items()}
    assert duration_s(simulate(schedule, scaled, send_s=factor * send_s)) == factor * duration_s(
        simulate(schedule, durations, send_s=send_s))


@settings(max_examples=50)
@given(st.integers(1, 5), TIMES, TIMES, st.integers(2, 9), st.data())
def test_one_slow_stage_sets_the_pace(p, f, b, factor, data):
    """All microbatches pass it one after another; what comes before the first and after the last is on top.

    In GPipe these are all other stages; in 1F1B those behind the slow one may hide while it works on.
    """
    slow, m = data.draw(st.integers(0, p - 1)), data.draw(st.integers(p, 20))
    durations = {kind: [time * (factor if s == slow else 1) for s in range(p)] for kind, time in (("F", f), ("B", b))}
    pace = m * factor * (f + b)
    assert duration_s(simulate(gpipe(p, m), durations)) == pace + (p - 1) * (f + b)
    assert pace + slow * (f + b) <= duration_s(simulate(one_f_one_b(p, m), durations)) <= pace + (p - 1) * (f + b)


@given(st.integers(1, 4), st.integers(1, 12), st.lists(st.integers(1, 9), min_size=8, max_size=8))
def test_the_busiest_rank_is_a_bound_and_for_many_microbatches_the_pace(p, m, times):
    durations = {"F": times[:p], "B": times[4:4 + p]}
    slowest = max(f + b for f, b in zip(*durations.values(), strict=True))
    bound = m * slowest
    taken = duration_s(simulate(one_f_one_b(p, m), durations))
    assert bound <= taken <= bound + p * sum(map(sum, durations.values()))
    assert duration_s(simulate(one_f_one_b(p, m + 50), durations)) <= bound + 50 * slowest + p * sum(
        map(sum, durations.values()))


@pytest.mark.parametrize(("build", "num_stages"), [(lambda: one_f_one_b(64, 1024), 64),
                                                   (lambda: interleaved(16, 256, 4), 64)])
def test_a_pipeline_of_64_stages_is_played(build, num_stages):
    schedule = build()
    trace = simulate(schedule, {"F": 1, "B": 2})
    p, v, m = schedule.num_ranks, num_stages // schedule.num_ranks, schedule.num_microbatches
    assert len(trace) == 2 * num_stages * m
    assert duration_s(trace) == 3 * (m * v + p - 1)


@pytest.mark.parametrize("name", BUILDERS)
def test_the_same_schedule_gives_the_same_trace(name):
    first, second = (simulate(BUILDERS[name](4, 8), {"F": 1, "I": 1, "W": 1}) for _ in range(2))
    assert first == second


def test_an_order_that_never_ends_is_refused_with_who_waits_for_whom():
    with pytest.raises(BadValue, match=r"it never ends\. rank 0 cannot start B0 of stage 0 before B0 of stage 1"):
        simulate(from_csv("0F0,0B0,0F1,0B1\n1F1,1F0,1B0,1B1"), {"F": 1, "B": 2})


@pytest.mark.parametrize(("durations", "send_s", "says"), [
    ({"F": 1, "B": 2}, -1, "send_s is a number of at least 0, not -1"),
    ({"F": 1}, 0, "the schedule has B actions: give their duration"),
    ({"F": [1, 2, 3], "B": 1}, 0, "one for each of the 2 stages"),
])
def test_what_cannot_be_played_is_refused(durations, send_s, says):
    with pytest.raises(BadValue, match=says):
        simulate(one_f_one_b(2, 2), durations, send_s=send_s)
