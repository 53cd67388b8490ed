"""Every reason why an order is illegal, in words and on the grid."""
import re

import pytest

from helpers.facts.errors import BadValue
from helpers.facts.schedules import Action, IllegalSchedule, Schedule, from_csv, one_f_one_b, validate

REASONS = {                         # name: the order, what is said of it, and the step that is marked
    "no forward": ("0B0", "the forward of microbatch 0 in stage 0 is missing", None),
    "no forward in a stage between": ("0F0,0B0\n2F0,2B0", "the forward of microbatch 0 in stage 1 is missing", None),
    "no backward": ("0F0\n1F0,1B0", "the backward of microbatch 0 in stage 0 is missing", None),
    "no I": ("0F0,0W0", "the I of microbatch 0 in stage 0 is missing", None),
    "no W": ("0F0,0I0", "the W of microbatch 0 in stage 0 is missing", None),
    "B and I": ("0F0,0B0,0I0,0W0", "the backward of microbatch 0 in stage 0 is there twice: as B, and as I", None),
    "B and W": ("0F0,0B0,0W0", "the backward of microbatch 0 in stage 0 is there twice: as B, and as W", None),
    "doubled": ("0F0,0B0,0F0", "F0 of stage 0 stands there 2 times", ">F0<   B0   F0"),
    "doubled on two ranks": ("0F0,0B0\n0B0", "B0 of stage 0 stands there 2 times", "F0 >B0<"),
    "backward elsewhere": ("0F0\n0B0", "B0 of stage 0 is on rank 1, but its forward, which keeps what it needs, is on "
                           "rank 0", ">B0<"),
    "B before F": ("0B0,0F0", "rank 0 has B0 of stage 0 before F0 of stage 0, which it needs", "stuck: >B0< F0"),
    "W before I": ("0F0,0W0,0I0", "rank 0 has W0 of stage 0 before I0 of stage 0, which it needs", "stuck: >W0< I0"),
    "I before F": ("0I0,0F0,0W0", "rank 0 has I0 of stage 0 before F0 of stage 0, which it needs", "stuck: >I0< F0 W0"),
    "second chunk first": ("1F0,0F0,1B0,0B0", "rank 0 has F0 of stage 1 before F0 of stage 0, which it needs", ">1F0<"),
    "a pair that needs itself": ("0F0,(1F0;1B0)OVERLAP_F_B,0B0", "rank 0 has B0 of stage 1 in one pair with F0 of "
                                 "stage 1, which it needs", ">1F0&1B0<"),
    "two forwards in a pair": ("(0F0;0F1)OVERLAP_F_B,0B0,0B1", "rank 0 has F0 of stage 0 with F1 of stage 0 in one "
                               "pair: that is a forward and then a B or I", ">F0&F1<"),
    "a W in a pair": ("0F0,0I0,(0F1;0W0)OVERLAP_F_B,0B1", "rank 0 has F1 of stage 0 with W0 of stage 0 in one pair: "
                      "that is a forward and then a B or I", ">F1&W0<"),
    "a circle": ("0F0,0B0,0F1,0B1\n1F1,1F0,1B0,1B1", "it never ends. rank 0 cannot start B0 of stage 0 before B0 of "
                 "stage 1; rank 1 cannot start F1 of stage 1 before F1 of stage 0", "stuck: >B0< F1 B1"),
    "a circle through a pair": ("0F0,(0F1;0B0)OVERLAP_F_B,0B1\n1F0,1F1,1B0,1B1", "it never ends. rank 0 cannot start "
                                "F1 of stage 0 with B0 of stage 0 before B0 of stage 1; rank 1 cannot start F1 of "
                                "stage 1 before F1 of stage 0", ">F1&B0<"),
}
ODD = {
    "unknown stage": (Schedule("odd", ((Action("F", 7, 0),),), 2, 1),
                      "7F0 on rank 0: there is no stage 7, only 0 to 1"),
    "unknown microbatch": (Schedule("odd", ((Action("F", 0, 3),),), 1, 2),
                           "0F3 on rank 0: there is no microbatch 3, only 0 to 1"),
    "negative stage": (Schedule("odd", ((Action("F", -1, 0),),), 2, 1), "-1F0 on rank 0: there is no stage -1"),
    "unknown kind": (Schedule("odd", ((Action("X", 0, 0),),), 1, 1),
                     "'X' on rank 0 is no kind of action: F, B, I or W"),
    "nothing at all": (Schedule("odd", (), 1, 1), "the forward of microbatch 0 in stage 0 is missing"),
}


@pytest.mark.parametrize("name", REASONS)
def test_an_illegal_order_is_refused_with_its_reason_and_the_step_is_marked(name):
    text, says, marked = REASONS[name]
    with pytest.raises(IllegalSchedule) as error:
        validate(from_csv(text, "tried"))
    reason, *picture = str(error.value).splitlines()
    assert reason == f"tried: {says}"
    assert len(picture) == text.count("\n") + 1
    assert sum(line.count(">") for line in picture) == (marked is not None)
    assert marked is None or any(marked in line for line in picture)


@pytest.mark.parametrize("name", ODD)
def test_actions_that_the_pipeline_does_not_have_are_named(name):
    schedule, says = ODD[name]
    with pytest.raises(IllegalSchedule, match=re.escape(says)):
        validate(schedule)


@pytest.mark.parametrize(("cap", "rank", "step"), [(3, 0, "F3"), (2, 0, "F2"), (1, 0, "F1")])
def test_a_rank_that_has_no_memory_for_a_forward_is_named(cap, rank, step):
    says = (f"1F1B: rank {rank} would hold {cap + 1} microbatches at {step} of stage {rank}, and has memory for {cap}: "
            "one must be finished first")
    with pytest.raises(IllegalSchedule) as error:
        validate(one_f_one_b(4, 8), cap=cap)
    assert str(error.value).splitlines()[0] == says
    assert f">{step}<" in str(error.value)


def test_a_cap_counts_a_pairs_forward_before_its_backward_has_gone():
    order = from_csv("0F0,1F0,1B0,(0F1;0B0)OVERLAP_F_B,1F1,1B1,0B1")
    validate(order, cap=2)
    with pytest.raises(IllegalSchedule, match="would hold 2 microbatches at F0 of stage 1"):
        validate(order, cap=1)


def test_the_first_reason_is_that_without_which_the_others_make_no_sense():
    with pytest.raises(IllegalSchedule, match="is missing"):                # and B0 comes before anything it needs
        validate(from_csv("0B0,0F1,0B1"), cap=0)


def test_a_legal_order_passes_in_silence_also_with_a_rank_that_has_nothing_to_do():
    assert validate(one_f_one_b(4, 8), cap=4) is None
    assert validate(Schedule("lazy", (*one_f_one_b(1, 2).steps, ()), 1, 2)) is None


def test_a_grid_too_wide_to_read_is_left_out():
    with pytest.raises(IllegalSchedule) as error:
        validate(one_f_one_b(2, 64), cap=1)
    assert str(error.value).count("\n") == 0


def test_an_illegal_schedule_is_a_value_that_the_caller_can_mend():
    assert issubclass(IllegalSchedule, BadValue)
