"""`python -m helpers ddp-demo` and `ddp`, as a user calls them, and under torchrun."""
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node"]


def called(*arguments: str, cwd: Path, through: tuple[str, ...] = (sys.executable,)) -> subprocess.CompletedProcess:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run([*through, "-m", "helpers", *arguments], cwd=cwd, env=environment, capture_output=True,
                          text=True, timeout=120)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Called with all defaults."""
    folder = tmp_path_factory.mktemp("written")
    return called("ddp-demo", cwd=folder), folder


def test_c10_l48_the_demo_writes_what_it_prints(written):
    run, folder = written
    outcome = json.loads((folder / "outputs/ddp-demo.json").read_text())
    assert run.returncode == 0
    assert [path.name for path in (folder / "outputs").iterdir()] == ["ddp-demo.json"]
    assert all(f"{loss:.4f}" in run.stdout for loss in outcome["losses"])
    assert outcome["parameter_spread"] == 0
    assert outcome["gradient_difference"] < 1e-6
    assert outcome["bytes_sent_in_a_step"]["formula"] == 4 * 1732            # 2 (N-1)/N of them, N = 2
    assert outcome["bytes_sent_in_a_step"]["measured"] >= 4 * 1732


def test_c11_defaults_are_2_ranks_gloo_6_steps_8_samples_seed_0(written):
    _, folder = written
    outcome = json.loads((folder / "outputs/ddp-demo.json").read_text())
    assert {key: outcome[key] for key in ("world_size", "backend", "num_steps", "batch_size", "seed")} == {
        "world_size": 2, "backend": "gloo", "num_steps": 6, "batch_size": 8, "seed": 0}
    assert len(outcome["losses"]) == 6


def test_c10_every_option_is_taken_and_no_write_writes_nothing(tmp_path):
    run = called("ddp-demo", "--world-size", "4", "--backend", "gloo", "--num-steps", "3", "--batch-size", "5",
                 "--seed", "9", "--no-write", cwd=tmp_path)
    assert (run.returncode, list(tmp_path.iterdir())) == (0, [])
    assert "DDP on 4 ranks, 5 samples each" in run.stdout
    assert "loss of step 2" in run.stdout
    assert "loss of step 3" not in run.stdout
    spread = next(line for line in run.stdout.splitlines() if line.startswith("spread of parameters"))
    assert float(spread.split()[-1]) == 0                                   # the card asks for less than 1e-3
    other = called("ddp-demo", "--world-size", "4", "--num-steps", "3", "--batch-size", "5", "--no-write", cwd=tmp_path)
    assert other.stdout != run.stdout                                       # of seed 0


def test_c10_l77_one_process_and_ddp_on_4_ranks_end_at_the_same_norm(tmp_path):
    run = called("ddp", cwd=tmp_path)
    assert "20 steps, 4 ranks of 8 samples" in run.stdout
    rows = [line.split() for line in run.stdout.splitlines() if line.startswith(("one process", "our DDP", "PyTorch"))]
    assert len(rows) == 3
    assert len({row[-2] for row in rows}) == 1
    assert all(float(row[-1]) < 1e-6 for row in rows)
    assert float(rows[0][-3]) < float(rows[0][-4])                          # the loss has fallen


def test_both_run_unchanged_under_torchrun_and_print_once(tmp_path):
    demo = called("ddp-demo", cwd=tmp_path, through=(*TORCHRUN, "2"))
    assert demo.returncode == 0, demo.stderr
    assert demo.stdout.count("DDP on 2 ranks, 8 samples each") == 1
    assert json.loads((tmp_path / "outputs/ddp-demo.json").read_text())["gradient_difference"] < 1e-6
    compared = called("ddp", "--num-steps", "2", cwd=tmp_path, through=(*TORCHRUN, "3"))
    assert compared.returncode == 0, compared.stderr
    assert compared.stdout.count("2 steps, 3 ranks of 8 samples") == 1


@pytest.mark.parametrize(("arguments", "says"), [
    (("ddp-demo", "--num-steps", "0"), "steps and batch are 1 or more"),
    (("ddp-demo", "--batch-size", "-1"), "steps and batch are 1 or more"),
    (("ddp", "--world-size", "0"), "world_size"),
    (("ddp-demo", "--backend", "nccl"), "the backend is gloo"),
])
def test_what_cannot_be_is_told_in_a_line(arguments, says, tmp_path):
    run = called(*arguments, cwd=tmp_path)
    assert (run.returncode, list(tmp_path.iterdir())) == (2, [])
    assert says in run.stdout
    assert "Traceback" not in run.stdout + run.stderr


def test_torchrun_with_another_number_of_ranks_is_refused(tmp_path):
    run = called("ddp-demo", "--world-size", "3", cwd=tmp_path, through=(*TORCHRUN, "2"))
    assert run.returncode != 0
    assert "torchrun has started 2 ranks, and 3 are asked for" in run.stdout
