"""`python -m helpers zero`, as a user calls it, and under torchrun."""
import re

import pytest

OURS = ("ZeRO-1", "ZeRO-2", "ZeRO-3")
MIXED = ", bf16 and fp32"


def tables(printed: str) -> list[dict[str, list[str]]]:
    """For each table, the cells of each row by its name."""
    found: list[dict[str, list[str]]] = []
    for block in printed.split("\n\n"):
        rows = (re.split(r" {2,}", line.strip()) for line in block.splitlines()[2:])
        found.append({name: cells for name, *cells in rows if cells})
    return found


@pytest.fixture(scope="module")
def printed(in_a_row) -> list[dict[str, list[str]]]:
    """With all defaults: seed 13, 4 ranks, Adam 0.05."""
    run = in_a_row["zero"]
    assert (run.status, run.err) == (0, "")
    assert run.out.startswith("20 steps of Adam, 4 ranks of 8 samples")
    return tables(run.out)


def test_c10_l78_every_stage_is_single_process_adam_and_the_loss_falls(printed):
    training, _ = printed
    for name in (*OURS, "PyTorch's DDP", "PyTorch's ZeroRedundancyOptimizer", "PyTorch's fully_shard"):
        before, after, difference = map(float, training[name][:3])
        assert difference < 1e-6
        assert [before, after] == list(map(float, training["one process"][:2]))
        assert after < before / 3


def test_c10_l78_an_optimizer_shard_is_5196_bytes_and_state_falls_by_56_2_percent_to_12124(printed):
    _, memory = printed
    assert memory["one process" + MIXED][:2] == ["27,712", "27,712"]
    assert memory["ZeRO-1" + MIXED] == ["12,124", "12,124", "5,196", "56.2%"]


@pytest.mark.parametrize(("name", "state", "optimizer"), [
    ("PyTorch's DDP", 16 * 1732, 8 * 1732), ("ZeRO-1", 8 * 1732 + 8 * 433, 8 * 433),
    ("ZeRO-2", 4 * 1732 + 12 * 433, 8 * 433), ("ZeRO-3", 16 * 433, 8 * 433),
    ("PyTorch's fully_shard", 16 * 433, 8 * 433), ("ZeRO-2" + MIXED, 2 * 1732 + 14 * 433, 12 * 433),
    ("ZeRO-3" + MIXED, 16 * 433, 12 * 433)])
def test_a_rank_holds_what_the_formula_says_to_the_byte(printed, name, state, optimizer):
    formula, held, of_optimizer, _ = printed[1][name]
    assert formula == held == f"{state:,}"
    assert of_optimizer == f"{optimizer:,}"


def test_our_stages_send_less_than_pytorchs(printed):
    sent = {name: int(cells[-1].replace(",", "")) for name, cells in printed[0].items() if len(cells) == 5}
    assert sent["ZeRO-1"] == sent["ZeRO-2"] < sent["ZeRO-3"] < sent["PyTorch's fully_shard"]
    assert sent["ZeRO-1"] < sent["PyTorch's ZeroRedundancyOptimizer"]


def test_it_runs_unchanged_under_torchrun_and_prints_once(under_torchrun):
    run = under_torchrun["zero"]
    assert run.status == [0, 0], run.err
    assert run.out.count("2 steps of Adam, 2 ranks of 8 samples") == 1
    assert float(tables(run.out)[0]["ZeRO-3"][2]) < 1e-6


@pytest.mark.parametrize("wrong", [("--num-steps", "0"), ("--batch-size", "0"), ("--world-size", "0")])
def test_what_cannot_be_is_refused_in_a_sentence(here, wrong):
    run = here("zero", *wrong)
    assert run.status == 2
    assert (len(run.out.splitlines()), run.err) == (1, "")
