"""What the tables and curves of the zero-bubble paper (arXiv:2401.10241) say besides their figures."""
import pytest

from helpers.facts.bubbles import bubble_rate
from helpers.facts.schedules import interleaved, zb_h1
from helpers.predict.pipeline import simulate
from tests.published.test_pipeline_figures import (
    CASES,
    PRINTED,
    TABLES_5_AND_8,
    calculated,
    interleaved_rate,
    published,
    rate_of_zb_v,
    stage_times,
)

FIGURE_9 = [case_id for case_id in CASES if case_id.startswith("zb-fig9-")]
NEVER_0 = "zb-fig9-6.2B-p16-m48"        # its limit for no bubble is 47 of its 48 microbatches


@pytest.mark.parametrize("case_id", TABLES_5_AND_8)
def test_interleaved_1f1b_is_printed_2_to_4_percent_low_for_want_of_p_transfers(case_id):
    """Tables 5 and 8 of arXiv:2401.10241; the critical path has 2pv - 2 transfers, and the table 2pv - p - 2."""
    inputs = CASES[case_id]["inputs"]
    p, m, v = inputs["p"], inputs["m"], inputs["interleave_v"]
    stage, send_s = stage_times(inputs)
    chunk = {kind: time / v for kind, time in stage.items()}
    played = bubble_rate(simulate(interleaved(p, m, v), chunk, send_s=send_s))
    assert played == pytest.approx(interleaved_rate(inputs, 2 * p * v - 2), rel=1e-9)
    assert 1.02 < played / float(CASES[case_id]["published"]["1F1B-I"]) < 1.045


@pytest.mark.parametrize("case_id", TABLES_5_AND_8)
def test_the_rate_of_zb_h2_with_transfers_has_a_closed_form(case_id):
    inputs = CASES[case_id]["inputs"]
    stage, send_s = stage_times(inputs)
    idle = (inputs["p"] - 1) * (stage["F"] + stage["I"] - 2 * stage["W"] + 2 * send_s)
    assert calculated(case_id)["ZB-H2"] == pytest.approx(idle / (idle + inputs["m"] * sum(stage.values())), rel=1e-9)


@pytest.mark.parametrize("case_id", FIGURE_9)
def test_the_curves_of_figure_9_start_at_zb_h1_and_near_zb_v_and_end_where_the_two_limits_say(case_id):
    inputs, curves = CASES[case_id]["inputs"], CASES[case_id]["published"]
    p, m, chunk = inputs["p"], inputs["m"], inputs["chunk_times_us"]
    stage, send_s = stage_times(inputs)
    assert f"{bubble_rate(simulate(zb_h1(p, m), stage, send_s=send_s)):.5f}" == f"{curves['ZB'][0]:.5f}"
    v = rate_of_zb_v(p, m, chunk["F"], chunk["B"], chunk["W"], send_s)["ZB-V"]
    assert v == pytest.approx(curves["ZBV"][0], rel=0.032)
    held = [round(k * p) for k in inputs["k_over_pMB"]]
    plateau, zero = (PRINTED[published(f"zb-memlimit/{key}")](p, stage["F"], stage["I"], send_s)
                     for key in ("plateau", "full_zero"))
    falling = [rate for k, rate in zip(held, curves["ZB"], strict=True) if k < plateau]
    flat = {rate for k, rate in zip(held, curves["ZB"], strict=True) if plateau <= k <= 2.75 * p}
    assert falling == sorted(set(falling), reverse=True)
    assert len(flat) == 1
    assert max(flat) < falling[-1]
    zeros = [k for k, rate in zip(held, curves["ZB"], strict=True) if rate == 0]
    assert zeros[:1] == ([] if case_id == NEVER_0 else [zero - 1])          # the limit is enough, one less is, too
