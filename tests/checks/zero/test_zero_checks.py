"""The checks of set 05 accept every right answer, and say of a wrong one what is wrong."""
import functools
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
import torch
from torch import nn

from helpers.checks.judge import live_peak, real_ranks
from helpers.checks.zero import gradient_shards, sharded_adam, step_numbers
from helpers.run.launch import launch
from helpers.run.measure.meters import wire
from helpers.run.measure.state import bytes_by_term
from helpers.run.models import perceptron
from helpers.run.zero import Zero2
from tests.checks import answers_odd
from tests.checks.answers import Generous, TrueForEverything
from tests.checks.outcome import outcome
from tests.checks.zero import zero_answers as zero

CHECKS = {"adam": (sharded_adam.check_optimizer, sharded_adam.check_optimizer_unseen),      # 4 points, and 1
          "hook": (gradient_shards.check_hook, gradient_shards.check_hook_unseen)}
PRAISE = {"adam": "Stage 1, and nobody pays for it.", "hook": "Gone before the next bucket comes."}
RIGHT = {"adam": [zero.PadsAndGathersWithGloo, zero.WritesAdamByHand, zero.UpdatesPiecesOfTheParameters,
                  zero.IsAnOptimizerItself, lambda parameters, lr: zero.WritesAdamByHand(parameters, lr)],
         "hook": [zero.counts_what_is_missing, zero.watches_the_last_of_a_bucket, zero.waits_at_the_end_of_its_hook,
                  zero.has_a_dict_of_its_own, functools.partial(zero.waits_at_the_end_of_its_hook)]}
ALSO_UNSEEN = (zero.PadsAndGathersWithGloo, zero.UpdatesPiecesOfTheParameters, zero.counts_what_is_missing,
               zero.has_a_dict_of_its_own)                          # the others, too, but they take their time
ADAM = "WRONG  parameters as Adam makes them: "
ELEMENT = f"{ADAM}of 23 elements on 4 ranks, element "
STILL = "it has not moved. Is it in a shard, and each shard handed round, and changed in place, by Adam?"
KEEPS = "WRONG  a rank keeps a shard: of 100,003 elements on 4 ranks, rank "
WHOLE = "3 shards are 75,003. Is a view of something whole kept, or whole moments?"
SENDS = "WRONG  a step sends what DDP sends: a rank sends "
AS_MUCH = "expected 600,018 and some headers: as much as with an all_reduce of gradients, which gloo's"
ENDED = "ranks 0, 1, 2 and 3 of 4 ended with exit code 0 before the program returned"
ALONE = "on real ranks: rank 0 of 4 waited for a rank that had already returned"
HOOK = "WRONG  shards of the mean: "
OF_4 = ", expected 1111 (parameter 3 of rank r has 4 times 10**r)"
LEFT = f"{HOOK}after backward, parameter 0 on rank 0 has a gradient: set it to None"
ORDER = "shards[1] of rank 0, in backward 1: 555.5, expected 833.25 (parameter 2 of rank r has 3 times 10**r)\n"
GONE = f"{HOOK}shards[0] on rank 0 is not there, "
FLAT = "A flat tensor of 3 elements is asked for"
ALIVE = "WRONG  one bucket alive at a time: on rank "
KEPT = "Is a view of a bucket kept, or are buckets?"
BYTES = "WRONG  a reduce_scatter's bytes: a rank sends "
TWICE = "expected 363,600 and some headers: as much as an all_reduce, which gloo's reduce_scatter is, too"
FROM_WHERE = "no rank sends more than 0 bytes, and"
# The answer, its points, those of the unseen cases (None: they are not run, to save time), and what a learner reads: of
# the cases that he sees, or if these are right, of the unseen ones.
WRONG = {
    "adam": [
        (zero.SumsOnly, 0, 0, f"{ELEMENT}0 on rank 0 is 0.487177 after 3 steps, expected 0.529666: that is the sum of"),
        (zero.DividesTwice, 0, None, "that is divided twice"),
        (zero.TakesItsOwnGradient, 0, None, "that is its own gradient, not the mean"),
        (zero.TakesFourRanksForGranted, 4, 0, "unseen cases: of 14 elements on 3 ranks, element 0 on rank 0 is 0.536"),
        (zero.ReplacesTheData, 0, None, f"{ELEMENT}0 on rank 0 is 0.661352 after 3 steps, expected 0.529666: {STILL}"),
        (zero.UpdatesItsShardOnly, 0, None, f"{ELEMENT}6 on rank 0 is -1.52277 after 3 steps, exp"),
        (zero.ForgetsTheTail, 0, None, f"{ELEMENT}20 on rank 0 is 3.58699 after 3 steps, expected 3.67847: {STILL}"),
        (zero.ForgetsItsMoments, 0, None, "Adam has forgotten its moments between steps"),
        (zero.IgnoresTheRate, 0, None, "that is Adam's own rate, not lr"),
        (zero.TakesAnotherOptimizer, 0, None, f"{STILL}\n"),
        (zero.LooksIntoTheCheck, 0, None, f"{ADAM}{FROM_WHERE} 414 are needed: where are the others' numbers from?"),
        (zero.StepsOnRank0Only, 0, None, f"{ADAM}{ALONE}"),
        (zero.EmptiesTheList, 0, None, "raised ValueError: torch.cat(): expected a non-empty list of Tensors\n  File"),
        (zero.HasNoStep, 0, None, "raised AttributeError: 'HasNoStep' object has no attribute 'step'\nWRONG"),
        (zero.ReducesAll, 3, None, AS_MUCH), (zero.ReducesWithGloo, 3, None, AS_MUCH),
        (zero.SendsTwice, 3, None, SENDS), (zero.GathersAllGradients, 3, None, "600,018 and some headers\n3 of 4"),
        (zero.KeepsAView, 2, None, f"{KEEPS}0 keeps 150,006 elements between steps, and {WHOLE}"),
        (zero.KeepsABuffer, 2, None, f"{KEEPS}0 keeps 175,007 elements between steps, and {WHOLE}"),
        (zero.HasAllMoments, 2, None, f"{KEEPS}0 keeps 200,008 elements between steps, and {WHOLE}"),
        (zero.KeepsTheGradientOfItsShard, 2, None, "3 shards are 75,003. Is the gradient of the shard kept, too?"),
        (zero.FailsWithFewerElementsThanRanks, 4, 0, "unseen cases: on real ranks: rank 2 of 3 raised AssertionError"),
        (zero.NeedsMatrices, 4, 0, "unseen cases: on real ranks: ranks 0, 1 and 2 of 3 raised AssertionError"),
        (zero.divides_by_zero, 0, None, 'ZeroDivisionError: division by zero\n  File "ddp_answers.py", line '),
        (zero.exits_the_process, 0, None, ENDED),
        (zero.is_not_written_yet, 0, 0, f"{ADAM}is not written yet\n"),
        (zero.uses_the_courses_zero, 0, None, "uses helpers.run.zero, which this exercise asks you to do without"),
        (None, 0, 0, "a function is asked for, not None of type NoneType"),
    ],
    "hook": [
        (zero.sums_only, 0, 0, f"{HOOK}shards[0] of rank 0, in backward 1: 4444{OF_4}: that is the sum"),
        (zero.divides_twice, 0, None, f"shards[0] of rank 0, in backward 1: 277.75{OF_4}: that is divided twice"),
        (zero.takes_its_own_gradient, 0, None, f"in backward 1: 4{OF_4}: that is its own gradient"),
        (zero.takes_four_ranks_for_granted, 4, 0, "shards[0] of rank 0, in backward 1: 111, expected 148"),
        (zero.looks_into_the_check, 0, None, f"{HOOK}{FROM_WHERE} 168 are needed: where are the others' numbers from?"),
        (zero.forgets_to_free, 0, None, LEFT), (zero.fills_with_zeros, 0, None, LEFT),
        (zero.replaces_the_first, 3, None, "WRONG  a second backward adds: shards[0] of rank 0, in backward 2: 1111, "
                                           "expected 2222 (parameter 3 of rank r has 4 times 10**r): the second back"),
        (zero.forgets_to_wait_again, 0, None, "AttributeError: 'NoneType' object has no attribute 'detach'\n  File"),
        (zero.reduces_a_bucket_for_each_parameter, 3, None, f"{BYTES}732,384 bytes in a backward, {TWICE}"),
        (zero.keeps_a_view, 3, None, KEPT), (zero.keeps_all_buckets, 3, None, KEPT),
        (zero.makes_room_for_all, 3, None, KEPT),
        (zero.waits_for_the_end, 3, None, f"{ALIVE}0, gradients of buckets 0 and 1 and 2 were alive at the same time"),
        (zero.puts_the_first_parameter_first, 0, None, ORDER),
        (zero.cuts_each_parameter, 0, None, ORDER),
        (zero.forgets_the_tail, 0, None, f"{HOOK}shards[1] on rank 0 has 3 of 4 elements"),
        (zero.reduces_all, 3, 0, f"{BYTES}737,568 bytes in a backward, {TWICE}"),
        (zero.sends_twice, 3, None, f"{BYTES}732,384 bytes in a backward, {TWICE}"),
        (zero.returns_nothing, 0, None, f"{GONE}since no dict was returned, but None of type"),
        (zero.returns_a_list, 0, None, f"{GONE}since no dict was returned, but [] of type list. {FLAT}"),
        (zero.returns_a_copy, 0, None, f"{GONE}only [] of type list (is it the dict that the hooks fill, by"),
        (zero.has_names_for_keys, 0, None, f"{GONE}only ['bucket 0', 'bucket 1', 'bucket 2'] of"),
        (zero.gives_lists, 0, None, f"is no tensor, but a list. {FLAT}"),
        (zero.gives_rows, 0, None, f"is a tensor of shape [1, 3]. {FLAT}"),
        (zero.reduces_on_rank_0_only, 0, None, ALONE),
        (zero.divides_by_zero, 0, None, 'ZeroDivisionError: division by zero\n  File "ddp_answers.py", line '),
        (zero.exits_the_process, 0, None, ENDED),
        (zero.is_not_written_yet, 0, 0, f"{HOOK}is not written yet\n"),
        (zero.uses_the_courses_flat, 0, None, "uses helpers.run.zero, which this exercise asks you to do without"),
        (..., 0, 0, "a function is asked for, not Ellipsis of type ellipsis"),
    ],
}


@pytest.mark.parametrize(("name", "answer"), [(name, answer) for name, some in RIGHT.items() for answer in some])
def test_a_right_answer_gets_all_points(name, answer):
    got, words = outcome(CHECKS[name][0], answer)
    assert (got, PRAISE[name] in words, "WRONG" in words) == (4, True, False), words
    if answer in ALSO_UNSEEN:
        assert outcome(CHECKS[name][1], answer)[0] == 1


@pytest.mark.parametrize(("name", "answer", "points", "points_unseen", "says"),
                         [(name, *case) for name, cases in WRONG.items() for case in cases])
def test_a_wrong_answer_is_told_what_is_wrong(name, answer, points, points_unseen, says):
    seen, unseen = CHECKS[name]
    got, words = outcome(seen, answer)
    got_unseen, words_unseen = (None, "") if points_unseen is None else outcome(unseen, answer)
    assert (got, got_unseen) == (points, points_unseen)
    assert says in (words if points < 4 else words_unseen)


@pytest.mark.parametrize(("name", "file"), [("adam", "sharded_adam.py"), ("hook", "gradient_shards.py")])
def test_no_line_of_a_check_is_shown(name, file):
    points, words = outcome(CHECKS[name][0], zero.takes_no_arguments)
    assert points == 0
    assert "raised TypeError: takes_no_arguments() takes 0 positional arguments but " in words
    assert file not in words


@pytest.mark.parametrize("name", CHECKS)
def test_an_answer_that_never_ends_is_shown_where_it_is_after_one_deadline(monkeypatch, name):
    runs, launch = [], real_ranks.launch
    monkeypatch.setattr(real_ranks, "DEADLINE_S", 1.0)
    monkeypatch.setattr(real_ranks, "launch", lambda *case, **options: runs.append(1) or launch(*case, **options))
    points, words = outcome(CHECKS[name][0], zero.never_ends)
    assert points == 0
    assert "on real ranks: not done after 1 s\n" in words
    assert "in never_ends: " in words
    assert len(runs) == 1


def test_the_kernels_own_settings_change_nothing():
    """A notebook may have changed the default dtype, or switched gradients off."""
    with torch.no_grad():
        torch.set_default_dtype(torch.float64)
        try:
            points, words = outcome(sharded_adam.check_optimizer, zero.WritesAdamByHand)
        finally:
            torch.set_default_dtype(torch.float32)
    assert points == 4, words


def test_what_gloo_lets_go_of_late_is_not_held_against_a_learner(monkeypatch):
    """Its threads hold the tensors of a message for a moment after the call."""
    monkeypatch.setattr(live_peak, "PAUSE_S", 0)
    monkeypatch.setattr(live_peak.gc, "collect", lambda: None)
    late = iter([10, 10, 10, 3])
    assert live_peak.settled(lambda: next(late), 5) == 3
    assert live_peak.settled(lambda: 10, 5) == 10


# 3. predict, then measure ---------------------------------------------------------------------------------------------
WIDTHS = 64, 8192, 64, 8192, 32
NUM_PARAMETERS = sum(parameter.numel() for parameter in perceptron(*WIDTHS).parameters())
STATE, SENT = 7 * NUM_PARAMETERS, 6 * NUM_PARAMETERS            # 4P + 3 (4P/4), and 2 (4P) 3/4


def measure(rank, world_size, num_steps=1, with_construction=False, before_the_step=False, with_counter=False):
    with wire() as all_sent:
        zero2 = Zero2(perceptron(*WIDTHS), torch.optim.Adam)
        with wire() as sent:
            for _ in range(num_steps):
                zero2(torch.ones(4, WIDTHS[0])).sum().backward()
                early = bytes_by_term(zero2.held())
                zero2.step()
    sizes = early if before_the_step else bytes_by_term(zero2.held())
    return (sum(sizes.values()) - (0 if with_counter else sizes.get("counter", 0)),
            all_sent.sent if with_construction else sent.sent)


@pytest.fixture(scope="module")
def measured():
    """As a learner measures."""
    return launch(measure, 4).results


ASKED = "a number is asked for, not "
WRONG_STATE = [
    (16 * NUM_PARAMETERS, "29,623,808 is stage 0: nothing is sharded"), (0, "0 is too little"),
    (10 * NUM_PARAMETERS, "18,514,880 is stage 1: under stage 2 gradients are sharded, too"),
    (4 * NUM_PARAMETERS, "7,405,952 is stage 3: under stage 2 parameters are whole"),
    (5.5 * NUM_PARAMETERS, "10,183,184 is mixed precision; here all is fp32"),
    (8 * NUM_PARAMETERS, "14,811,904 has a master copy; in fp32 there is none"),
    (STATE / 4, "3,240,104 is in elements; bytes are asked for"), (STATE / 1e6, "12.96 is too little"),
    (4 * STATE, "51,841,664 is too much"), ("13 MB", f"{ASKED}'13 MB' of type str"), (True, f"{ASKED}True"),
    ([STATE] * 4, f"{ASKED}[12960416"), (float("nan"), f"{ASKED}nan"), (Generous(STATE), "of type Generous"),
    (TrueForEverything(), "of type TrueForEverything"), (None, "nothing here yet"), (..., "nothing here yet")]
WRONG_SENT = [
    (8 * NUM_PARAMETERS, "14,811,904 is without (N-1)/N: a rank keeps its own part"),
    (3 * NUM_PARAMETERS, "5,554,464 is one half: of gradients and parameters, only one, or bf16 where all is fp32"),
    (9 * NUM_PARAMETERS, "16,663,392 is stage 3's"), (SENT / 4, "2,777,232 is in elements; bytes are asked for"),
    (SENT / 2**20, "10.59 is too little"), (-SENT, "is too little"), (Generous(SENT), "of type Generous"),
    (10**5000, f"{ASKED}something of type int"), (None, "nothing here yet")]
LIST = "a list with a pair for each of 4 ranks is asked for, not "
PAIR = ", expected (bytes of state, bytes sent)"
WENT = 1.001 * SENT
WRONG_MEASURED = {
    "gives_one_rank": ([(STATE, WENT)], LIST), "gives_a_pair": ((STATE, WENT), LIST),
    "gives_an_array": (np.array([(STATE, WENT)] * 4), f"{LIST}array("), "forgets_to_list": (iter([]), LIST),
    "gives_numbers": ([STATE] * 4, f"rank 0 has 12960416 of type int{PAIR}"),
    "gives_triples": ([(STATE, WENT, 0)] * 4, PAIR), "gives_texts": ([("13 MB", "11 MB")] * 4, PAIR),
    "gives_nothing": ([None] * 4, f"rank 0 has None of type NoneType{PAIR}"),
    "gives_truths": ([(True, True)] * 4, PAIR), "gives_nan": ([(STATE, float("nan"))] * 4, PAIR),
    "equals_all": ([(Generous(STATE), Generous(WENT))] * 4, PAIR), "gives_400_digits": ([(10**400, WENT)] * 4, PAIR),
    "gives_the_formula": ([(STATE, SENT)] * 4, "rank 0 sends 11,108,928 bytes: exactly the formula, without a header."),
    "turns_pairs_around": ([(WENT, STATE)] * 4, "bytes of state, which is not what Zero2 holds after a step"),
    "has_one_rank_right": ([(STATE, WENT)] + [(STATE, 0)] * 3, "rank 1 sends 0 bytes, which is not what one step of "
                                                               "Zero2 sends\n")}


@pytest.mark.parametrize("kind", [float, int, Fraction, Decimal, np.float64, np.int64, torch.tensor])
def test_right_numbers_of_any_kind_get_all_points(measured, kind):
    pairs = tuple([kind(state), kind(sent)] for state, sent in measured)
    points, words = outcome(step_numbers.check_zero_step, kind(STATE), kind(SENT), pairs)
    assert (points, "Foretold, and so it was." in words) == (3, True), words


def short(value):
    return f"{value:.40}" if isinstance(value, str) else type(value).__name__


@pytest.mark.parametrize(("place", "value", "says"), [
    *((0, *case) for case in WRONG_STATE), *((1, *case) for case in WRONG_SENT)], ids=short)
def test_a_wrong_prediction_is_explained_and_costs_one_point(measured, place, value, says):
    answer = [STATE, SENT, measured]
    points, words = outcome(step_numbers.check_zero_step, *answer[:place], value, *answer[place + 1:])
    assert (points, says in words, words.count("WRONG")) == (2, True, 1), words


@pytest.mark.parametrize(("value", "says"), WRONG_MEASURED.values(), ids=WRONG_MEASURED)
def test_what_was_not_measured_is_explained_and_costs_one_point(value, says):
    points, words = outcome(step_numbers.check_zero_step, STATE, SENT, value)
    assert (points, says in words, words.count("WRONG")) == (2, True, 1), words


@pytest.mark.parametrize(("settings", "says"), [
    ({"num_steps": 2}, "which is not what one step of Zero2 sends: that is 2 steps\n"),
    ({"with_construction": True}, "one step of Zero2 sends. Is what was sent at construction in it?\n"),
    ({"with_counter": True}, ": leave out the counters\n"),
    ({"before_the_step": True}, "bytes of state, which is not what Zero2 holds after a step\n")])
def test_what_was_measured_otherwise_is_named(settings, says):
    points, words = outcome(step_numbers.check_zero_step, STATE, SENT, launch(measure, 4, **settings).results)
    assert (points, says in words) == (2, True), words


@pytest.mark.parametrize("value", [pytest.param(value, id=name) for name, value in answers_odd.VALUES.items()])
def test_an_odd_value_is_no_number(value):
    for odd in (value, [value] * 4, [(value, value)] * 4):
        assert outcome(step_numbers.check_zero_step, value, value, odd)[0] == 0


def test_nothing_at_all_gets_nothing():
    for nothing in (None, ...):
        assert outcome(step_numbers.check_zero_step, nothing, nothing, nothing) == (0, "nothing here yet")
        for jobs in (nothing, dict.fromkeys("ABCDEF", nothing), {}):
            assert outcome(step_numbers.check_jobs, jobs) == (0, "nothing here yet")


# 4. which is which? ---------------------------------------------------------------------------------------------------
JOBS = {"A": "stage 1", "B": "stage 3", "C": "DDP", "D": "stage 1, gradients all_reduced", "E": "stage 2",
        "F": "stage 3, kept for backward"}
P = 1e9                                                             # of the exercise, whose table this is
STATES = {"DDP": 16, "stage 1": 4 + 12 / 8, "stage 2": 2 + 14 / 8, "stage 3": 16 / 8}
TABLE = {"A": (5.5, 3.5), "B": (2, 5.25), "C": (16, 3.5), "D": (5.5, 5.25), "E": (3.75, 3.5), "F": (2, 3.5)}
MESSAGES = {"DDP": 2, "stage 1": 2, "stage 1, gradients all_reduced": 3, "stage 2": 2, "stage 3": 3,
            "stage 3, kept for backward": 2}                        # of 2P bytes, times 7/8


STATE_ONLY = "the state is right, and what is sent is not"


def test_the_table_follows_from_the_stages():
    assert {name: (STATES[job.split(",")[0]], MESSAGES[job] * 2 * 7 / 8) for name, job in JOBS.items()} == TABLE


@pytest.mark.parametrize("kind", [str, np.str_])
def test_all_jobs_told_apart_get_all_points(kind):
    points, words = outcome(step_numbers.check_jobs, {name: kind(job) for name, job in JOBS.items()})
    assert (points, "State and traffic give each away." in words) == (3, True)


@pytest.mark.parametrize(("name", "value", "says"), [
    ("A", "stage 1, gradients all_reduced", f"WRONG  job A: not 'stage 1, gradients all_reduced': {STATE_ONLY}"),
    ("D", "stage 1", STATE_ONLY), ("F", "stage 3", STATE_ONLY), ("B", "stage 3, kept for backward", STATE_ONLY),
    ("C", "stage 1", "WRONG  job C: not 'stage 1': its state is another"), ("E", "DDP", "'DDP': its state is another"),
    ("E", "Stage 2", "'stage 3, kept for backward' is asked for, not 'Stage 2' of type str"), ("E", 2, "not 2 of type"),
    ("C", ["DDP"], "not ['DDP'] of type list"), ("C", TrueForEverything(), "of type TrueForEverything"),
    ("C", None, "nothing here yet"), ("C", ..., "nothing here yet")], ids=short)
def test_a_wrong_job_is_explained_and_costs_half_a_point(name, value, says):
    points, words = outcome(step_numbers.check_jobs, {**JOBS, name: value})
    assert (points, says in words, words.count("WRONG")) == (2.5, True, 1), words


def test_the_same_for_all_gets_no_more_than_one_job():
    for job in JOBS.values():
        assert outcome(step_numbers.check_jobs, dict.fromkeys(JOBS, job))[0] == 0.5


@pytest.mark.parametrize("value", [pytest.param(value, id=name) for name, value in answers_odd.VALUES.items()])
def test_an_odd_value_is_no_job(value):
    assert outcome(step_numbers.check_jobs, value)[0] == 0
    assert outcome(step_numbers.check_jobs, dict.fromkeys(JOBS, value))[0] == 0


def test_parameters_of_a_model_can_be_sharded_as_they_are():
    """Which require gradients: the exercise does not say that they do not."""
    assert launch(_with_parameters, 2).results == [[0.5] * 3] * 2


def _with_parameters(rank, world_size):
    parameter = nn.Parameter(torch.ones(3))
    parameter.grad = torch.ones(3)
    zero.UpdatesPiecesOfTheParameters([parameter], 0.5).step()
    return parameter.round(decimals=3).tolist()
