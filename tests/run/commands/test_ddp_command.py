"""`python -m helpers ddp-demo` and `ddp`, as a user calls them, and under torchrun."""
import json
import sys

import pytest

from tests.run.commands.conftest import TORCHRUN, call


@pytest.fixture
def outcome(in_a_row):
    return json.loads((in_a_row["ddp-demo"].folder / "outputs/ddp-demo.json").read_text())


def test_c10_l48_the_demo_writes_what_it_prints(in_a_row, outcome):
    run = in_a_row["ddp-demo"]
    assert (run.status, run.err) == (0, "")
    assert [path.name for path in (run.folder / "outputs").iterdir()] == ["ddp-demo.json"]
    assert all(f"{loss:.4f}" in run.out for loss in outcome["losses"])
    assert outcome["parameter_spread"] == 0
    assert outcome["gradient_difference"] < 1e-6
    assert outcome["bytes_sent_in_a_step"]["formula"] == 4 * 1732            # 2 (N-1)/N of them, N = 2
    assert outcome["bytes_sent_in_a_step"]["measured"] >= 4 * 1732


def test_c11_defaults_are_2_ranks_gloo_6_steps_8_samples_seed_0(outcome):
    assert {key: outcome[key] for key in ("world_size", "backend", "num_steps", "batch_size", "seed")} == {
        "world_size": 2, "backend": "gloo", "num_steps": 6, "batch_size": 8, "seed": 0}
    assert len(outcome["losses"]) == 6


def test_c10_every_option_is_taken_and_no_write_writes_nothing(here):
    run = here("ddp-demo", "--world-size", "4", "--backend", "gloo", "--num-steps", "3", "--batch-size", "5",
               "--seed", "9", "--no-write")
    assert (run.status, list(run.folder.iterdir())) == (0, [])
    assert "DDP on 4 ranks, 5 samples each" in run.out
    assert "loss of step 2" in run.out
    assert "loss of step 3" not in run.out
    spread = next(line for line in run.out.splitlines() if line.startswith("spread of parameters"))
    assert float(spread.split()[-1]) == 0                                   # the card asks for less than 1e-3
    other = here("ddp-demo", "--world-size", "4", "--num-steps", "3", "--batch-size", "5", "--no-write")
    assert "loss of step 2" in other.out
    assert other.out != run.out                                             # of seed 0


def test_c10_l77_one_process_and_ddp_on_4_ranks_end_at_the_same_norm(in_a_row):
    run = in_a_row["ddp"]
    assert (run.status, run.err) == (0, "")
    assert "20 steps, 4 ranks of 8 samples" in run.out
    rows = [line.split() for line in run.out.splitlines() if line.startswith(("one process", "our DDP", "PyTorch"))]
    assert len(rows) == 3
    assert len({row[-2] for row in rows}) == 1
    assert all(float(row[-1]) < 1e-6 for row in rows)
    assert float(rows[0][-3]) < float(rows[0][-4])                          # the loss has fallen


def test_both_run_unchanged_under_torchrun_and_print_once(under_torchrun):
    demo, compared = under_torchrun["ddp-demo"], under_torchrun["ddp"]
    assert demo.status == compared.status == [0, 0], demo.err + compared.err
    assert demo.out.count("DDP on 2 ranks, 8 samples each") == 1
    assert json.loads((demo.folder / "outputs/ddp-demo.json").read_text())["gradient_difference"] < 1e-6
    assert compared.out.count("2 steps, 2 ranks of 8 samples") == 1         # torchrun's number; the command's is 4


@pytest.mark.parametrize(("arguments", "says"), [
    (("ddp-demo", "--num-steps", "0"), "steps and batch are 1 or more"),
    (("ddp-demo", "--batch-size", "-1"), "steps and batch are 1 or more"),
    (("ddp", "--world-size", "0"), "world_size"),
    (("ddp-demo", "--backend", "nccl"), "the backend is gloo"),
])
def test_what_cannot_be_is_told_in_a_line(arguments, says, here):
    run = here(*arguments)
    assert (run.status, list(run.folder.iterdir())) == (2, [])
    assert says in run.out
    assert (len(run.out.splitlines()), run.err) == (1, "")


def test_torchrun_with_another_number_of_ranks_is_refused(under_torchrun):
    run = under_torchrun["three ranks"]
    assert run.status == [2, 2]
    assert "torchrun has started 2 ranks, and 3 are asked for" in run.out
    assert not list(run.folder.iterdir())


@pytest.mark.soak
@pytest.mark.parametrize(("arguments", "world_size", "says"), [
    (["ddp-demo"], 2, "DDP on 2 ranks, 8 samples each"),
    (["ddp", "--num-steps", "2"], 3, "2 steps, 3 ranks of 8 samples"),
    (["zero", "--num-steps", "2"], 2, "2 steps of Adam, 2 ranks of 8 samples"),
    (["pipeline", "--schedule", "ZB-V", "--num-microbatches", "4", "--unit-ms", "5"], 2,
     "ZB-V, 2 ranks, 4 microbatches"),
])
def test_each_command_runs_under_a_torchrun_of_its_own_and_prints_once(arguments, world_size, says, tmp_path):
    run = call(*TORCHRUN, str(world_size), "-m", "helpers", *arguments, cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    assert run.stdout.count(says) == 1


@pytest.mark.soak
def test_a_torchrun_with_another_number_of_ranks_fails(tmp_path):
    run = call(*TORCHRUN, "2", "-m", "helpers", "ddp-demo", "--world-size", "3", cwd=tmp_path)
    assert run.returncode != 0
    assert "torchrun has started 2 ranks, and 3 are asked for" in run.stdout


@pytest.mark.soak
@pytest.mark.parametrize("command", ["doctor", "ddp-demo", "ddp", "zero", "pipeline"])
def test_each_command_ends_well_in_a_process_of_its_own(command, tmp_path, in_a_row):
    run = call(sys.executable, "-m", "helpers", command, cwd=tmp_path)
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.split()[:4] == in_a_row[command].out.split()[:4]
