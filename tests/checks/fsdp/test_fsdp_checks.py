"""The checks of set 06 accept every right answer, and say of a wrong one what is wrong."""
import functools
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
import torch
from torch.distributed.fsdp import fully_shard

from helpers.checks.fsdp import clipping, layer_at_a_time, step_numbers, wrapping
from helpers.checks.judge import real_ranks
from helpers.checks.judge.live_peak import LivePeak
from helpers.run.launch import launch
from helpers.run.measure.meters import wire
from helpers.run.models import mlp
from tests.checks import answers_odd
from tests.checks.answers import Generous, TrueForEverything
from tests.checks.fsdp import fsdp_answers as fsdp
from tests.checks.outcome import outcome

CHECKS = {      # both checks of an exercise, and the points of the one that a learner sees; the other gives 1
    "lend": (layer_at_a_time.check_layer_at_a_time, layer_at_a_time.check_layer_at_a_time_unseen, 4),
    "wrap": (wrapping.check_wrap, wrapping.check_wrap_unseen, 3),
    "clip": (clipping.check_clip, clipping.check_clip_unseen, 3),
}
PRAISE = {"lend": "Lent, used, given back.", "wrap": "Sharded, lent, and trained.",
          "clip": "One norm, and all ranks know it."}
RIGHT = {
    "lend": [fsdp.gathers_padded_chunks, fsdp.broadcasts_chunks, fsdp.has_two_buffers, fsdp.lets_autograd_do_a_layer],
    "wrap": [fsdp.names_a_mesh, fsdp.looks_for_blocks, fsdp.wraps_a_copy, fsdp.has_groups_of_parameters],
    "clip": [fsdp.starts_the_sum_and_works_on, fsdp.counts_replicated_ones_by_parts, fsdp.gathers_norms,
             fsdp.lets_rank_0_count_the_replicated, functools.partial(fsdp.lets_torch_clip)],
}
ALSO_UNSEEN = (fsdp.gathers_padded_chunks, fsdp.names_a_mesh, fsdp.gathers_norms)        # the others take their time
LEND = "WRONG  shards of the mean gradient: "
FIRST = f"{LEND}layer 0 of [5, 3] on rank 0 of 4: "
CHUNK = "a flat tensor of 4 elements is asked for, its chunk, not "
ALIVE = " full layers were alive at once, besides shards and activations; 3 are allowed. Is a matrix kept, or a view of"
SENDS = "WRONG  gathered twice, reduced once: a rank sends "
ALONE = "on real ranks: rank 0 of 4 waited for a rank that had already returned"
WRAP = "WRONG  trains as one process does: "
AFTER = f"{WRAP}after three steps, on rank 0: "
UNITS = "WRONG  a block at a time: a step has "
NO_UNIT = "at the median: it is in no unit, so nobody takes the mean of its gradient"
NORM = "WRONG  the norm of the whole gradient: "
FLAT = f"{NORM}sharded [3, 4], replicated none, limit 1: rank 0 of 4 returned "
BOTH = f"{NORM}sharded [3, 0, 0, 4, 0] [0, 12], replicated [84], limit 17: rank 0 of 4 returned "
SCALED = "WRONG  scaled where it is above the limit: sharded "
AS_IT_WAS = "it is as it was. Is it changed in place?"
FROM_WHERE = "no rank sends more than 0 bytes, and"
# The answer, its points, those of the unseen cases (None: they are not run, to save time), and what a learner reads: of
# the cases that he sees, or if these are right, of the unseen ones.
WRONG = {
    "lend": [
        (fsdp.sums_only, 0, None, f"{FIRST}element 0 is 55, expected 13.75: that is the sum over ranks, not the mean"),
        (fsdp.divides_twice, 0, None, f"{FIRST}element 0 is 3.4375, expected 13.75: that is divided twice"),
        (fsdp.takes_its_own_gradient, 0, None, f"{FIRST}element 0 is 5, expected 13.75: that is its own gradient\n"),
        (fsdp.takes_four_ranks_for_granted, 4, 0, "unseen cases: layer 0 of [3, 2] on rank 0 of 3: element 0 is 1.5, "),
        (fsdp.transposes_the_gradient, 0, None, f"{FIRST}element 1 is -55.25, expected 25.5: that is the transposed "),
        (fsdp.gives_the_loss_something_else, 0, None, f"{FIRST}element 0 is -0.25, expected 13.75\n"),
        (fsdp.looks_into_the_check, 0, None, f"{LEND}{FROM_WHERE} 198 are needed: where are the others' numbers from?"),
        (fsdp.returns_from_the_last, 0, None, f"{FIRST}{CHUNK}one of 2 elements"),
        (fsdp.returns_whole_gradients, 0, None, f"{FIRST}{CHUNK}one of shape [5, 3]"),
        (fsdp.returns_matrices, 0, None, f"{FIRST}{CHUNK}one of shape [1, 4]"),
        (fsdp.returns_a_number, 0, None, f"{FIRST}{CHUNK}one of shape []"),
        (fsdp.returns_arrays, 0, None, f"{FIRST}{CHUNK}array([ 13.75,  25.5 , -15.5 , -55.25], dtype=float32) of type"),
        (fsdp.forgets_the_last_layer, 0, None, f"{LEND}rank 0 returned 2; a list of 3 is asked for, a gradient for ea"),
        (fsdp.returns_nothing, 0, None, f"{LEND}rank 0 returned None of type NoneType; a list of 3 is asked for, a gr"),
        (fsdp.yields_instead_of_returning, 0, None, f"{LEND}rank 0 returned <generator object yields_instead_of_retur"),
        (fsdp.keeps_all_matrices, 1, None, f"with 8 layers of 16,384 elements on 4 ranks, 8.0{ALIVE}"),
        (fsdp.keeps_views, 2, None, ALIVE),
        (fsdp.reduces_all, 3, None, "headers: two all_gathers and one reduce_scatter. It is as much as with an all_"),
        (fsdp.gathers_three_times, 3, None, "headers: two all_gathers and one reduce_scatter\n3 of 4 points."),
        (fsdp.needs_even_chunks, 0, None, "    The ranks gave tensors of different sizes or dtypes to one call.\n"),
        (fsdp.updates_its_shards, 0, None, f"{LEND}the shard of layer 0 on rank 0 was changed; step reads its argum"),
        (fsdp.clears_its_input, 0, None, f"{LEND}x on rank 0 was changed; step reads its arguments only"),
        (fsdp.lends_on_rank_0_only, 0, None, f"{LEND}{ALONE}"),
        (fsdp.divides_by_zero, 0, None, 'ZeroDivisionError: division by zero\n  File "ddp_answers.py", line '),
        (fsdp.is_not_written_yet, 0, 0, f"{LEND}is not written yet\n"),
        (fsdp.uses_the_courses_zero, 0, None, "uses helpers.run.zero, which this exercise asks you to do without"),
        (None, 0, 0, "a function is asked for, not None of type NoneType"),
    ],
    "wrap": [
        (fsdp.is_careless, 0, None, f"{AFTER}no parameter has moved: which parameters does the optimizer have?"),
        (fsdp.shards_the_model_only, 2, None, f"{UNITS}1 all_gathers and 1 reduce_scatters for 3 blocks: several b"),
        (fsdp.shards_blocks_in_pairs, 2, None, "4 reduce_scatters for 3 blocks: several blocks are one unit"),
        (fsdp.splits_each_block, 2, None, "7 reduce_scatters for 3 blocks: there are more units than blocks and the"),
        (fsdp.keeps_blocks, 2, None, f"{UNITS}4 all_gathers and 4 reduce_scatters for 3 blocks: blocks stay gath"),
        (fsdp.keeps_the_last_block, 2, None, f"{UNITS}6 all_gathers and 4 reduce_scatters for 3 blocks: blocks s"),
        (fsdp.forgets_the_model, 0, None, NO_UNIT),
        (fsdp.shards_the_model_first, 0, None, "Invariant encountered: value was None when it should not be\n  File"),
        (fsdp.wraps_in_ddp, 0, None, f"{AFTER}there is no parameter tokens.weight any more, or it has another shape"),
        (fsdp.unties_the_output, 0, None, f"{AFTER}there is a parameter output.weight that was not there: is one tens"),
        (fsdp.trains_blocks_only, 0, None, "at the median: it has not moved. Does the optimizer have it?"),
        (fsdp.ignores_the_rate, 0, None, f"{AFTER}tokens.weight is "),
        (fsdp.decays_weights, 0, None, f"{WRAP}the optimizer has a weight decay; torch.optim.Adam(parameters, lr) has"),
        (fsdp.returns_the_optimizer_first, 0, None, f"{WRAP}rank 0 returned 2 things: Adam, FSDPGPT; the model and an"),
        (fsdp.returns_nothing, 0, None, f"{WRAP}rank 0 returned NoneType; the model and an optimizer are asked for, i"),
        (fsdp.takes_two_ranks_for_granted, 3, 0, "unseen cases: on real ranks: "),
        (fsdp.wraps_on_rank_0_only, 0, None, "rank 0 of 2 waited for a rank that had already returned\n  rank 0 waits"),
        (fsdp.leaves_with_sys_exit, 0, None, 'ranks 0 and 1 of 2 raised SystemExit: 0\n  File "fsdp_answers.py", line'),
        (fsdp.is_not_written_yet, 0, 0, f"{WRAP}is not written yet\n"),
        (..., 0, 0, "a function is asked for, not Ellipsis of type ellipsis"),
    ],
    "clip": [
        (fsdp.takes_its_own_norm, 0, None, f"{FLAT}3, expected 5: that is of its own shards\n"),
        (fsdp.clips_by_torch_on_each_rank, 0, None, f"{FLAT}3, expected 5: that is of its own shards\n"),
        (fsdp.counts_replicated_ones_on_each_rank, 0, None, f"{BOTH}168.5022, expected 85: that counts the replicated "
                                                            "ones once for each rank\n"),
        (fsdp.forgets_the_replicated, 0, None, f"{BOTH}13, expected 85: that leaves out the replicated ones\n"),
        (fsdp.adds_norms, 0, None, f"{FLAT}7, expected 5: that is the sum of the ranks' norms, and squares add up\n"),
        (fsdp.forgets_the_root, 0, None, f"{FLAT}25, expected 5: that is the square\n"),
        (fsdp.takes_the_mean, 0, None, f"{FLAT}2.5, expected 5\n"),
        (fsdp.divides_by_four, 3, 0, "unseen cases: sharded [0] [7, 24, 0], replicated [60, 0] [0], limit 13: rank 0 "),
        (fsdp.cuts_each_element, 0, None, f"{FLAT}1.414214, expected 5\n"),
        (fsdp.returns_the_norm_after, 0, None, f"{FLAT}0.9999998, expected 5\n"),
        (fsdp.returns_no_norm, 0, None, f"{NORM}rank 0 returned None of type NoneType; the norm, a number, is asked f"),
        (fsdp.returns_norm_and_factor, 0, None, f"{NORM}rank 0 returned (5.0, 0.2) of type tuple; the norm, a number,"),
        (fsdp.scales_always, 2, None, f"{SCALED}[0.003, 0.003, 0.003, 0.003, 0.003, 0.003, 0.003, 0.003, ...], "
                                      "replicated [0.1, 0.2], limit 10: on rank 0 0.003 of a sharded gradient became "
                                      "0.0801756, expected 0.003: a norm below the limit is no reason to scale\nok"),
        (fsdp.scales_copies, 2, None, f"{SCALED}[3, 4], replicated none, limit 1: on rank 0 3 of a sharded gradient "
                                      f"became 3, expected 0.6: {AS_IT_WAS}"),
        (fsdp.scales_shards_only, 2, None, "on rank 0 84 of a replicated gradient became 84, expected 16.8: it"),
        (fsdp.scales_replicated_ones_on_rank_0, 2, None, "on rank 1 84 of a replicated gradient became 84, expected 1"),
        (fsdp.forgets_epsilon, 3, 0, "gradient became nan, expected 0: is something divided by a norm of 0?"),
        (fsdp.reduces_each_shard, 2, 0, "2 calls of torch.distributed (all_reduce, all_reduce); one is enough\n"),
        (fsdp.gathers_gradients, 2, None, "WRONG  one number travels: a rank sends 2,955 bytes; one number is enough"),
        (fsdp.takes_the_largest_of_each, 0, None, f"{NORM}on real ranks: ranks 2 and 3 of 4 raised RuntimeError: max("),
        (fsdp.leaves_out_ranks_without_elements, 0, None, "ranks 0 and 1 of 4 waited for a rank that had already retu"),
        (fsdp.needs_flat_gradients, 0, None, "Tensors must have same number of dimensions: got 2 and 1\n  File"),
        (fsdp.needs_sharded_ones, 3, 0, "unseen cases: on real ranks: ranks 0, 1 and 2 of 3 raised ValueError"),
        (fsdp.asks_the_check_for_the_norm, 0, None, f"{NORM}{FROM_WHERE} 8 are needed: where are the others' numbers "),
        (fsdp.is_not_written_yet, 0, 0, f"{NORM}is not written yet\n"),
        (fsdp.uses_the_courses_prediction, 0, None, "uses helpers.predict, which this exercise asks you to do wi"),
        (13.0, 0, 0, "a function is asked for, not 13.0 of type float"),
    ],
}


@pytest.mark.parametrize(("name", "function"), [(name, function) for name, some in RIGHT.items() for function in some])
def test_a_right_answer_gets_all_points(monkeypatch, name, function):
    check, unseen, most = CHECKS[name]
    got, words = outcome(check, function)
    assert (got, PRAISE[name] in words, "WRONG" in words) == (most, True, False), words
    monkeypatch.setattr(wrapping, "OTHERS", (wrapping.WrapCase(2, 64, 3),))
    if function in ALSO_UNSEEN:
        got, words = outcome(unseen, function)
        assert (got, "It holds anywhere." in words) == (1, True), words


@pytest.mark.parametrize(("name", "function", "points", "points_unseen", "says"),
                         [(name, *case) for name, cases in WRONG.items() for case in cases])
def test_a_wrong_answer_is_told_what_is_wrong(monkeypatch, name, function, points, points_unseen, says):
    monkeypatch.setattr(wrapping, "SEEN", wrapping.WrapCase(3, 64))              # smaller ones, to save time
    monkeypatch.setattr(wrapping, "OTHERS", (wrapping.WrapCase(2, 64, 3),))
    check, unseen, most = CHECKS[name]
    got, words = outcome(check, function)
    got_unseen, words_unseen = (None, "") if points_unseen is None else outcome(unseen, function)
    assert (got, got_unseen) == (points, points_unseen)
    assert says in (words if points < most else words_unseen)


@pytest.mark.parametrize(("name", "file"), [("lend", "lending.py"), ("wrap", "wrapping.py"), ("clip", "clipping.py")])
def test_no_line_of_a_check_is_shown(name, file):
    points, words = outcome(CHECKS[name][0], fsdp.takes_no_arguments)
    assert points == 0
    assert "raised TypeError: takes_no_arguments() takes 0 positional arguments but " in words
    assert file not in words
    assert "alive.py" not in words


@pytest.mark.parametrize("name", CHECKS)
def test_an_answer_that_never_ends_is_shown_where_it_is_after_one_deadline(monkeypatch, name):
    runs, launch = [], real_ranks.launch
    monkeypatch.setattr(real_ranks, "DEADLINE_S", 1.0)
    monkeypatch.setattr(real_ranks, "launch", lambda *case, **options: runs.append(1) or launch(*case, **options))
    points, words = outcome(CHECKS[name][0], fsdp.never_ends)
    assert points == 0
    assert "on real ranks: not done after 1 s\n" in words
    assert "in never_ends: " in words
    assert len(runs) == 1


def test_the_kernels_own_settings_change_nothing():
    """A notebook may have changed the default dtype, or switched gradients off."""
    with torch.no_grad():
        torch.set_default_dtype(torch.float64)
        try:
            points, words = outcome(layer_at_a_time.check_layer_at_a_time, fsdp.has_two_buffers)
        finally:
            torch.set_default_dtype(torch.float32)
    assert points == 4, words


def test_what_is_alive_is_counted_by_storage_after_every_operation():
    known = torch.ones(100)
    with LivePeak([known], most=10**9) as alive:
        one = known + 1                             # 400 bytes
        views = one[:3], one.view(10, 10)           # none
        del one
        two = views[1] * 2 + 1                      # 400, and as many for a moment
        del views
        two.flatten().add_(known)
    assert alive.peak == 1200


# 2. freed or kept -----------------------------------------------------------------------------------------------------
FULL = 4 * 8 * 512**2
BYTES = {"freed": 3 * FULL, "kept": 9 / 4 * FULL}           # (2 + 2) and (1 + 2) times 3/4
GATHERS = {"freed": 16, "kept": 8}


def one_step(rank, world_size, reshard, num_steps=1):
    model = mlp(width=512, depth=8)
    for block in model:
        fully_shard(block, reshard_after_forward=reshard)
    fully_shard(model, reshard_after_forward=reshard)
    with wire() as counted:
        for _ in range(num_steps):
            model(torch.ones(4, 512)).sum().backward()
    return counted.sent


@pytest.fixture(scope="module")
def measured():
    """As a learner measures; and the number of all_gathers is what torch calls."""
    runs = {"freed": launch(one_step, 4, True), "kept": launch(one_step, 4, False)}
    counted = {mode: sum(span.rank == 0 and span.kind.startswith("all_gather") for span in run.trace)
               for mode, run in runs.items()}
    assert counted == GATHERS
    return {mode: run.results for mode, run in runs.items()}


def short(value):
    return f"{value:.40}" if isinstance(value, str) else type(value).__name__


@pytest.mark.parametrize("kind", [float, int, Fraction, Decimal, np.float64, np.int64, torch.tensor])
def test_right_numbers_of_any_kind_get_all_points(measured, kind):
    answer = ({mode: kind(value) for mode, value in some.items()} for some in (BYTES, GATHERS))
    points, words = outcome(step_numbers.check_fsdp_step, *answer, {mode: tuple(map(kind, sent))
                                                               for mode, sent in measured.items()})
    assert (points, "Foretold, and so it was." in words) == (4, True), words


SPARING = "is that of a reduce_scatter that sends no more than it must; gloo's sends as much as an all_reduce"
ASKED = "a number is asked for, not "


@pytest.mark.parametrize(("mode", "value", "says"), [
    ("freed", 9 / 4 * FULL, f"bytes, freed: 18,874,368 is that of the other mode, or {SPARING}"),
    ("freed", 3 / 2 * FULL, "12,582,912 is what DDP sends"), ("freed", 3 / 4 * FULL, "is in elements; bytes are asked"),
    ("freed", 4 * FULL, "33,554,432 is without (N-1)/N: a rank keeps its own part"),
    ("kept", 3 / 2 * FULL, f"bytes, kept: 12,582,912 {SPARING}"), ("kept", 9 / 16 * FULL, "is in elements; bytes are"),
    ("kept", 3 * FULL, "25,165,824 is that of the other mode, or is without (N-1)/N: a rank keeps its own part"),
    ("kept", FULL, "8,388,608 is too little"), ("freed", 12 * FULL, "100,663,296 is too much"),
    ("freed", "25 MB", f"{ASKED}'25 MB' of type str"), ("kept", True, f"{ASKED}True of type bool"),
    ("kept", [3 * FULL] * 4, f"{ASKED}[25165824, "), ("freed", float("nan"), f"{ASKED}nan"),
    ("freed", Generous(3 * FULL), "of type Generous"), ("kept", TrueForEverything(), "of type TrueForEverything"),
    ("kept", 10**5000, f"{ASKED}something of type int"), ("freed", None, "nothing here yet"),
    ("kept", ..., "nothing here yet")], ids=short)
def test_wrong_bytes_are_explained_and_cost_one_point(measured, mode, value, says):
    points, words = outcome(step_numbers.check_fsdp_step, {**BYTES, mode: value}, GATHERS, measured)
    assert (points, says in words, words.count("WRONG")) == (3, True, 1), words


@pytest.mark.parametrize(("mode", "value", "says"), [
    ("freed", 17, "WRONG  all_gathers: freed: not 17 of type int: how many units, and how often is each gathered?"),
    ("freed", 8, "freed: not 8 of type int"), ("kept", 9, "kept: not 9 of type int"), ("kept", 16, "kept: not 16 of"),
    ("kept", "8", "kept: not '8' of type str"), ("freed", True, "not True of type bool"), ("freed", [16], "not [16] o"),
    ("kept", TrueForEverything(), "of type TrueForEverything"), ("kept", None, "WRONG  all_gathers: nothing here yet")],
    ids=short)
def test_a_wrong_number_of_all_gathers_is_explained_and_costs_one_point(measured, mode, value, says):
    points, words = outcome(step_numbers.check_fsdp_step, BYTES, {**GATHERS, mode: value}, measured)
    assert (points, says in words, words.count("WRONG")) == (3, True, 1), words


NOT_ONE = "bytes, which is not what one step of this model sends"
LIKELY = {mode: [1.001 * value] * 4 for mode, value in BYTES.items()}
WRONG_MEASURED = {
    "gives_one_number": ({**LIKELY, "freed": 3.003 * FULL}, "measured['freed'] is a list of bytes for each of 4 ranks"),
    "gives_two_ranks": ({**LIKELY, "kept": LIKELY["kept"][:2]}, "measured['kept'] is a list of bytes for each of 4 ra"),
    "gives_one_mode": ({"freed": LIKELY["freed"]}, "measured['kept'] is a list of bytes for each of 4 ranks, not None"),
    "gives_a_list": ([LIKELY["freed"], LIKELY["kept"]], "WRONG  both measured: nothing here yet"),
    "gives_texts": ({**LIKELY, "freed": ["25 MB"] * 4}, "measured['freed'] has '25 MB' of type str for rank 0; bytes "),
    "gives_nan": ({**LIKELY, "freed": [float("nan")] * 4}, "measured['freed'] has nan of type float for rank 0; bytes"),
    "equals_all": ({**LIKELY, "freed": [Generous(3.003 * FULL)] * 4}, "of type Generous for rank 0; bytes are asked f"),
    "gives_the_formula": ({mode: [value] * 4 for mode, value in BYTES.items()}, "exactly the formula. Is it measured?"),
    "has_one_rank_right": ({**LIKELY, "kept": [2.253 * FULL, 0, 0, 0]}, f"kept: rank 1 sends 0 {NOT_ONE}\n"),
    "turns_modes_around": ({"freed": LIKELY["kept"], "kept": LIKELY["freed"]}, f"{NOT_ONE}: that is the other mode's"),
    "counts_two_steps": ({**LIKELY, "freed": [6.006 * FULL] * 4}, f"{NOT_ONE}: that is 2 steps\n"),
    "counts_forward_only": ({**LIKELY, "freed": [0.7501 * FULL] * 4}, f"{NOT_ONE}\n"),
}


@pytest.mark.parametrize(("value", "says"), WRONG_MEASURED.values(), ids=WRONG_MEASURED)
def test_what_was_not_measured_is_explained_and_costs_one_point(value, says):
    points, words = outcome(step_numbers.check_fsdp_step, BYTES, GATHERS, value)
    assert (points, says in words, words.count("WRONG")) == (3, True, 1), words


@pytest.mark.parametrize("value", [pytest.param(value, id=name) for name, value in answers_odd.VALUES.items()])
def test_an_odd_value_is_no_number(value):
    assert outcome(step_numbers.check_fsdp_step, value, value, value)[0] == 0
    both = {"freed": value, "kept": value}
    assert outcome(step_numbers.check_fsdp_step, both, both, {"freed": [value] * 4, "kept": [value] * 4})[0] == 0


def test_nothing_at_all_gets_nothing():
    for nothing in (None, ..., {}, {"freed": None, "kept": None}):
        assert outcome(step_numbers.check_fsdp_step, nothing, nothing, nothing) == (0, "nothing here yet")
