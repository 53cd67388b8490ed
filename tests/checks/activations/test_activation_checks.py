"""Set 07's checks accept every right answer, and say of a wrong one what is wrong."""
import functools

import pytest

from helpers.checks.activations import gpt_numbers, leaks, recompute, saved_bytes
from helpers.checks.judge.verdict import CheckFailed
from helpers.predict.activations import BlockShape, block_bytes
from tests.checks import cells
from tests.checks.activations import activation_answers as answers
from tests.checks.outcome import named, outcome

CELLS = {cell.name: cell for cell in cells.solved("07_activations")}


def given(name: str) -> dict:
    """What the set-up and a given cell define."""
    namespace = {"__name__": "__main__"}
    for cell in ("setup", name):
        exec(CELLS[cell].code, namespace)
    return namespace


GatedBlock, leaky = given("given-block")["GatedBlock"], given("given-leak")["leaky"]


@pytest.fixture(scope="module", autouse=True)
def _measured_once():
    """What the check measures itself, of the block and of trainings, is the same in every test."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(saved_bytes, "_measured", functools.cache(saved_bytes._measured))
        patch.setattr(leaks, "_watch", functools.cache(leaks._watch))
        yield


@pytest.mark.parametrize("function", [answers.adds_up, answers.lists_shapes, answers.gives_a_float,
                                      answers.gives_a_number_of_torch])
def test_right_bytes_of_a_block_get_all_points(function):
    seen, unseen = (outcome(check, function, GatedBlock)
                    for check in (saved_bytes.check_saved_bytes, saved_bytes.check_saved_bytes_unseen))
    assert (seen[0], unseen[0]) == (3, 1)
    assert "To the byte. The grader's sizes cannot be run: does yours calculate?" in seen[1]


MLP, PROBABILITIES = "WRONG  the gated MLP: a token and a unit of inner count ", "WRONG  attention's probabilities: "
WHOLE = "WRONG  all of it, in fp32 and in bf16: "
FIRST = "3 x 16 tokens, hidden 32, heads 4, inner 96, 4 bytes an element: "
KEPT = [
    (answers.forgets_statistics, 2, f"{WHOLE}{FIRST}141,312 bytes, expected 142,080: a norm keeps two numbers a token"),
    (answers.forgets_a_norm, 2, "there are two norms, and each keeps its input and two numbers a token"),
    (answers.forgets_the_mask, 2, "one tensor of s b h is missing: an input, or the mask of dropout"),
    (answers.has_a_mask_of_bytes, 2, "on a CPU an entry of a mask is an element"),
    (answers.keeps_an_input_for_each, 2, "one tensor of s b h too many: q, k and v have one input"),
    (answers.keeps_an_input_for_each_of_three, 2, "two tensors of s b h too many: q, k and v have one input"),
    (answers.keeps_an_input_for_all_five, 2, "three tensors of s b h too many: q, k and v have one input"),
    (answers.has_statistics_in_fp32, 2, "2 bytes an element: 71,424 bytes, expected 71,040: the norms' statistics"),
    (answers.takes_gelu, 1, f"{MLP}2 times element_bytes, and the block keeps 4 times: that is GELU's MLP"),
    (answers.forgets_a_factor, 1, f"{MLP}3 times element_bytes, and the block keeps 4 times: silu keeps what it got"),
    (answers.keeps_scores_too, 1, f"{PROBABILITIES}4 heads instead of 2 make 12,288 bytes more, and the block keeps "
                                  "6,144 more: of the scores before softmax nothing is kept"),
    (answers.takes_the_papers_5, 1, "34 and 5 are for a block that drops probabilities"),
    (answers.takes_the_lessons_formula, 0, f"{PROBABILITIES}4 heads instead of 2 make 7,680 bytes more, and the block "
                                           "keeps 6,144 more: 34 and 5 are for a block that drops probabilities"),
    (answers.takes_the_formula_without_dropout, 0, "in fp32 an element has 4 bytes, not 2"),
    (answers.takes_the_formula_in_bytes, 1, f"{MLP}0 times element_bytes, and the block keeps 4 times: here the MLP"),
    (answers.lets_all_tokens_meet, 1, "make 18,432 bytes more, and the block keeps 6,144 more: each of the b sequences "
                                      "has s s of them for a head"),
    (answers.has_one_sequences_probabilities, 1, "keeps 6,144 more: each of the b sequences has its own"),
    (answers.forgets_heads, 1, "the block keeps 6,144 more: nothing grows with heads"),
    (answers.counts_elements, 0, "bytes are asked for, not elements"),
    (answers.is_always_fp32, 2, "2 bytes an element: 142,080 bytes, expected 71,040: are elements of 2 bytes counted"),
    (answers.counts_parameters, 1, "and the block keeps 4 times: parameters are no activations"),
    (answers.gives_nothing, 0, "returned None: is there a return?"),
    (answers.gives_text, 0, "a number of bytes is asked for, not '142080' of type str"),
    (answers.asks_the_calculators, 0, "uses helpers.predict, which this exercise asks you to do without"),
    (answers.fails, 0, "raised KeyError: 'inner'"),
    (None, 0, "a function is asked for, not None"),
]


@pytest.mark.parametrize(("function", "points", "says"), KEPT)
def test_wrong_bytes_of_a_block_are_explained(function, points, says):
    got, words = outcome(saved_bytes.check_saved_bytes, function, GatedBlock)
    assert (got, says in words) == (points, True), words
    assert outcome(saved_bytes.check_saved_bytes_unseen, function, GatedBlock)[0] == 0


def test_who_runs_the_block_cannot_run_the_graders_sizes():
    """Half a terabyte of scores for one sequence."""
    namespace = given("given-block")
    exec("""def runs_one_sequence(batch, seq, hidden, heads, inner, element_bytes):
    block = GatedBlock(hidden, heads, inner).to({4: torch.float32, 2: torch.bfloat16}[element_bytes])
    with saved(block) as kept:
        block(torch.ones(1, seq, hidden, dtype=block.out.weight.dtype, requires_grad=True))
    return batch * kept.num_bytes""", namespace)
    assert outcome(saved_bytes.check_saved_bytes, namespace["runs_one_sequence"], GatedBlock)[0] == 3
    points, words = outcome(saved_bytes.check_saved_bytes_unseen, namespace["runs_one_sequence"], GatedBlock)
    assert (points, "can't allocate memory" in words) == (0, True), words


def test_a_changed_block_is_no_oracle():
    code = CELLS["given-block"].code.replace("nn.Dropout(0.1)", "nn.Dropout(0.0)")
    namespace = given("given-block")
    exec(code, namespace)
    with pytest.raises(CheckFailed, match="GatedBlock is not what it was"):
        saved_bytes.check_saved_bytes(answers.adds_up, namespace["GatedBlock"])


def test_bytes_of_long_sequences_are_worked_out_from_short_ones():
    right = saved_bytes._measured(GatedBlock, saved_bytes.OTHERS)
    for case, num_bytes in right.items():
        assert saved_bytes._extrapolated(GatedBlock, case) == num_bytes
    endless = saved_bytes.ENDLESS
    expected = answers.adds_up(endless.seq, endless.batch, endless.hidden, endless.heads, endless.inner, 2)
    assert saved_bytes._extrapolated(GatedBlock, endless) == expected


@pytest.mark.parametrize("function", [answers.tries_all, answers.fills_up_with_selective,
                                      answers.gives_numbers_of_numpy])
def test_a_right_plan_gets_all_points(function):
    seen, unseen = (outcome(check, function) for check in (recompute.check_plan, recompute.check_plan_unseen))
    assert (seen[0], unseen[0]) == (3, 1), seen[1] + unseen[1]


FITS, ENOUGH, MIXTURE = ("WRONG  everything fits, or nothing does: ", "WRONG  selective recomputation is enough: ",
                         "WRONG  it takes a mixture: ")
PLANS = [
    (answers.counts_dropout, 0, 0, "Are masks of dropout counted? There is none"),
    (answers.counts_fp32, 0, 0, "Is fp32 counted? Elements have 2 bytes"),
    (answers.counts_a_byte, 0, 0, "Is one byte an element counted? They have 2"),
    (answers.keeps_no_input, 1, 0, "11,797 too many. A block that recomputes in full keeps its input"),
    (answers.takes_equation_8, 1, 0, "Selective recomputation runs attention's core once more, not three times"),
    (answers.forgets_the_core_in_full, 2, 0, "Full recomputation runs attention's core again, too"),
    (answers.wants_less_than_the_budget, 2, 1, f"{FITS}8 blocks, 2 x 128 tokens, hidden 64, heads 8, budget 8,388,608 "
                                               "bytes: (7, 1, 0) fits, and runs 8,388,608 FLOPs again; 0 would do. "
                                               "It fits as it is: at most the budget is asked for"),
    (answers.turns_the_order_around, 0, 0, "8,388,608 bytes: (0, 0, 8) fits, and runs 268,435,456 FLOPs again; 0 would "
                                           "do. The order is (none, selective, full)"),
    (answers.counts_scores_too, 0, 0, "(4, 4, 0) fits, and runs 33,554,432 FLOPs again; 0 would do. Are scores counted "
                                      "besides the probabilities?"),
    (answers.leaves_room_for_a_block, 0, 0, "(6, 2, 0) fits, and runs 16,777,216 FLOPs again; 0 would do. What comes "
                                            "back in backward does not count here: leave no room for it"),
    (answers.leaves_room_for_what_comes_back, 1, 0, "What comes back in backward does not count here"),
    (answers.keeps_one_input_too_many, 0, 0, "It fits as it is, since a block keeps 1,048,576 bytes: do "
                                                            "yours weigh more?"),
    (answers.makes_all_alike, 1, 0, "(0, 8, 0) fits, and runs 67,108,864 FLOPs again; 16,777,216 would do. Blocks need "
                                    "not be all alike"),
    (answers.selective_first_then_full, 2, 0, f"{MIXTURE}8 blocks, 1 x 256 tokens, hidden 32, heads 4, budget "
                                              "3,460,300 bytes: (2, 6, 0) fits"),
    (answers.knows_full_only, 1, 0, "fits, and runs 33,554,432 FLOPs again; 16,777,216 would do. Are all three ways "
                                     "considered, or has a block other bytes?"),
    (answers.knows_selective_only, 2, 0, "None, but something does fit. (Is there a return?)"),
    (answers.recomputes_everything, 0, 0, "(0, 0, 8) fits, and runs 268,435,456 FLOPs again; 0 would do. It fits as it "
                                          "is, since a block keeps 1,048,576 bytes: do yours weigh more?"),
    (answers.hopes, 0, 0, f"{ENOUGH}8 blocks, 2 x 128 tokens, hidden 64, heads 8, budget 7,717,519 bytes: (8, 0, 0) "
                          "keeps 8,388,608 bytes, 671,089 too many"),
    (answers.gives_three_ones, 0, 0, "(1, 1, 1) are 3 blocks, and there are 8"),
    (answers.gives_a_name, 0, 0, "three numbers of blocks or None are asked for, not 'selective' of type str"),
    (answers.gives_floats, 0, 0, "three numbers of blocks or None are asked for, not (8.0, 0.0, 0.0) of type tuple"),
    (answers.fails_where_nothing_fits, 2, 0, "the function raised TypeError: 'NoneType' object is not iterable"),
    (answers.asks_the_calculators, 0, 0, "uses helpers.predict, which this exercise asks you to do without"),
    (7, 0, 0, "a function is asked for, not 7 of type int"),
]


@pytest.mark.parametrize(("function", "points", "unseen", "says"), PLANS)
def test_a_wrong_plan_is_explained(function, points, unseen, says):
    got, words = outcome(recompute.check_plan, function)
    assert (got, says in words) == (points, True), words
    assert outcome(recompute.check_plan_unseen, function)[0] == unseen


@pytest.mark.parametrize("model", [*recompute.PLAIN, *recompute.SELECTIVE, *recompute.MIXED, *recompute.OTHERS])
def test_the_best_plan_fits_when_it_is_run(model):
    """With the norms' statistics, less than a percent more."""
    best = recompute._best(model)
    if best and model.layers * model.seq * model.hidden < 1e6:
        assert recompute._real_bytes(model, best[1]) <= recompute.STATISTICS * model.budget_bytes


SBH, CORE, LINEARS = 4 * 64 * 96, 4 * 4 * 64**2 * 96, 24 * 4 * 64 * 96**2       # of exercise 3
BYTES, AGAIN = 4 * SBH * (2 + 4 * 16), 2 * LINEARS + 6 * CORE
MEASURED = 4 * SBH * 66 + 4 * 4 * 4 * 4 * 64, AGAIN                             # and four statistics a token
GPT_NUMBERS = {
    "right": ((BYTES, AGAIN, MEASURED), 3, "Foretold, and so it was."),
    "a list": ((float(BYTES), AGAIN, list(MEASURED)), 3, "Foretold, and so it was."),
    "no recomputation": ((6 * (64 * SBH + 4 * 6 * 64 * 64 * 4), AGAIN, MEASURED), 2, "is without recomputation"),
    "with probabilities": ((BYTES + 4 * 4 * 6 * 64 * 64 * 4, AGAIN, MEASURED), 2, "has the probabilities, which"),
    "all selective": ((6 * 64 * SBH, 6 * CORE, MEASURED), 1, "would be right if all blocks recomputed selectively"),
    "all full": ((24 * SBH, 6 * (CORE + LINEARS), MEASURED), 1, "would be right if all blocks recomputed in full"),
    "selective only": ((256 * SBH, 4 * CORE, MEASURED), 1, "leaves out the blocks that recompute in full"),
    "full only": ((BYTES, 2 * (CORE + LINEARS), MEASURED), 2, "is for the blocks that recompute in full alone"),
    "bf16": ((BYTES / 2, AGAIN, MEASURED), 2, "is in bf16; here all is fp32"),
    "elements": ((BYTES / 4, AGAIN, MEASURED), 2, "is in elements; bytes are asked for"),
    "bytes for elements": ((2 * BYTES, AGAIN, MEASURED), 2, "12,976,128 is twice as much: 2 and 32 are bytes with 2 "
                                                            "bytes an element; elements are 1 and 16"),
    "the paper's bytes": (((2 * 2 + 4 * 34) * SBH, AGAIN, MEASURED), 2, "3,440,640 is with the paper's 2 and 34"),
    "the paper's, doubled": (((4 * 2 + 8 * 34) * SBH, AGAIN, MEASURED), 2, "for bf16 doubled, and in 34 are masks"),
    "the paper's for elements": (((8 * 2 + 16 * 34) * SBH, AGAIN, MEASURED), 2, "has the paper's 2 and 34 for element"),
    "swapped": ((4 * SBH * (4 + 2 * 16), 4 * (LINEARS + CORE) + 2 * CORE, MEASURED), 1,
                "would be right if four blocks recomputed in full and two selectively"),
    "65 tokens": ((4 * 65 * 4 * 96 * (2 + 4 * 16), 2 * 24 * 65 * 4 * 96**2 + 6 * 4 * 4 * 65**2 * 96, MEASURED), 1,
                  "is with 65 tokens a sequence; the last one is a target only"),
    "three times": ((BYTES, 3 * AGAIN, MEASURED), 2, "is three times as much: only forward runs again, and once"),
    "stops early": ((BYTES, 2 * (LINEARS * 2 // 3 + CORE) + 4 * CORE // 2, MEASURED), 2, "as early_stop does; here"),
    "masks": ((BYTES + 4 * 2 * SBH, AGAIN, MEASURED), 2, "has masks of dropout; here there is none"),
    "equation 8": ((BYTES, AGAIN + 8 * CORE, MEASURED), 2, "is with the paper's equation 8, which counts three times"),
    "no core in full": ((BYTES, AGAIN - 2 * CORE, MEASURED), 2, "leaves attention's core out where the whole block"),
    "one product": ((BYTES, AGAIN - 2 * CORE, MEASURED), 2, "WRONG  FLOPs predicted"),
    "multiplications": ((BYTES, AGAIN / 2, MEASURED), 2, "each counts with its addition, 2 FLOPs"),
    "not measured": ((BYTES, AGAIN, (BYTES, AGAIN)), 2, "the norms keep their statistics, too. Is it measured?"),
    "the whole model": ((BYTES, AGAIN, (gpt_numbers._of_step(2, 4)[1], AGAIN)), 2, "that is the whole model; count"),
    "the whole step": ((BYTES, AGAIN, (MEASURED[0], gpt_numbers._of_step(2, 4)[2])), 2, "that is the whole step"),
    "the wrong way": ((BYTES, AGAIN, (MEASURED[0], -AGAIN)), 2, "the other way round"),
    "the plain model": ((BYTES, AGAIN, (gpt_numbers._of_step(0, 0)[0], 0)), 2, "that is without recomputation"),
    "one number": ((BYTES, AGAIN, 7), 2, "a pair (bytes, FLOPs) is asked for, not 7 of type int"),
    "nothing": ((None, None, None), 0, "nothing here yet"),
}


@pytest.mark.parametrize(("answer", "points", "says"), named(GPT_NUMBERS))
def test_numbers_of_a_gpt_are_judged_one_by_one(answer, points, says):
    got, words = outcome(gpt_numbers.check_gpt, *answer)
    assert (got, says in words) == (points, True), words


def test_what_is_foretold_is_what_the_calculators_say():
    block = BlockShape(64, 4, 96, 6, 4, dropout=False)
    assert 2 * block_bytes(block, recompute="full") + 4 * block_bytes(block, recompute="selective") == BYTES
    assert gpt_numbers._of_step(2, 4)[0] == MEASURED[0]


LINE, STEP = "C", 4 * 512 * (256 + 128 + 8)
RIGHT_TRAININGS = [answers.trains, answers.detaches, answers.keeps_tensors_without_a_graph]


@pytest.mark.parametrize("mended", RIGHT_TRAININGS)
def test_a_training_that_forgets_gets_all_points(mended):
    points, words = outcome(leaks.check_leak, leaky, LINE, STEP, mended)
    assert points == 3, words


LEFT, SAME = "WRONG  mended: nothing is left behind: ", "WRONG  mended: the same losses: "
TRAININGS = [
    (leaky, 2, f"{LEFT}each step leaves 802,828 bytes behind, and at most 1,000 are allowed: as much as before"),
    (answers.detaches_nothing, 2, f"{LEFT}each step leaves 802,824 bytes behind"),
    (answers.cures_line_a_only, 2, "and at most 1,000 are allowed: as much as before"),
    (answers.keeps_something_else, 2, f"{LEFT}each step leaves 400,000 bytes behind, and at most 1,000 are allowed"),
    (answers.validates_no_more, 1, f"{SAME}after 7 steps there are 0 losses of validation, and leaky has 7"),
    (answers.makes_checks_up, 1, f"{SAME}loss 0 of validation is 0, and leaky's is "),
    (answers.draws_otherwise, 1, f"{SAME}loss 0 of training is "),
    (answers.learns_faster, 1, f"{SAME}loss 1 of training is "),
    (answers.yields_one_list, 1, "two lists are yielded, losses of training and of validation, not ["),
    (answers.returns_in_the_end, 1, "a generator is asked for, which yields after each step, as leaky does"),
    (answers.ends_early, 1, f"{SAME}8 steps are asked for, and it ended before step 3"),
    (answers.raises, 1, "raised ZeroDivisionError: division by zero"),
    (None, 0, "a function is asked for, not None"),
]


@pytest.mark.parametrize(("mended", "points", "says"), TRAININGS)
def test_a_training_that_does_not_forget_is_explained(mended, points, says):
    got, words = outcome(leaks.check_leak, leaky, LINE, STEP, mended)
    assert (got, says in words) == (points, True), words
    assert "leaks.py" not in words


@pytest.mark.parametrize(("line", "bytes_a_step", "points", "says"), [
    ("A", STEP, 2.5, "not A: backward has freed what this graph kept; four bytes are left"),
    ("B", STEP, 2.5, "not B: what is appended was taken from a detached tensor"),
    ("D", STEP, 2.5, "one of A, B, C is asked for, not 'D'"),
    (None, None, 2, "nothing here yet"),
    (LINE, STEP / 4, 2.5, "is in elements; bytes are asked for"),
    (LINE, STEP + 4 * 512 * 32, 2.5, "has the inputs, too; they are there anyway, once"),
    (LINE, STEP + 4 * 512 * 384, 2.5, "has both sides of each ReLU; its output is enough"),
    (LINE, STEP - 4 * 512 * 8, 2.5, "leaves out the difference, which its square keeps"),
    (LINE, STEP / 8, 2.5, "is for the 64 samples of a training batch"),
    (LINE, STEP / 1e6, 2.5, "0.8028 is in MB; bytes are asked for"),
    (LINE, STEP / 2**20, 2.5, "0.7656 is in MiB; bytes are asked for"),
    (LINE, 8 * STEP, 2.5, "6,422,528 is what all 8 steps leave behind; one is asked for"),
    (LINE, 4 * STEP, 2.5, "is what 4 steps leave behind; one is asked for"),
    (LINE, 5, 2.5, "5 is too little"),
])
def test_line_and_bytes_are_judged_by_themselves(line, bytes_a_step, points, says):
    got, words = outcome(leaks.check_leak, leaky, line, bytes_a_step, answers.trains)
    assert (got, says in words) == (points, True), words


def test_a_changed_training_is_no_oracle():
    with pytest.raises(CheckFailed, match="leaky is not what it was"):
        leaks.check_leak(answers.trains, LINE, STEP, answers.trains)
