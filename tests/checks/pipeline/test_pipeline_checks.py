"""Set 09's checks accept every right answer, and say of a wrong one what is wrong."""
import itertools

import pytest

from helpers.checks.judge import other_process
from helpers.checks.judge.verdict import CheckFailed
from helpers.checks.pipeline import balancing, mended_order, peaks, rank_order
from helpers.facts.schedules import from_csv, gpipe, one_f_one_b, to_csv
from helpers.facts.schedules.in_flight import held
from tests.checks import cells
from tests.checks.outcome import named, outcome
from tests.checks.pipeline import pipeline_answers as answers


def points_of(checks, function):
    """Points seen and unseen, and all words."""
    (seen, words), (unseen, more) = (outcome(check, function) for check in checks)
    return seen, unseen, words + more


ORDER = rank_order.check_order, rank_order.check_order_unseen


@pytest.mark.parametrize("function", [answers.three_parts, answers.counts, answers.gives_numbers_of_numpy,
                                      answers.numbers_from_the_last, answers.plays_a_clock])
def test_a_right_order_gets_all_points(function):
    seen, unseen, words = points_of(ORDER, function)
    assert (seen, unseen) == (4, 1), words
    assert "1F1B: GPipe's time, and the memory of p - r microbatches." in words


PLAYED, FAST, HOLDS, FEW = (f"WRONG  {what}: " for what in (
    "every order can be played", "as fast as 1F1B", "at most p - r microbatches held on rank r",
    "with fewer microbatches than ranks"))
FIRST = "2 ranks, 3 microbatches: "
DONE_WITHOUT = "which this exercise asks you to do without"
BEYOND = "F of a microbatch beyond 1,000,000: numbers go from 0 to one less than there are"
ORDERS = {
    "very high": (answers.numbers_very_high, 0, 0, f"rank 0: {BEYOND}"),
    "very low": (answers.numbers_very_low, 0, 0, f"unseen cases: rank 0: {BEYOND}"),
    "GPipe": (answers.is_gpipe, 2, 0, f"{HOLDS}{FIRST}rank 0 holds 3 microbatches at F2, and 2 are enough: a B must "
              "come first. GPipe takes no longer, but holds all microbatches\nrank 0 |   F0   F1 >F2<"),
    "one too many": (answers.one_too_many, 2, 0, f"{HOLDS}{FIRST}rank 0 holds 3 microbatches at F2, and 2 are enough: "
                     "a B must come first\n"),
    "one too few": (answers.one_too_few, 2, 0, f"{FAST}{FIRST}the step takes 18 units, and 1F1B's 12: rank 0 waits "
                    "before its B0, and could do F1 meanwhile (in the grid every step takes one slot, B too)\n"
                    "rank 0 | F0  .  . B0"),
    "the same on all": (answers.has_the_same_on_all, 1, 0, f"{FAST}{FIRST}the step takes 15 units, and 1F1B's 12: rank "
                        "1 waits before its F2, and could do B1 meanwhile"),
    "ranks turned round": (answers.turns_ranks_around, 0, 0, f"{PLAYED}{FIRST}it never ends. rank 0 cannot start B0 of "
                           "stage 0 before B0 of stage 1; rank 1 cannot start F1"),
    "always in turns": (answers.always_alternates, 2, 0, f"{FEW}4 ranks, 2 microbatches: the step takes 24 units, and "
                        "1F1B's 15: rank 0 waits before its B0, and could do F1 meanwhile"),
    "twice the warm-up": (answers.has_twice_the_warmup, 3, 0, f"{HOLDS}{FIRST}rank 0 holds 3 microbatches at F2"),
    "no min": (answers.forgets_min, 3, 0, f"{FEW}4 ranks, 2 microbatches: 0F2 on rank 0: there is no microbatch 2, "
               "only"),
    "an end too early": (answers.ends_too_early, 0, 0, f"{PLAYED}{FIRST}the backward of microbatch 2 in stage 0 is "
                         "missing"),
    "no drain": (answers.forgets_to_drain, 0, 0, f"{PLAYED}{FIRST}the backward of microbatch 2 in stage 0 is missing"),
    "B before F": (answers.backward_first, 0, 0, f"{PLAYED}{FIRST}rank 1 has B0 of stage 1 before F0 of stage 1, which "
                   "it needs"),
    "half a warm-up": (answers.warms_up_half, 3, 0, f"{FAST}3 ranks, 3 microbatches: the step takes 18 units, and "
                       "1F1B's 15: rank 0 waits before its B0, and could do F2 meanwhile"),
    "GPipe if few": (answers.is_gpipe_if_few, 3, 0, f"{FEW}4 ranks, 2 microbatches: rank 3 holds 2 microbatches at F1, "
                     "and 1 is enough: a B must come first. GPipe takes no longer, but holds all microbatches"),
    "drained from the last": (answers.drains_from_the_last, 2, 0, f"{FAST}3 ranks, 3 microbatches: the step takes 17 "
                              "units, and 1F1B's 15: rank 0 waits before its B2, and could do B1 meanwhile"),
    "newest first": (answers.last_in_first_out, 2, 0, f"{FAST}{FIRST}the step takes 17 units, and 1F1B's 12: rank 0 "
                     "waits before its B1, and could do B0 meanwhile"),
    "from one": (answers.counts_from_one, 0, 0, f"{FIRST}0F3 on rank 0: there is no microbatch 3, only 0 to 2"),
    "one more": (answers.does_one_more, 0, 0, "there is no microbatch 3, only 0 to 2"),
    "one by one": (answers.does_one_after_the_other, 2, 0, "could do F1 meanwhile"),
    "in groups": (answers.waits_for_a_group, 1, 0, f"{PLAYED}4 ranks, 8 microbatches: it never ends"),
    "the last twice": (answers.doubles_the_last, 0, 0, "B2 of stage 0 stands there 2 times"),
    "stages": (answers.names_stages, 0, 0, """rank 0: a step is a pair of kind and microbatch, as in ("F", 0), not"""),
    "text": (answers.writes_text, 0, 0, "not 'F0' of type str"),
    "halves": (answers.splits, 0, 0, "rank 0: 'I' of type str is no kind of step: here they are F and B"),
    "all ranks": (answers.gives_all_ranks, 0, 0, "a step is a pair of kind and microbatch"),
    "a generator": (answers.yields_steps, 0, 0, "rank 0: a list of steps is asked for, not <generator object"),
    "None": (answers.prints, 0, 0, "rank 0: returned None: is there a return?"),
    "very many": (answers.gives_very_many, 0, 0, "rank 0: returned 20,000 steps for one rank: when does it end?"),
    "seen only": (answers.knows_what_it_has_seen, 4, 0, "unseen cases: rank 0: returned None: is there a return?"),
    "the course's": (answers.asks_the_course, 0, 0, f"uses helpers.facts.schedules, {DONE_WITHOUT}"),
    "the course's, of a cell": (answers.has(one_f_one_b), 0, 0, f"uses helpers.facts.schedules, {DONE_WITHOUT}"),
    "the course's, by a detour": (answers.finds_the_courses, 0, 0, f"uses helpers.facts.schedules, {DONE_WITHOUT}"),
    "torch's": (answers.asks_torch, 0, 0, f"uses torch.distributed.pipelining, {DONE_WITHOUT}"),
    "an error": (answers.fails, 0, 0, "rank 0: raised KeyError: 'gradient'"),
    "an exit": (answers.exits, 0, 0, "the function ended its process: rank 0 of 1 ended with exit code 3"),
    "nothing": (answers.is_not_written_yet, 0, 0, "is not written yet"),
    "no function": ([("F", 0)], 0, 0, "a function is asked for, not [('F', 0)] of type list"),
}


@pytest.mark.parametrize(("function", "seen", "unseen", "says"), named(ORDERS))
def test_a_wrong_order_is_explained(function, seen, unseen, says):
    *points, words = points_of(ORDER, function)
    assert (points, says in words) == ([seen, unseen], True), words


def table(sizes):
    """The course's orders, as a learner might keep them in another cell."""
    return {(p, m): [[(a.kind, a.microbatch) for a in steps] for steps in one_f_one_b(p, m).steps] for p, m in sizes}


SIZES = [(case.num_ranks, case.num_microbatches) for case in rank_order.ENOUGH + rank_order.FEW + rank_order.OTHERS]
BROUGHT = "a table of {} steps from outside, or what earlier calls have left there: it has to work its steps out from"
CELL = """from __future__ import annotations
def order(rank, num_ranks, num_microbatches):
    return [row for row in TABLE[num_ranks, num_microbatches]][rank]
def by_default(rank, num_ranks, num_microbatches, known=TABLE):
    return known[num_ranks, num_microbatches][rank]
def through_a_helper(rank, num_ranks, num_microbatches):
    return order(rank, num_ranks, num_microbatches)
"""


@pytest.mark.parametrize(("name", "called"), [
    ("order", "TABLE, "), ("by_default", ""), ("through_a_helper", "TABLE, ")])
def test_a_table_of_steps_is_refused(name, called):
    cell = {"__name__": "__main__", "TABLE": table(SIZES)}
    exec(CELL, cell)
    count = sum(2 * p * m for p, m in dict.fromkeys(SIZES))
    *points, words = points_of(ORDER, cell[name])
    assert points == [0, 0], words
    assert f"the function brings along {called}{BROUGHT.format(f'{count:,}')}" in words
    assert "unseen cases: the function brings along" in words


@pytest.mark.parametrize("known", [{size: to_csv(one_f_one_b(*size)) for size in SIZES},
                                   table([(4, 8)])])
def test_any_form_of_a_table_is_refused(known):
    *points, words = points_of(ORDER, answers.looks_up(known))
    assert (points, "the function brings along table, a table of" in words) == ([0, 0], True), words


def test_a_table_of_the_courses_own_steps_is_refused_with_the_package_that_it_is_made_with():
    *points, words = points_of(ORDER, answers.looks_up({(4, 8): one_f_one_b(4, 8).steps}))
    assert (points, "uses helpers.facts.schedules" in words) == ([0, 0], True), words


def test_a_few_steps_from_outside_are_no_table():
    first = table([(2, 3)])[2, 3]
    seen, unseen, words = points_of(ORDER, lambda rank, num_ranks, num_microbatches: first[rank] if (
        num_ranks, num_microbatches) == (2, 3) else answers.three_parts(rank, num_ranks, num_microbatches))
    assert (seen, unseen) == (4, 1), words


@pytest.mark.parametrize("case", rank_order.ENOUGH + rank_order.FEW + rank_order.OTHERS)
def test_the_courses_1f1b_has_all_that_is_asked_for(case):
    schedule = one_f_one_b(case.num_ranks, case.num_microbatches)
    assert rank_order._slow(case, schedule) is rank_order._full(case, schedule) is None


PEAK = peaks.check_peak, peaks.check_peak_unseen


@pytest.mark.parametrize("function", [answers.adds_up, answers.keeps_a_dict, answers.looks_at_every_beginning,
                                      answers.sums_in_numpy])
def test_a_right_peak_gets_all_points(function):
    seen, unseen, words = points_of(PEAK, function)
    assert (seen, unseen) == (3, 1), words
    assert "The fullest moment of any order." in words


ALL, HALVES, STAGES = (f"WRONG  {what}: " for what in (
    "whole backwards", "split backwards", "several stages on the rank"))
SMALL, HALF = ("0F0,0F1,0B0,0B1 with kept {0: 10}, waiting {0: 1}: ",
               "0F0,0I0,0W0,0F1,0I1,0F2,0W1,0I2,0W2 with kept {0: 10}, waiting {0: 1}: ")
PEAKS = {
    "the end": (answers.gives_the_end, 0, 0, f"{ALL}{SMALL}0 bytes, expected 20, at 0F1: that is what is left at the "
                "end"),
    "nothing back": (answers.gives_nothing_back, 0, 0, "60 bytes, expected 30, at 0F4: that is all that was ever kept: "
                     "what"),
    "all back at I": (answers.gives_all_at_i, 1, 0, f"{HALVES}{HALF}10 bytes, expected 11, at 0F2: does I give back "
                      "all? wai"),
    "all at I, more at W": (answers.gives_all_at_i_and_more_at_w, 1, 0, "10 bytes, expected 11, at 0F2: I gives back "
                            "kept - waiting: waiting[stage] stays until W, which gives back that"),
    "no W": (answers.forgets_w, 2, 0, f"{HALVES}{HALF}12 bytes, expected 11, at 0F2: W is left out: it gives back "
             "waiting"),
    "all back at W": (answers.gives_all_at_w, 1, 0, "20 bytes, expected 11, at 0F2: does I give back nothing? It gives "
                      "back"),
    "waiting back at I": (answers.gives_waiting_at_i, 1, 0, "19 bytes, expected 11, at 0F2: I gives back all BUT "
                          "waiting[st"),
    "kept back twice": (answers.gives_kept_twice, 2, 0, "10 bytes, expected 11, at 0F2: W gives back waiting[stage] "
                        "only"),
    "no I and no W": (answers.forgets_both_halves, 1, 0, "I and W are left out"),
    "B waits": (answers.lets_b_wait, 1, 0, "32 bytes, expected 30, at 0F4: B gives back all that its forward kept; "
                "nothing"),
    "B adds": (answers.adds_at_b, 1, 0, "40 bytes, expected 20, at 0F1: B gives back, and keeps nothing more"),
    "after backwards": (answers.looks_after_backwards, 0, 0, f"{SMALL}10 bytes, expected 20, at 0F1: that is after a "
                        "backward has given back; look after each forward, too"),
    "microbatches": (answers.counts_microbatches, 0, 0, f"{ALL}{SMALL}2 bytes, expected 20, at 0F1: that is in "
                     "microbatches"),
    "microbatches to I": (answers.counts_microbatches_until_i, 0, 0, f"{HALVES}{HALF}1 bytes, expected 11, at 0F2: "
                          "that is in microbatches, up to their I"),
    "one stage's bytes": (answers.takes_the_first_stages_bytes, 2, 0, "{0: 1000, 1: 10}, waiting {0: 100, 1: 1}: 4,000 "
                          "bytes, expected 2,020, at 1F2: that has the bytes of one stage for all"),
    "stages' own peaks": (answers.adds_up_peaks_of_stages, 2, 0, "2,122 bytes, expected 2,121, at 2F2: that is the "
                          "fullest moment of each stage; they are not at the same time"),
    "one stage alone": (answers.takes_the_fullest_stage, 2, 0,
                        f"{STAGES}0F0,0F1,1F0,1B0,0B0,0F2,1F1,1F2,1B1,0B1,1B2,0B2 "
                        "with kept {0: 1000, 1: 10}, waiting {0: 100, 1: 1}: 2,000 bytes, expected 2,020, at 1F2: "
                        "that is the "
                        "fullest stage alone; the rank holds all of them"),
    "stages as places": (answers.takes_stages_for_places, 2, 0, "raised IndexError: list index out of range"),
    "the first fall": (answers.stops_at_the_first_fall, 0, 0, "10 bytes, expected 30, at 0F4: that is the first time "
                       "that it stops to grow; it may be fuller later"),
    "the mean": (answers.takes_the_mean, 0, 0, f"{HALF}4.889 bytes, expected 11, at 0F2: that is a mean over steps"),
    "more kept by I": (answers.lets_i_keep_more, 1, 0, "32 bytes, expected 31, at 0F5: waiting[stage] is a part of "
                       "kept"),
    "no stages": (answers.forgets_a_stage, 2, 0, "is a microbatch counted in one stage only? Its F in another stage"),
    "a third": (answers.changes(lambda seen: max(seen) / 3), 0, 0, f"{SMALL}6.667 bytes, expected 20, at 0F1: there it "
                "holds 2 times kept[0]"),
    "5000 digits": (answers.gives_a_number_of_5000_digits, 0, 0, "asked for, not something of type int"),
    "a list": (answers.gives_a_list, 0, 0, "returned a list; a number of bytes is asked for"),
    "text": (answers.gives_text, 0, 0, "a number of bytes is asked for, not '20' of type str"),
    "None": (answers.returns_nothing, 0, 0, "returned None: is there a return?"),
    "the course's": (answers.asks_held, 0, 0, f"uses helpers.facts.schedules, {DONE_WITHOUT}"),
    "an error": (answers.fails, 0, 0, "raised KeyError: 'gradient'"),
    "an exit": (answers.exits, 0, 0, "the function ended its process"),
    "nothing": (answers.is_not_written_yet, 0, 0, "is not written yet"),
    "no function": (300, 0, 0, "a function is asked for, not 300 of type int"),
}


@pytest.mark.parametrize(("function", "seen", "unseen", "says"), named(PEAKS))
def test_a_wrong_peak_is_explained(function, seen, unseen, says):
    *points, words = points_of(PEAK, function)
    assert (points, says in words) == ([seen, unseen], True), words


def test_each_mistake_is_seen_and_its_digits_are_its_own():
    """A mistake that another one shares all answers with would be named wrongly."""
    cases = [*peaks.WHOLE, *peaks.HALVES, *peaks.SEVERAL]
    right = tuple(max(held(case.steps, case.kept, case.waiting)) for case in cases)
    found = {}
    for words, wrong in peaks.MISTAKES:
        found.setdefault(tuple(wrong(case) for case in cases), set()).add(words)
    assert right not in found
    assert [words for words in found.values() if len(words) > 1] == []


@pytest.mark.parametrize("case", [*peaks.WHOLE, *peaks.HALVES, *peaks.SEVERAL, *peaks.OTHERS])
def test_every_order_is_one_that_a_rank_could_do(case):
    """Each microbatch of each stage: F, then B, or I and then W."""
    kinds = {}
    for kind, *which in case.steps:
        kinds.setdefault(tuple(which), []).append(kind)
    assert set(map("".join, kinds.values())) <= {"FB", "FIW"}


CELLS = {cell.name: cell.code for cell in cells.solved("09_pipeline")}
SPACE: dict = {}
exec(CELLS["broken"], SPACE)
exec(CELLS["mend"], SPACE)
BROKEN, MENDED = SPACE["broken"], SPACE["mended"]
ROWS = MENDED.split()


def rows(*changes: tuple[int, str, str], text: str = MENDED) -> str:
    return cells.changed(text, *changes)


@pytest.mark.parametrize("mended", [MENDED, "\n\n".join(f"    {row}" for row in ROWS),
                                    MENDED.replace(",", ", ").replace("2F2,", "2F2,,"),
                                    rows((1, "1B1,1F3,1B0,", "1F3,1B1,1B0,"))])
def test_a_mended_schedule_gets_all_points(mended):
    points, words = outcome(mended_order.check_mended_whole_order, BROKEN, mended)
    assert (points, "Mended, with no unit wasted." in words) == (3, True), words


EARLY = "WRONG  on every rank, each step after what it needs: "
EVER = "WRONG  nobody waits for ever: mended: it never ends"
ENDS = "WRONG  at most 3 microbatches on a rank, 18 units, at most 6 steps moved: "
SWAPPED = rows((1, "1B2,1F2", "1F2,1B2"), text=BROKEN)
MENDS = {
    "as it was": (BROKEN, 0, f"{EARLY}no step has moved yet. mended: rank 1 has B2 of stage 1 before F2 of stage 1"),
    "F2 first only": (SWAPPED, 1, f"{EVER}. rank 0 cannot start B1 of stage 0 before B1 of stage 1; rank 1 cannot "
                      "start B1 of stage 1 before B1 of stage 2; rank 2 cannot start F3 of stage 2 before F3 of stage "
                      "1"),
    "B2 left": (rows((1, "1F2,1B3,1B2", "1B2,1F2,1B3")), 0, f"{EARLY}mended: rank 1 has B2 of stage 1 before F2 of "
                "stage 1"),
    "circle left": (rows((2, "2B1,2F0,2B0,2F3", "2F0,2F3,2B1,2B0")), 1, f"{EVER}. rank 0 cannot start B1"),
    "memory left": (rows((0, "0B1,0F2", "0F2,0B1")), 2, f"{ENDS}rank 0 would hold 4 microbatches at F2, and has memory "
                    "for 3: a B must come first\nrank 0 |   F1   F0   F3 >F2<"),
    "the other way out of the circle": ("\n".join([
        ROWS[0], "1F1,1F0,1F3,1B1,1B0,1F2,1B3,1B2", "2F1,2F0,2F3,2B1,2B0,2F2,2B3,2B2"]), 2,
        f"{ENDS}it takes 22 units, and 18 are enough: the longest chain of steps that wait for each other ends with"),
    "too careful": (rows((0, "0F3,0B1", "0B1,0F3")), 2, f"{ENDS}it takes 21 units, and 18 are enough"),
    "GPipe": (to_csv(gpipe(3, 4)), 2, f"{ENDS}rank 0 would hold 4 microbatches at F3"),
    "1F1B, from elsewhere": (to_csv(one_f_one_b(3, 4)), 2, f"{ENDS}11 steps are not where they were among the others, "
                             "and at most 6 may move (five are enough): mend what was given, rather than write it"),
    "one by one": ("\n".join(",".join(f"{s}{k}{m}" for m in range(4) for k in "FB") for s in range(3)), 2,
                   f"{ENDS}it takes 36 units, and 18 are enough"),
    "memory and circle": (rows((2, "2B1,2F0,2B0,2F3", "2F0,2F3,2B1,2B0"), (0, "0B1,0F2", "0F2,0B1")), 1,
                          f"{ENDS}rank 0 would hold 4 microbatches at F2"),
    "a step lost": (rows((2, ",2B2", "")), 0, "rank 2 has lost 2B2"),
    "a step twice": (rows((2, "2B2", "2B2,2B2")), 0, "rank 2 has 2B2 2 times"),
    "a step elsewhere": (rows((2, ",2B2", ""), (1, "1B2", "1B2,2B2")), 0, "rank 1 has 2B2, which was not there: steps "
                         "move"),
    "halves": (rows((2, "2B2", "2I3,2W3")), 0, "rank 2 has 2I3, which was not there"),
    "five microbatches": (to_csv(one_f_one_b(3, 5)), 0, "rank 0 has 0F4, which was not there"),
    "lines swapped": ("\n".join(ROWS[::-1]), 0, "rank 0 has 2F1, which was not there"),
    "no stages": (MENDED.replace("0F1", "F1"), 0, "line 1, cell 1: 'F1' is no action: write stage, kind"),
    "two lines": ("\n".join(ROWS[:2]), 0, "2 lines, and there are 3 ranks"),
    "very long": ("0F1," * 5000, 0, "a text is asked for"),
    "a schedule": (from_csv(MENDED.strip()), 0, "a text is asked for, with a line for each rank and commas between "
                   "steps"),
    "lists": ([["0F1"]], 0, "a text is asked for, with a line for each rank and commas between steps, not [['0F1']]"),
    "None": (None, 0, "nothing here yet"),
}


@pytest.mark.parametrize(("mended", "points", "says"), named(MENDS))
def test_a_fault_that_remains_is_named(mended, points, says):
    got, words = outcome(mended_order.check_mended_whole_order, BROKEN, mended)
    assert (got, says in words) == (points, True), words


def test_five_moves_are_enough():
    orders = [mended_order._read(text).steps for text in (BROKEN, MENDED)]
    assert sum(map(mended_order._num_moved, *orders)) == 5


@pytest.mark.parametrize("broken", [MENDED, None, "", SWAPPED])
def test_another_broken_schedule_is_refused(broken):
    with pytest.raises(CheckFailed, match="broken is not what it was: leave it as it was given"):
        mended_order.check_mended_whole_order(broken, MENDED)


BALANCE = balancing.check_balance, balancing.check_balance_unseen


@pytest.mark.parametrize("function", [answers.deals, answers.tries_limits, answers.moves_blocks])
def test_a_right_balance_gets_all_points(function):
    seen, unseen, words = points_of(BALANCE, function)
    assert (seen, unseen) == (3, 1), words
    assert "No stage is slower than it must be." in words


def test_three_right_balances_differ():
    model = balancing.BalanceCase(6, 3, 1.0, 0.0, 9.0)
    functions = answers.deals, answers.tries_limits, answers.moves_blocks
    assert len({tuple(map(int, function(6, 3, 1.0, 0.0, 9.0))) for function in functions}) > 1
    assert balancing._least(model) == 9


BLOCKS, OUTPUT, BOTH = (f"WRONG  {what}: " for what in (
    "blocks of each stage, all of them", "the slowest stage, with an output layer",
    "the slowest stage, with an embedding, too"))
SEVEN = "balance(7, 3, block_s=1, embedding_s=0, output_s=2)"
NINE = "balance(9, 3, block_s=1, embedding_s=2, output_s=4)"
TENTHS = "balance(6, 4, block_s=0.1, embedding_s=0.3, output_s=0.05)"
BALANCES = {
    "equal": (answers.makes_equal, 1, 0, f"{OUTPUT}{SEVEN}: with [2, 2, 3] stages take 2, 2, 5; stage 2 is the "
              "slowest, with 5, expected 3: equal numbers of blocks; stages should take equal time"),
    "no embedding": (answers.forgets_the_embedding, 2, 0, f"{BOTH}{NINE}: with [4, 4, 1] stages take 6, 4, 5; stage 0 "
                     "is the slowest, with 6, expected 5: that would be best without the embedding"),
    "no output layer": (answers.forgets_the_output, 1, 0, f"{BOTH}{NINE}: with [1, 4, 4] stages take 3, 4, 8; stage 2 "
                        "is the slowest, with 8, expected 5: that would be best without the output layer"),
    "output layer first": (answers.swaps, 1, 0, f"{SEVEN}: with [1, 3, 3] stages take 1, 3, 5; stage 2 is the slowest, "
                           "with 5, expected 3: that would be best if the output layer were on the first stage and the "
                           "embedding on"),
    "both first": (answers.has_both_first, 1, 0, "that would be best if both were on the first stage"),
    "a block each": (answers.takes_one_block_each, 1, 0, "best if embedding and output layer took as long as a block "
                     "each"),
    "too little help": (answers.helps_the_last_too_little, 1, 0, f"{OUTPUT}{SEVEN}: with [2, 3, 2] stages take 2, 3, "
                        "4; stage 2 is the slowest, with 4, expected 3: that would be best if the output layer took as "
                        "long as a block"),
    "times as blocks": (answers.takes_times_for_blocks, 1, 0, "that would be best if times were in blocks: how long "
                        "does one"),
    "one for seven": (answers.answers_seven(1, 3, 3), 2, 0, f"{OUTPUT}{SEVEN}: with [1, 3, 3] stages take 1, 3, 5; "
                      "stage 2 is the slowest, with 5, expected 3: that would be best without the output layer"),
    "all of seven": (answers.answers_seven(7, 0, 0), 2, 0, f"{OUTPUT}{SEVEN}: with [7, 0, 0] stages take 7, 0, 2; "
                     "stage 0 is the slowest, with 7, expected 3: stage 1 has room for one of its blocks"),
    "rounded shares": (answers.rounds_each_share, 2, 0, f"{BOTH}balance(2, 5, block_s=1, embedding_s=0.25, "
                       "output_s=0.125): with [0, 0, 0, 0, 2]"),
    "5000 digits": (answers.gives_5000_digits, 0, 0, f"{SEVEN}: something of type int is no number of blocks"),
    "only 5000 digits": (answers.gives_only_5000_digits, 0, 0, "unseen cases: balance(5, 1, block_s=1, "
                         "embedding_s=0.5, output_s=2): something of type int is no number of blocks"),
    "the sum": (answers.optimises_the_sum, 1, 0, f"{SEVEN}: with [7, 0, 0] stages take 7, 0, 2; stage 0 is the "
                "slowest, with 7, expected 3: the sum is the same however blocks are dealt; it is the slowest stage "
                "that counts"),
    "a block at least": (answers.needs_a_block_each, 2, 0, "with [1, 2, 1] stages take 4.5, 4, 7; stage 2 is the "
                         "slowest, with 7, expected 6: stage 2 may have no block"),
    "cut to blocks": (answers.cuts_to_blocks, 1, 0, f"{OUTPUT}balance(16, 4, block_s=2, embedding_s=0, output_s=7): "
                      "with [4, 5, 5, 2] stages take 8, 10, 10, 11; stage 3 is the slowest, with 11, expected 10: "
                      "embedding and output layer take no whole number of blocks, and need not be rounded to one"),
    "rounded up": (answers.rounds_up_to_blocks, 2, 0, f"{BOTH}balance(6, 3, block_s=2, embedding_s=2.5, output_s=5): "
                   "with"),
    "rounded": (answers.rounds, 1, 0, f"{BLOCKS}{TENTHS}: -1 of type int is no number of blocks: whole numbers from "
                "0 to 6"),
    "the rest to the last": (answers.gives_the_last_the_rest, 1, 0, f"{BOTH}judged once all blocks are dealt"),
    "parts of blocks": (answers.gives_floats, 0, 0, f"{BLOCKS}{SEVEN}: 3.0 of type float is no number of blocks: whole "
                        "numbers"),
    "whole floats": (answers.gives_whole_floats, 0, 0, "3.0 of type float is no number of blocks"),
    "less than none": (answers.gives_negative, 0, 0, f"{BLOCKS}{SEVEN}: -4 of type int is no number of blocks: whole "
                       "numbers from"),
    "a time": (answers.gives_times, 0, 0, f"{SEVEN} returned 3.0 of type float; a list with the number of blocks of "
               "each"),
    "a stage too few": (answers.gives_one_stage_too_few, 0, 0, f"{SEVEN}: a number for each of 3 stages is asked for, "
                        "not 2"),
    "a block too few": (answers.loses_a_block, 0, 0, f"{BLOCKS}{SEVEN}: [2, 3, 1] are 6 blocks, and there are 7"),
    "lists": (answers.gives_lists_of_blocks, 0, 0, f"{SEVEN}: [0, 1, 2] of type list is no number of blocks"),
    "several stages only": (answers.fails_with_one_stage, 3, 0, "unseen cases: balance(5, 1, block_s=1, "
                            "embedding_s=0.5, output_s=2) raised AssertionError"),
    "None": (lambda **_: None, 0, 0, "returned None: is there a return?"),
    "an error": (answers.fails, 0, 0, "raised KeyError: 'gradient'"),
    "an exit": (answers.exits, 0, 0, "the function ended its process"),
    "nothing": (answers.is_not_written_yet, 0, 0, "is not written yet"),
    "no function": ([3, 3, 1], 0, 0, "a function is asked for, not [3, 3, 1] of type list"),
}


@pytest.mark.parametrize(("function", "seen", "unseen", "says"), named(BALANCES))
def test_a_wrong_balance_is_explained(function, seen, unseen, says):
    *points, words = points_of(BALANCE, function)
    assert (points, says in words) == ([seen, unseen], True), words


@pytest.mark.parametrize(("model", "answer", "is_named"), [
    (balancing.BalanceCase(4, 3, 2.0, 2.5, 5.0), [2, 2, 0], False), (balancing.OUTPUT[0], [1, 3, 3], False),
    (balancing.OUTPUT[0], [3, 2, 2], True), (balancing.OUTPUT[0], [7, 0, 0], False)])
def test_equal_numbers_are_those_that_differ_by_one_at_most(model, answer, is_named):
    words = balancing._slow(model, {model: answer}) or ""
    assert ("equal numbers" in words, "the sum is the same" in words) == (is_named, False), words


@pytest.mark.parametrize("model", [model for model in (*balancing.OUTPUT, *balancing.BOTH, *balancing.OTHERS)
                                   if model.num_stages < 5 and model.num_blocks < 20])
def test_the_oracle_agrees_with_trying_everything(model):
    ways = (blocks for blocks in itertools.product(range(model.num_blocks + 1), repeat=model.num_stages)
            if sum(blocks) == model.num_blocks)
    assert balancing._least(model) == pytest.approx(min(max(model.times(blocks)) for blocks in ways))


@pytest.mark.parametrize("check", [rank_order.check_order, peaks.check_peak, balancing.check_balance])
def test_an_answer_that_never_ends_is_ended(monkeypatch, check):
    monkeypatch.setattr(other_process, "DEADLINE_S", 0.5)
    words = outcome(check, answers.never_ends)[1]
    assert "the function was not done after 0.5 s: does a loop in it never end, or does it try too many cases?" in words
