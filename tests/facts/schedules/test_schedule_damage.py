"""Schedules damaged at random: what breaks them is refused with its kind of reason, what does not is accepted."""
from graphlib import CycleError, TopologicalSorter

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from helpers.facts.schedules import IllegalSchedule, Schedule, most_held, validate
from helpers.facts.schedules.start_order import stuck
from tests.facts.schedules.test_schedules import BUILT


def with_steps(schedule, changed):
    """The schedule with other steps on some ranks; `changed` is by rank."""
    steps = tuple(tuple(changed.get(rank, steps)) for rank, steps in enumerate(schedule.steps))
    return Schedule("damaged", steps, schedule.num_stages, schedule.num_microbatches)


def needs(action):
    """Who needs whom, written down a second time: (kind, stage, microbatch) of all that may have to come before."""
    kind, s, m = action
    return {"F": {("F", s - 1, m)}, "W": {("I", s, m)}}.get(kind, {("F", s, m), ("B", s + 1, m), ("I", s + 1, m)})


def can_end(schedule):
    """By the standard library's topological sort: no circle of needs and of who stands behind whom."""
    owner = {tuple(action): step for steps in schedule.steps for step in steps for action in step.parts}
    graph = {}
    for steps in schedule.steps:
        for before, step in zip((None, *steps), steps, strict=False):
            found = {owner[n] for action in step.parts for n in needs(action) if n in owner}
            graph[step] = found | ({before} if before else set())
    try:
        list(TopologicalSorter(graph).static_order())
    except CycleError:
        return False
    return True


def some_step(data, schedule):
    rank = data.draw(st.integers(0, schedule.num_ranks - 1))
    return rank, data.draw(st.integers(0, len(schedule.steps[rank]) - 1))


def refused(schedule, says, **cap):
    with pytest.raises(IllegalSchedule, match=says):
        validate(schedule, **cap)


@given(BUILT, st.data())
def test_a_step_that_is_dropped_is_missed(schedule, data):
    rank, number = some_step(data, schedule)
    steps = list(schedule.steps[rank])
    del steps[number]
    refused(with_steps(schedule, {rank: steps}), "of microbatch .* in stage .* is missing")


@given(BUILT, st.data())
def test_a_step_that_is_doubled_is_counted(schedule, data):
    rank, number = some_step(data, schedule)
    steps = list(schedule.steps[rank])
    steps.insert(data.draw(st.integers(0, len(steps))), steps[number])
    refused(with_steps(schedule, {rank: steps}), "stands there 2 times")


@given(BUILT, st.data())
def test_a_step_on_another_rank_is_parted_from_its_forward(schedule, data):
    assume(schedule.num_ranks > 1)
    rank, number = some_step(data, schedule)
    other = data.draw(st.integers(0, schedule.num_ranks - 1).filter(lambda r: r != rank))
    here, there = list(schedule.steps[rank]), list(schedule.steps[other])
    there.insert(data.draw(st.integers(0, len(there))), here.pop(number))
    refused(with_steps(schedule, {rank: here, other: there}), "but its forward, which keeps what it needs, is on rank")


@given(BUILT, st.data())
def test_a_step_before_one_of_its_own_rank_that_it_needs_is_named(schedule, data):
    rank, number = some_step(data, schedule)
    steps = list(schedule.steps[rank])
    wanted = {n for action in steps[number].parts for n in needs(action)}
    earlier = [i for i in range(number) if wanted & set(map(tuple, steps[i].parts))]
    assume(earlier)
    i = data.draw(st.sampled_from(earlier))
    steps[i], steps[number] = steps[number], steps[i]
    refused(with_steps(schedule, {rank: steps}), "which it needs")


@given(BUILT, st.data())
def test_steps_that_change_places_are_refused_if_and_only_if_that_makes_a_circle(schedule, data):
    changed = {}
    for _ in range(data.draw(st.integers(1, 3))):
        rank, i = some_step(data, schedule)
        steps = changed.setdefault(rank, list(schedule.steps[rank]))
        j = data.draw(st.one_of(st.just(max(i - 1, 0)), st.integers(0, len(steps) - 1)))
        steps[i], steps[j] = steps[j], steps[i]
    damaged = with_steps(schedule, changed)
    if can_end(damaged):
        assert validate(damaged) is None
        assert stuck(damaged) == {}
    else:
        refused(damaged, "which it needs|it never ends")
        assert stuck(damaged)


@given(BUILT)
def test_memory_for_one_less_than_the_peak_is_too_little_and_for_the_peak_enough(schedule):
    peak = max(most_held(schedule))
    assert validate(schedule, cap=peak) is None
    refused(schedule, f"would hold {peak} microbatches at .*, and has memory for {peak - 1}", cap=peak - 1)


@given(BUILT)
def test_whoever_is_stuck_waits_for_something_that_never_comes(schedule):
    """Turn the first rank's order round: its first step is a backward, or the half of one."""
    assume(len(schedule.steps[0]) > 1)
    stops = stuck(with_steps(schedule, {0: schedule.steps[0][::-1]}))
    assert 0 in stops
    assert all(missing for _, missing in stops.values())
