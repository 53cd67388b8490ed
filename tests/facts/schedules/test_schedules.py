"""Schedules against grids written by hand, and what papers say that each rank holds."""
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.facts.errors import BadValue
from helpers.facts.schedules import (
    BUILDERS,
    Action,
    Pair,
    dependencies,
    dualpipe,
    dualpipe_v,
    gpipe,
    grid,
    interleaved,
    most_held,
    one_f_one_b,
    to_csv,
    validate,
    zb_h1,
    zb_h2,
    zb_v,
)

BY_HAND = {             # every step takes one slot
    "GPipe, figure 2c of arXiv:1811.06965": (gpipe(4, 4), """
rank 0 | F0 F1 F2 F3  .  .  .  .  .  . B0 B1 B2 B3
rank 1 |  . F0 F1 F2 F3  .  .  .  . B0 B1 B2 B3
rank 2 |  .  . F0 F1 F2 F3  .  . B0 B1 B2 B3
rank 3 |  .  .  . F0 F1 F2 F3 B0 B1 B2 B3"""),
    "1F1B, figure 4 of arXiv:2104.04473": (one_f_one_b(4, 8), """
rank 0 | F0 F1 F2 F3  .  .  . B0 F4 B1 F5 B2 F6 B3 F7 B4  . B5  . B6  . B7
rank 1 |  . F0 F1 F2  .  . B0 F3 B1 F4 B2 F5 B3 F6 B4 F7 B5  . B6  . B7
rank 2 |  .  . F0 F1  . B0 F2 B1 F3 B2 F4 B3 F5 B4 F6 B5 F7 B6  . B7
rank 3 |  .  .  . F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5 F6 B6 F7 B7"""),
    "interleaved 1F1B, section 2.2 of arXiv:2104.04473": (interleaved(2, 4), """
rank 0 | 0F0 0F1 2F0 2F1 0F2 2B0 0F3 2B1 2F2 0B0 2F3 0B1   . 2B2   . 2B3 0B2 0B3
rank 1 |   . 1F0 1F1 3F0 3B0 3F1 3B1 1F2 1B0 1F3 1B1 3F2 3B2 3F3 3B3 1B2 1B3"""),
    "ZB-H1, section 2.3 of arXiv:2401.10241": (zb_h1(3, 4), """
rank 0 | F0 F1 F2  .  . I0 W0 F3 I1 W1 I2 W2 I3 W3
rank 1 |  . F0 F1  . I0 F2 I1 W0 F3 I2 W1 I3 W2 W3
rank 2 |  .  . F0 I0 F1 I1 F2 I2 W0 F3 I3 W1 W2 W3"""),
    "ZB-H2, section 2.3 of arXiv:2401.10241": (zb_h2(2, 4), """
rank 0 | F0 F1 F2 I0 W0 F3 I1 W1 I2 W2 I3 W3
rank 1 |  . F0 I0 F1 I1 F2 I2 W0 F3 I3 W1 W2 W3"""),
    "ZB-V, section 6 of arXiv:2401.10241": (zb_v(2, 4), """
rank 0 | 0F0 0F1 0F2 3F0 3I0 3W0 3F1 3I1 3W1 0F3 0I0 0W0 3F2 3I2 3W2 0I1 0W1 3F3 3I3 3W3 0I2 0W2 0I3 0W3
rank 1 |   . 1F0 2F0 1F1 2F1 2I0 2W0 1F2 1I0 1W0 2F2 2I1 2W1 1F3 1I1 1W1 2F3 2I2 2W2 1I2 2I3 1I3 1W2 2W3 1W3"""),
}
DUALPIPE_4_10 = """\
0F0 0F1 | 0F2 3F5 | 3I5 3W5 3F6 | 0F3&3B6 3F7&0B0 0F4&3B7 3F8&0B1 | 3B8 3F9&0B2 | 3B9 0I3 | 0W3 0I4 | 0W4
1F0 2F5 1F1 2F6 | 1F2 2B5 2F7&1B0 1F3&2B6 2F8&1B1 1F4&2B7 2F9&1B2 | 2B8 1B3 2I9 1I4 | 2W9 1W4
1F5 2F0 1F6 2F1 | 1F7 2B0 2F2&1B5 1F8&2B1 2F3&1B6 1F9&2B2 2F4&1B7 | 2B3 1B8 2I4 1I9 | 2W4 1W9
0F5 0F6 | 0F7 3F0 | 3I0 3W0 3F1 | 0F8&3B1 3F2&0B5 0F9&3B2 3F3&0B6 | 3B3 3F4&0B7 | 3B4 0I8 | 0W8 0I9 | 0W9"""


def sizes(name):
    """Random numbers of ranks and microbatches that a builder takes."""
    if name == "DualPipe":
        return st.integers(1, 3).flatmap(lambda half: st.tuples(
            st.just(2 * half), st.integers(2 * half, 2 * half + 5).map(lambda m: 2 * m)))
    if name == "DualPipeV":
        return st.integers(1, 4).flatmap(lambda p: st.tuples(st.just(p), st.integers(2 * p, 2 * p + 8)))
    return st.tuples(st.integers(1, 5), st.integers(1, 12))


BUILT = st.sampled_from(sorted(BUILDERS)).flatmap(lambda name: sizes(name).map(lambda size: BUILDERS[name](*size)))


@pytest.mark.parametrize("name", BY_HAND)
def test_a_schedule_is_the_one_drawn_by_hand(name):
    schedule, drawn = BY_HAND[name]
    assert grid(schedule) == drawn.strip()


def test_dualpipe_goes_through_the_eight_phases_of_its_readme():
    """4 ranks, 10 microbatches; the last two ranks mirror the first two."""
    def written(step):
        return step.replace("(", "").replace(";", "&").replace(")OVERLAP_F_B", "")
    played = [" ".join(map(written, line.split(","))) for line in to_csv(dualpipe(4, 10)).splitlines()]
    assert played == DUALPIPE_4_10.replace(" |", "").splitlines()


@given(BUILT)
def test_every_builder_gives_a_legal_schedule(schedule):
    validate(schedule)
    assert schedule.name in BUILDERS
    assert sorted(schedule.rank_of) == sorted(
        action for steps in schedule.steps for step in steps for action in step.parts)


@given(st.integers(1, 5), st.integers(1, 12), st.integers(1, 4))
def test_interleaving_is_legal_for_any_number_of_chunks_and_is_1f1b_with_one(p, m, v):
    validate(interleaved(p, m, v))
    assert interleaved(p, m, v).stages_of == tuple(tuple(range(rank, p * v, p)) for rank in range(p))
    if m >= p:
        assert most_held(interleaved(p, m, 1))[-1] == 1
    assert interleaved(1, m, 1).steps == one_f_one_b(1, m).steps


def test_stages_are_placed_in_turn_like_a_v_or_twice():
    assert one_f_one_b(3, 3).stages_of == ((0,), (1,), (2,))
    assert interleaved(2, 2, 3).stages_of == ((0, 2, 4), (1, 3, 5))
    assert zb_v(3, 5).stages_of == dualpipe_v(3, 6).stages_of == ((0, 5), (1, 4), (2, 3))
    assert dualpipe(4, 8).stages_of == ((0, 3), (1, 2), (1, 2), (0, 3))
    assert dualpipe(4, 8).holders == ((0, 3), (1, 2), (1, 2), (0, 3))
    assert zb_v(2, 3).holders == ((0,), (1,), (1,), (0,))


def test_half_of_the_microbatches_enter_dualpipe_at_either_end():
    schedule = dualpipe(4, 8)
    assert [schedule.rank_of[Action("F", 0, m)] for m in range(8)] == [0] * 4 + [3] * 4
    assert [schedule.rank_of[Action("F", 3, m)] for m in range(8)] == [3] * 4 + [0] * 4


@given(st.integers(1, 6), st.integers(1, 20))
def test_gpipe_holds_all_microbatches_and_1f1b_as_many_as_ranks_follow(p, m):
    assert most_held(gpipe(p, m)) == [m] * p
    assert most_held(one_f_one_b(p, m)) == [min(p - rank, m) for rank in range(p)]


@given(st.integers(1, 5), st.integers(1, 4), st.integers(1, 3))
def test_the_first_rank_of_interleaved_1f1b_holds_a_warm_up_and_one(p, v, groups):
    """Korthikanti et al. 2022, arXiv:2205.05198, section 4.2.3: p (1 + (p-1)/(p v)) stages, here in chunks."""
    assert most_held(interleaved(p, groups * p, v))[0] == min(p * v + p - 1, groups * p * v)


@given(st.integers(1, 6), st.integers(0, 12))
def test_zero_bubble_schedules_hold_on_every_rank_what_their_paper_says(p, more):
    """arXiv:2401.10241, table 2 and section 6: p, 2p - 1, and 2p halves of a stage."""
    m = 2 * p + more
    assert most_held(zb_h1(p, m)) == [p] * p
    assert most_held(zb_h2(p, m)) == [2 * p - 1] * p
    assert most_held(zb_v(p, m)) == [2 * p] * p


@given(st.integers(1, 4), st.integers(0, 6))
def test_dualpipe_holds_one_more_than_it_has_stages(half, more):
    """README of DualPipe, PP + 1."""
    stages = 2 * half
    assert set(most_held(dualpipe(stages, 2 * (stages + more)))) == {stages + 1}
    assert set(most_held(dualpipe_v(half, stages + 1 + more))) == {stages + 1}


@pytest.mark.parametrize(("action", "needed"), [
    ("0F2", []), ("1F2", ["0F2"]), ("3I2", ["3F2"]), ("2I2", ["2F2", "3I2"]), ("2W2", ["2I2"]),
])
def test_a_step_needs_what_stands_before_and_behind_it_in_the_pipeline(action, needed):
    schedule = zb_h1(4, 8)
    found = next(a for a in schedule.rank_of if str(a) == action)
    assert [str(a) for a in dependencies(found, schedule)] == needed


def test_a_backward_needs_whichever_half_or_whole_the_next_stage_computes():
    whole, both = one_f_one_b(2, 2), dualpipe(4, 8)
    assert dependencies(Action("B", 0, 1), whole) == [Action("F", 0, 1), Action("B", 1, 1)]
    assert {a.kind for action in both.rank_of if action.kind == "B" for a in dependencies(action, both)} >= {"I", "B"}


def test_a_pair_needs_what_both_its_parts_need():
    pair = Pair(Action("F", 0, 4), Action("B", 7, 1))
    assert (pair.kind, pair.stage, pair.parts) == ("F&B", 0, (Action("F", 0, 4), Action("B", 7, 1)))


@pytest.mark.parametrize(("build", "args", "says"), [
    (gpipe, (0, 4), "num_ranks is a whole number of at least 1, not 0"),
    (one_f_one_b, (4, 0), "num_microbatches is a whole number of at least 1, not 0"),
    (zb_h1, (4, 2.0), "num_microbatches is a whole number of at least 1, not 2.0"),
    (zb_h2, (True, 4), "num_ranks is a whole number of at least 1, not True"),
    (zb_v, (-1, 4), "num_ranks is a whole number of at least 1, not -1"),
    (interleaved, (2, 4, 0), "num_chunks is a whole number of at least 1, not 0"),
    (dualpipe, (3, 8), "an even number of ranks and an even number of microbatches"),
    (dualpipe, (4, 9), "at least twice as many as ranks; not 4 and 9"),
    (dualpipe, (4, 6), "at least twice as many as ranks; not 4 and 6"),
    (dualpipe_v, (3, 5), "at least twice as many microbatches as ranks, not 5 for 3"),
])
def test_sizes_that_cannot_be_meant_are_refused(build, args, says):
    with pytest.raises(BadValue, match=says):
        build(*args)
