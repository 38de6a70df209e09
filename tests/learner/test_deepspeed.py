"""DeepSpeed takes the steps that the torch engine takes, for any number of processes and any ZeRO stage."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from learner_cases import make_samples, tiny_config
from safetensors.torch import load_file

from spade_rl.learner.server import build_learner

pytest.importorskip("deepspeed")


def check(model: Path, out: Path, *, processes: int, stages: str) -> None:
    learner = build_learner(tiny_config(model, steps=2), out / "torch")
    norms = [learner.train(update - 1, make_samples(update)).metrics["gradient_norm"] for update in (1, 2)]
    expected = learner._engine.export()
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
    driver = str(Path(__file__).with_name("deepspeed_driver.py"))
    run = subprocess.run(
        [sys.executable, *(launcher if processes > 1 else []), driver, str(model), str(out), stages],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=270,
    )
    assert run.returncode == 0, run.stderr[-4000:]
    reported = json.loads((out / "norms.json").read_text())
    for stage in stages:
        assert reported[stage] == pytest.approx(norms, rel=1e-5)
        weights, resumed = load_file(out / f"stage{stage}.safetensors"), load_file(out / f"resumed{stage}.safetensors")
        assert weights.keys() == expected.keys()
        for name, tensor in expected.items():
            assert torch.allclose(weights[name], tensor, rtol=0, atol=1e-5), (stage, name)
            assert torch.equal(resumed[name], weights[name]), (stage, name)


def test_two_processes_with_partitioned_gradients(model_folder: Path, tmp_path: Path) -> None:
    check(model_folder, tmp_path, processes=2, stages="2")


@pytest.mark.slow
def test_one_process_at_every_stage(model_folder: Path, tmp_path: Path) -> None:
    check(model_folder, tmp_path, processes=1, stages="0123")


@pytest.mark.slow
def test_two_processes_at_the_other_stages(model_folder: Path, tmp_path: Path) -> None:
    check(model_folder, tmp_path, processes=2, stages="013")
