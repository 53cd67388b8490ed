"""Set 10's checks accept every right answer, and say of a wrong one what is wrong."""
import functools

import numpy as np
import pytest
import torch

from helpers.checks.judge import other_process
from helpers.checks.judge.verdict import CheckFailed
from helpers.checks.pipeline import mended_order
from helpers.checks.zero_bubble import bubble_numbers, filling, split_linear
from helpers.facts.schedules import from_csv, to_csv, zb_h1
from helpers.predict.pipeline import bubble_1f1b, bubble_dualpipev, bubble_zero_bubble
from tests.checks import cells
from tests.checks.outcome import named, outcome
from tests.checks.zero_bubble import zero_bubble_answers as answers

FORWARD, INPUT, WEIGHT = answers.SPLIT


@pytest.mark.parametrize("functions", [
    answers.SPLIT, (answers.keeps_a_dict, answers.adds_to_the_dict, answers.sums_by_einsum),
    (FORWARD, INPUT, answers.sums_products_of_rows),
    (answers.returns_a_class, answers.adds_to_the_class, answers.reads_the_class),
    (answers.keeps_an_edge, answers.asks_for_x, answers.asks_for_the_others)])
def test_a_right_split_gets_all_points(functions):
    seen, unseen = (outcome(check, *functions) for check in (split_linear.check_split, split_linear.check_split_unseen))
    assert (seen[0], unseen[0]) == (4, 1), seen[1] + unseen[1]
    assert "Two halves, and each costs half." in seen[1]


def forward(function):
    return function, INPUT, WEIGHT


def backward_input(function):
    return FORWARD, function, WEIGHT


def backward_weight(function):
    return FORWARD, INPUT, function


FIRST, SECOND = "WRONG  y, and I: the gradient for x: ", "WRONG  W: the gradients for weight and bias, in any order: "
PRODUCTS, WAITING = "WRONG  I and W do one matrix product each: ", "WRONG  no more than x and gradient wait for W: "
FLAT = "x [2, 3], weight [4, 3], a bias: "
MANY = "x [3, 2], weight [2, 2], a bias: the gradient for weight of microbatch 0 "
COST, OUTSIDE = "x [4, 32, 48], weight [80, 48], a bias: ", "is anything kept outside of kept and owed?"
SPLITS = {
    "no bias in y": (forward(answers.forgets_the_bias), 1, f"{FIRST}{FLAT}y is [[22.0, 20.0, 22.0, 15.0], [28.0, 26.0, "
                     "31.0, 31.0]], expected [[24.0, 21.0, 24.0, 19.0], [30.0, 27.0, 33.0, 35.0]]: the bias is mis"),
    "weight not transposed": (forward(answers.does_not_transpose), 0, f"{FLAT}forward raised RuntimeError: mat1 and m"),
    "y alone": (forward(answers.returns_y_alone), 0, "forward returned a tensor of shape [2, 4]; a pair is asked for:"),
    "flat y": (forward(answers.flattens_y), 1, f"{FIRST}x [3], weight [2, 3], a bias: y has shape [1, 2], expected [2"),
    "a graph that keeps y": ((answers.keeps_y, answers.asks_for_x, answers.asks_for_the_others), 3,
                             f"{WAITING}{COST}106,496 bytes live from I to W, and x and gradient have 65,536: that is "
                             "as much more as y, or another copy of gradient"),
    "a global": ((answers.keeps_the_last_in_a_global, answers.reads_the_global, WEIGHT), 1,
                 f"that is gradient 0 with x of microbatch 2; {OUTSIDE}"),
    "a stack": ((FORWARD, answers.owes_on_a_stack, answers.takes_the_newest), 1, f"that is microbatch 1's; {OUTSIDE}"),
    "a sum": (backward_weight(answers.adds_up_in_a_global), 1, f"{SECOND}{MANY}of 3 is [[77.0, 52.0], [58.0, 41.0]], "
              f"expected [[20.0, 28.0], [13.0, 11.0]]: that is the sum of the first 2 microbatches whose turn came; "),
    "both in I": ((FORWARD, answers.does_both_in_i, answers.gives_what_is_done), 3, f"{PRODUCTS}{COST}backward_input "
                  "does 2 matrix products of 983,040 FLOPs, and one is asked for: the gradient for weight is W's work"),
    "a copy of weight": ((FORWARD, answers.owes_weight_too, answers.forgets_its_copy), 3, "as a copy of weight, or it"),
    "x's gradient owed": ((FORWARD, answers.owes_the_gradient_for_x_too, answers.forgets_the_fourth), 3,
                          "that is as much more as the gradient for x, or another copy of x"),
    "forward again": ((FORWARD, answers.owes_x_and_weight, answers.runs_forward_again), 3,
                      f"{PRODUCTS}{COST}backward_weight does 2 matrix products of 983,040 FLOPs, and one is asked for: "
                      "is forward run again"),
    "all again": ((FORWARD, answers.owes_x_and_weight, answers.runs_forward_and_i_again), 3, "weight does 3 matrix pr"),
    "gradient changed": (backward_input(answers.scales_the_gradient), 1, f"{FLAT}gradient was changed; all three read"),
    "owed first": (backward_input(answers.returns_owed_first), 0, "the gradient for x is a tuple of 3; an ordinary"),
    "weight.T in I": (backward_input(answers.multiplies_with_the_transposed), 0, "judged once forward and backward_in"),
    "the course's": (backward_input(answers.uses_the_courses), 0, "backward_input uses helpers.run.pipeline, wh"),
    "torch's": (backward_input(answers.uses_torchs), 0, "uses torch.distributed.pipelining, which this exercise"),
    "transposed": (backward_weight(answers.transposes), 1, "has shape [3, 4], expected [4, 3]: it is transposed"),
    "a mean": (backward_weight(answers.takes_a_mean), 1, "[20.0, 12.5, 17.5]], expected [[30.0, 23.0, 31.0], [20.0, "
               "21.0, 27.0], [40.0, 25.0, 35.0], [40.0, 25.0, 35.0]]: that is a mean over rows, and a sum is asked fo"),
    "a mean of bias": (backward_weight(answers.takes_a_mean_of_the_bias), 1, "bias is [4.0, 3.0, 5.0, 5.0], expected "),
    "one dim summed": (backward_weight(answers.sums_one_dim_only), 1, "has shape [3, 5], expected [5]: sum over all d"),
    "bias not summed": (backward_weight(answers.leaves_the_bias_unsummed), 1, "has shape [2, 4], expected [4]: sum ov"),
    "one bias": (backward_weight(answers.sums_the_bias_to_one_number), 1, "has shape [], expected [4]: sum over all "
                 "dims of the gradient but the last, and not over that"),
    "a graph used twice": ((answers.keeps_y, answers.uses_the_graph_twice, answers.asks_for_the_others), 1,
                           f"{SECOND}{FLAT}backward_weight raised RuntimeError: Trying to backward through the graph "),
    "two dims only": (backward_weight(answers.multiplies_two_dims), 1, f"{SECOND}x [3], weight [2, 3], a bias: backwa"),
    "ones": (backward_weight(answers.multiplies_with_ones), 3, "does 1.02 matrix products of 983,040 FLOPs, and one is "
             "asked for: the bias' gradient is a sum, no product with ones"),
    "elements": (backward_weight(answers.multiplies_elements), 3, "does 0 matrix products of 983,040 FLOPs, and one is "
                 "asked for: no product of torch was seen: use @ or einsum"),
    "numpy": (backward_weight(answers.multiplies_with_numpy), 3, "does 0 matrix products"),
    "a bias always": (backward_weight(answers.gives_a_bias_always), 1, "no bias: the gradient for bias is not None, a"),
    "never a bias": (backward_weight(answers.gives_no_bias), 1, "the gradient for bias is None; an ordinary tensor"),
    "weights alone": (backward_weight(answers.returns_weights_alone), 1, "backward_weight returned a tensor"),
    "lists": (backward_weight(answers.gives_lists), 1, "the gradient for weight is a list of 4; an ordinary tensor"),
    "sparse": (backward_weight(answers.gives_sparse_ones), 1, "is a torch.sparse_coo tensor of shape [4, 3]; an"),
    "float32": (backward_weight(answers.gives_floats), 1, "is of dtype torch.float32, expected torch.float64"),
    "an exit": (backward_weight(answers.exits), 0, "the function ended its process: rank 0 of 1 ended with exit code "),
    "an error": (forward(answers.fails), 0, f"{FIRST}{FLAT}forward raised KeyError: 'gradient'"),
    "nothing": ((answers.is_not_written_yet,) * 3, 0, "is not written yet"),
    "no function": ((FORWARD, None, WEIGHT), 0, "a function is asked for, not None"),
}


@pytest.mark.parametrize(("functions", "points", "says"), named(SPLITS))
def test_a_wrong_split_is_explained(functions, points, says):
    got, words = outcome(split_linear.check_split, *functions)
    assert (got, says in words) == (points, True), words


@pytest.mark.parametrize(("functions", "says"), [
    (backward_weight(answers.views), "backward_weight raised RuntimeError: view size is not compatible"),
    (backward_input(answers.multiplies_with_the_transposed), "that is with weight transposed the wrong way"),
    (forward(answers.does_not_transpose), "that is with weight transposed the wrong way"),
    (backward_weight(answers.transposes), "that is transposed"),
    ((FORWARD, answers.owes_floats, answers.makes_doubles), "the gradient for weight is [["),
    (backward_weight(answers.multiplies_with_ones), "1.02 matrix products of 184,320 FLOPs")])
def test_unseen_layers_find_what_seen_ones_do_not(functions, says):
    points, words = outcome(split_linear.check_split_unseen, *functions)
    assert (points, says in words) == (0, True), words


def test_products_are_counted_as_torch_counts_them():
    layer = split_linear.COSTS
    with torch.utils.flop_counter.FlopCounterMode(display=False) as counter:
        torch.ones(layer.shape) @ torch.ones(layer.shape[-1], layer.num_out)
    assert counter.get_total_flops() == layer.product_flops


@pytest.mark.parametrize("function", [answers.clock, answers.rhythm, answers.gives_numbers_of_numpy,
                                      answers.numbers_from_the_last, answers.looks_for_the_best])
def test_a_right_filling_gets_all_points(function):
    seen, unseen = (outcome(check, function) for check in (filling.check_fill, filling.check_fill_unseen))
    assert (seen[0], unseen[0]) == (4, 1), seen[1] + unseen[1]
    assert "Every bubble that can be filled is." in seen[1]


LEGAL, SHORTER = "WRONG  every order is legal and under its cap: fill(2, 3, cap=2)", "WRONG  shorter than 1F1B: "
SHORT = "WRONG  as short as can be: fill(2, 3, cap=2) takes "
GAPS = "WRONG  with cap 2p - 1, no gap in any rank's own span: "
CHAIN = "the longest chain of steps that wait for each other is "
FILLS = {
    "greedy": (answers.greedy, 1, f"{SHORTER}fill(2, 3, cap=2) takes 12 slots, and 1F1B 12: {CHAIN}F0 F1 of rank 0, F1 "
               "I0 I1 of rank 1, I1 W0 F2 of rank 0, F2 I2 of rank 1, I2 W2 of rank 0. Which of them could its rank "
               "do later?\nrank 0 | F0 F1  .  . I0 I1 W0 F2 W1  . I2 W2\n"),
    "I before F": (answers.prefers_i, 3, f"{SHORT}11 slots, and 10 are enough: {CHAIN}F0 of rank 0, F0 I0 F1 I1 of "
                   "rank 1, I1 F2 of rank 0, F2 I2 of rank 1, I2 W2 of rank 0. Which of them could its rank do later?"),
    "W first": (answers.prefers_w, 2, f"{GAPS}fill(2, 3, cap=3): rank 0 idles in slot 5, before I1: it waits for I1 of "
                "rank 1, which does F1 before\nrank 0 | F0 F1 F2 I0 W0  . I1 W1  . I2 W2"),
    "W before F": (answers.prefers_w_with_a_limit, 2, f"{SHORT}11 slots, and 10 are enough"),
    "ZB-H1": (answers.is_always_zb_h1, 3, f"{GAPS}fill(2, 3, cap=3): rank 0 idles in slot 2, before I0: it could do F"),
    "ZB-H2": (answers.is_always_zb_h2, 0, f"{LEGAL}: rank 0 would hold 3 microbatches at F2 of stage 0, and has memory "
              "for 2: one must be finished first\nrank 0 |   F0   F1 >F2<   I0   W0   I1   W1   I2   W2\n"),
    "1F1B": (answers.is_1f1b, 2, "F0 of rank 0, F0 I0 W0 F1 I1 W1 F2 I2 of rank 1, I2 W2 of rank 0. Which of them cou"),
    "a whole backward": (answers.alternates, 0, "'B' of type str is no kind of step: here they are F, I and"),
    "GPipe": (answers.is_gpipe, 0, f"{LEGAL}: rank 0 would hold 3 microbatches at F2 of stage 0, and has memory for 2"),
    "one by one": (answers.does_one_after_the_other, 1, "takes 15 slots, and 1F1B 12: in slot 1 rank 0 idles, and it "
                   "could do F1 there"),
    "a W too few": (answers.forgets_the_last_w, 0, f"{LEGAL}: the W of microbatch 2 in stage 0 is missing"),
    "an F too many": (answers.doubles_the_first_f, 0, f"{LEGAL}: F0 of stage 0 stands there 2 times"),
    "from one": (answers.counts_from_one, 0, f"{LEGAL}: 0F3 on rank 0: there is no microbatch 3, only 0 to 2"),
    "W before I": (answers.puts_w_first, 0, f"{LEGAL}: rank 0 has W0 of stage 0 before I0 of stage 0, which it needs"),
    "a circle": (answers.waits_in_a_circle, 0, f"{LEGAL}: it never ends. rank 0 cannot start I0 of stage 0 before I0 "
                 "of stage 1; rank 1 cannot start F1 of stage 1 before F1 of stage 0\nrank 0 | F0  stuck: >I0< F1"),
    "stages": (answers.names_stages, 0, 'a step is a pair of kind and microbatch, as in ("F", 0), not ('),
    "text": (answers.writes_text, 0, "not 'F0' of type str"),
    "a generator": (answers.yields_ranks, 0, "a list with one list for each rank is asked for, not <generator object"),
    "a limit too low": (functools.partial(answers.clock, limit=lambda ranks, cap, rank: max(1, cap - 2 * rank)), 2,
                        "fill(3, 4, cap=3) takes 19 slots, and 1F1B 18: in slot 2 rank 1 idles, and it could do F1 th"),
    "a limit too high": (functools.partial(answers.clock, limit=lambda ranks, cap, rank: cap - rank), 3,
                         f"{GAPS}fill(2, 3, cap=3): rank 0 idles in slot 3, before I0: it waits for I0 of rank 1, whi"),
    "one rank": (answers.gives_one_rank, 0, "returned 1 lists; one for each of the 2 ranks is asked for"),
    "a flat list": (answers.gives_a_flat_list, 0, "returned 9 lists; one for each of the 2 ranks is asked for"),
    "None": (answers.gives_nothing, 0, "returned None: is there a return?"),
    "very many": (answers.gives_very_many, 0, "returned 20,000 steps for one rank: when does it end?"),
    "the course's": (answers.asks_the_course, 0, "uses helpers.facts.schedules, which this exercise asks you to do wi"),
    "the course's, of a cell": (answers.builds(zb_h1), 0, "uses helpers.facts.schedules"),
    "the simulator": (answers.asks_the_simulator, 0, "uses helpers.predict, which this exercise asks you to do withou"),
    "torch's": (answers.asks_torch, 0, "uses torch.distributed.pipelining, which this exercise asks you to "),
    "an error": (answers.fails, 0, "raised KeyError: 'gradient'"),
    "nothing": (answers.is_not_written_yet, 0, "is not written yet"),
    "very high": (answers.numbers_very_high, 0, "F of a microbatch beyond 1,000,000: numbers go from 0"),
    "no function": ([[("F", 0)]], 0, "a function is asked for, not [[('F', 0)]] of type list"),
}


@pytest.mark.parametrize(("function", "points", "says"), named(FILLS))
def test_a_wrong_filling_is_explained(function, points, says):
    got, words = outcome(filling.check_fill, function)
    assert (got, says in words) == (points, True), words


@pytest.mark.parametrize(("function", "says"), [
    (answers.knows_what_it_has_seen, "unseen cases: fill(1, 3, cap=1): returned None"),
    (answers.prefers_i, "unseen cases: fill(6, 20, cap=6) takes 67 slots, and 65 are enough: the longest chain of "
                        "steps that wait for each other ends with "),
    (answers.is_always_zb_h1, "unseen cases: fill(5, 9, cap=9): rank 0 idles in slot 5, before I0: it could do F5")])
def test_unseen_sizes_find_what_seen_ones_do_not(function, says):
    points, words = outcome(filling.check_fill_unseen, function)
    assert (points, says in words) == (0, True), words


@pytest.mark.parametrize(("function", "words"), [
    (answers.fails, "raised KeyError: 'gradient'"),
    (answers.asks_the_course, "uses helpers.facts.schedules, which this exercise asks you to do without")])
def test_what_stops_every_case_is_said_once(function, words):
    assert outcome(filling.check_fill, function) == (0, words)


def test_an_order_beyond_all_numbers_is_said_of_unseen_sizes():
    words = outcome(filling.check_fill_unseen, answers.numbers_very_high)[1]
    assert "unseen cases: F of a microbatch beyond 1,000,000" in words


def test_a_table_of_steps_is_refused():
    cases = filling.LOW + filling.HIGH + filling.OTHERS
    table = {tuple(vars(case).values()): answers.rhythm(*vars(case).values()) for case in cases}
    cell = {"__name__": "__main__", "TABLE": table}
    exec("def fill(num_ranks, num_microbatches, cap):\n    return TABLE[num_ranks, num_microbatches, cap]", cell)
    for check in (filling.check_fill, filling.check_fill_unseen):
        points, words = outcome(check, cell["fill"])
        assert (points, "the function brings along TABLE, a table of 2,415" in words) == (0, True), words


@pytest.mark.parametrize(("check", "answer"), [(split_linear.check_split, (FORWARD, INPUT, answers.never_ends)),
                                               (filling.check_fill, (answers.never_ends,))])
def test_an_answer_that_never_ends_is_ended(monkeypatch, check, answer):
    monkeypatch.setattr(other_process, "DEADLINE_S", 0.4)
    words = outcome(check, *answer)[1]
    assert "the function was not done after 0.4 s: does a loop in it never end, or does it try too many cases?" in words


KEYS = bubble_numbers.KEYS
RIGHT = {KEYS[0]: 100 * 11 / 155, KEYS[1]: 100 * 11 / 48, KEYS[2]: 100 * 11 / 155, KEYS[3]: 0, KEYS[4]: 7.5,
         KEYS[5]: 100 * 11 / 155}


@pytest.mark.parametrize("right", [
    RIGHT, {key: round(value, 2) for key, value in RIGHT.items()}, {key: np.float64(v) for key, v in RIGHT.items()},
    {key: torch.tensor(value) for key, value in RIGHT.items()}, RIGHT | {KEYS[3]: 2.2e-14}])
def test_right_bubbles_get_all_points(right):
    points, words = outcome(bubble_numbers.check_bubbles, right)
    assert (points, "Counted, and each with its denominator." in words) == (4, True), words


def test_counted_bubbles_are_those_of_the_formulas():
    expected = [bubble_zero_bubble(12, 48), 0, 0, 0, 0, bubble_dualpipev(24, 48)]
    whole = bubble_1f1b(12, 48)
    expected[1], expected[2], expected[4] = whole / (1 - whole), 11 / 155, 5 * (2.5 + 2 - 3) / 100
    # dualpipev's formula is for stages of full size: the same fraction with half the size
    assert [bubble_numbers._right(key)[0] / 100 for key in KEYS] == pytest.approx(expected)


@pytest.mark.parametrize(("key", "value", "says"), [
    (KEYS[0], 6.6, "6.6 is the card's (p-1)/(3m+2(p-1)): the idle units are counted twice in the length"),
    (KEYS[0], 7.64, "7.64 is of ideal, idle over work; of total is idle over all time"),
    (KEYS[0], 18.64, "18.64 is the bubble of 1F1B"),
    (KEYS[0], 0.071, "0.071 is a fraction; percent are asked for"),
    (KEYS[0], 6.21, "6.21 is a third of 1F1B's percentage; a third of its idle units is left, of a shorter step"),
    (KEYS[0], 10.28, "10.28 counts a whole backward as 1 unit; it is I and W, 2 units"),
    (KEYS[0], 7.69, "7.69 has p idle units; it is p - 1"),
    (KEYS[0], 11, "11 is in idle units; percent of time are asked for"),
    (KEYS[0], "7 %", "a number is asked for, not '7 %'"),
    (KEYS[0], None, "nothing here yet"),
    (KEYS[1], 18.6, "18.6 is the card's, of total: idle over all time; of ideal is idle over work"),
    (KEYS[1], 25, "25 is p / m; the idle time is that of p - 1"),
    (KEYS[1], 0.229, "0.229 is a fraction; percent are asked for"),
    (KEYS[1], 7.64, "7.64 is ZB-H1's of ideal"),
    (KEYS[1], 33, "33 is in idle units"),
    (KEYS[2], 0, "0 is the card's, of a rank's own span; of total counts from the first start of any rank to the last"),
    (KEYS[2], 6.63, "6.63 is (p-1)/(3m+2(p-1))"),
    (KEYS[3], 7.1, "7.1 is of total: a rank's own span leaves out what it waits before its first step and after its l"),
    (KEYS[3], 3, "3 is too much"),
    (KEYS[4], 5, "5 is the card's (p-1)//2, or for pairs of 2 units; here they take 2.5"),
    (KEYS[4], 10, "10 is for pairs of 3 units, an overlap that saves nothing"),
    (KEYS[4], 4.9751, "4.975 is in percent; idle units are asked for"),
    (KEYS[4], 2.5, "2.5 counts a whole backward as 1 unit; b is I and W, 2 units"),
    (KEYS[4], 16.5, "16.5 is (p-1)(pair + b - 3w); it is p/2 - 1"),
    (KEYS[4], 9, "9 is (p/2)(pair + b - 3w); it is p/2 - 1"),
    (KEYS[4], 20 / 3, "6.667 is the mean over ranks; the rank that idles most is asked for"),
    (KEYS[5], 3.36, "3.36 is with 12 stages, and so on 6 ranks; on 12 ranks there are 24"),
    (KEYS[5], 6.49, "6.49 is DualPipe's, or that of 12 stages over the work of one"),
    (KEYS[5], 4, "4 is too little"),
    (KEYS[5], 3.87, "3.87 is the card's, 1.2 times a DualPipe that nobody has"),
    (KEYS[5], 7.79, "7.79 is DualPipe's, times 1.2; nobody counted that"),
    (KEYS[5], 13.25, "13.25 has stages of full size on both sides of half the work"),
])
def test_a_wrong_bubble_is_named(key, value, says):
    points, words = outcome(bubble_numbers.check_bubbles, RIGHT | {key: value})
    lost = dict(zip(KEYS, bubble_numbers.POINTS, strict=True))[key]
    assert (points, f"WRONG  {key}: {says}" in words) == (4 - lost, True), words


@pytest.mark.parametrize(("bubbles", "says"), [
    (None, "leave the keys of the dict `bubbles` as they are: it is None"), ([7.1], "it is [7.1] of type list"),
    (RIGHT | {"ZB-V": 0}, "'ZB-V' of type str is none of its keys"), ({}, "nothing here yet")])
def test_other_things_than_the_dict_are_refused(bubbles, says):
    points, words = outcome(bubble_numbers.check_bubbles, bubbles)
    assert (points, says in words) == (0, True), words


CELLS = {cell.name: cell.code for cell in cells.solved("10_zero_bubble")}
SPACE: dict = {}
exec(CELLS["broken"], SPACE)
exec(CELLS["mend"], SPACE)
BROKEN, MENDED = SPACE["broken"], SPACE["mended"]
ROWS = MENDED.split()


def rows(*changes: tuple[int, str, str], text: str = MENDED) -> str:
    return cells.changed(text, *changes)


@pytest.mark.parametrize("mended", [
    MENDED, "\n\n".join(f"    {row}" for row in ROWS), MENDED.replace(",", ", ").replace("2I3,", "2I3,,"),
    rows((2, "2W0,2I2,", "2I2,2W0,")), rows((1, "1F2,1I0,1W0,", "1I0,1W0,1F2,"), (2, "2F2,2I1,2W0,", "2W0,2I1,2F2,")),
    rows((2, "2W1,2W2,2W3", "2W2,2W1,2W3"))])
def test_a_mended_order_gets_all_points(mended):
    points, words = outcome(mended_order.check_mended_order, BROKEN, mended)
    assert (points, "Mended, with no slot wasted." in words) == (3, True), words


EARLY, EVER = "WRONG  on every rank, each step after what it needs: mended: ", "WRONG  nobody waits for ever: mended: "
ENDS = "WRONG  at most 3 microbatches on a rank, 14 slots, at most 4 steps moved: "
ORDERS = {
    "as it was": (BROKEN, 0, "rank 2 has W0 of stage 2 before I0 of stage 2, which it needs\nrank 0 | F0 F1 F2 F3  st"),
    "W only": (rows((2, "2W0,2I0,", "2I0,2W0,"), text=BROKEN), 1, f"{EVER}it never ends. rank 0 cannot start I1 of "
               "stage 0 before I1 of stage 1"),
    "W left": (rows((2, "2I0,2F1,2F2,2I1,2W0,", "2W0,2I0,2F1,2F2,2I1,")), 0, f"{EARLY}rank 2 has W0 of stage 2 before"),
    "circle left": (rows((1, "1F2,1I0,1W0,1I1,", "1I0,1W0,1I1,1F2,")), 1, f"{EVER}it never ends. rank 0 cannot start "),
    "memory left": (rows((0, "0F2,0I0,0W0,0F3,", "0F2,0F3,0I0,0W0,")), 2, f"{ENDS}rank 0 would hold 4 microbatches at "
                    "F3, and has memory for 3: a W must come first"),
    "memory of another": (rows((2, "2W0,2I2,2F3,", "2I2,2F3,2W0,")), 2, "rank 2 would hold 4 microbatches at F3"),
    "slow": (rows((0, "0W0,0F3,0I1,", "0W0,0I1,0F3,")), 2, f"{ENDS}it takes 16 slots, and 14 are enough: the longest "),
    "W at once": (rows((2, "2I0,2F1,2F2,2I1,2W0,", "2I0,2W0,2F1,2F2,2I1,")), 2, f"{ENDS}it takes 15 slots, and 14 are"),
    "written anew": (to_csv(zb_h1(3, 4)), 2, f"{ENDS}5 steps are not where they were among the others, and at most 4 "
                     "may move (three are enough): mend what was given"),
    "a step lost": (rows((2, ",2W3", "")), 0, "rank 2 has lost 2W3"),
    "a step twice": (rows((2, "2W3", "2W3,2W3")), 0, "rank 2 has 2W3 2 times"),
    "a step elsewhere": (rows((2, ",2W3", ""), (1, "1W3", "1W3,2W3")), 0, "rank 1 has 2W3, which was not there: steps"),
    "lines swapped": ("\n".join(ROWS[::-1]), 0, "rank 0 has 2F0, which was not there"),
    "whole backward": (rows((2, "2W3", "2B3")), 0, "rank 2 has 2B3, which was not there"),
    "a pair": (rows((2, "2W2,2W3", "(2F2;2W3)OVERLAP_F_B")), 0, "rank 2 has (2F2;2W3)OVERLAP_F_B, which was not there"),
    "a large stage": (rows((2, "2W3", "99999999999F3")), 0, "rank 2 has 99999999999F3, which was not there"),
    "a larger stage": (rows((2, "2W3", f"{'9' * 4500}F3")), 0, "Exceeds the limit"),
    "no stages": (MENDED.replace("0F0", "F0"), 0, "line 1, cell 1: 'F0' is no action: write stage, kind"),
    "two lines": ("\n".join(ROWS[:2]), 0, "2 lines, and there are 3 ranks"),
    "empty": ("", 0, "no actions: write a line for each rank, as in 0F0,0B0"),
    "very long": ("0F0," * 5000, 0, "a text is asked for"),
    "a schedule": (from_csv(MENDED.strip()), 0, "a text is asked for, with a line for each rank and commas between st"),
    "lists": ([["0F0"]], 0, "a text is asked for, with a line for each rank and commas between steps, not [['0F0']]"),
    "None": (None, 0, "nothing here yet"),
}


@pytest.mark.parametrize(("mended", "points", "says"), named(ORDERS))
def test_a_fault_that_remains_is_named(mended, points, says):
    got, words = outcome(mended_order.check_mended_order, BROKEN, mended)
    assert (got, says in words) == (points, True), words


@pytest.mark.parametrize("broken", [MENDED, None, "", BROKEN.replace("0F3,0I0", "0I0,0F3"), BROKEN.split("\n", 2)[2]])
def test_another_broken_order_is_refused(broken):
    with pytest.raises(CheckFailed, match="broken is not what it was: leave it as it was given"):
        mended_order.check_mended_order(broken, MENDED)


def test_three_moves_are_enough():
    orders = [mended_order._read(text).steps for text in (BROKEN, MENDED)]
    assert sum(map(mended_order._num_moved, *orders)) == 3
