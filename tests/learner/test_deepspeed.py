"""DeepSpeed takes the steps that the torch engine takes, for any number of processes and any ZeRO stage."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import torch
from learner_cases import make_samples, requests, share_apart, tiny_config
from safetensors.torch import load_file

from spade_rl.config_files import dump_config
from spade_rl.learner.server import build_learner
from spade_rl.rpc import open_channel
from spade_rl.v1 import learner_pb2, learner_pb2_grpc

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
        assert share_apart(weights, expected) < 1e-3, stage
        assert all(torch.equal(resumed[name], weights[name]) for name in weights), stage


def test_two_processes_with_partitioned_gradients(model_folder: Path, tmp_path: Path) -> None:
    check(model_folder, tmp_path, processes=2, stages="2")


@pytest.mark.slow
async def test_two_processes_serve_and_end_together(model_folder: Path, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(dump_config(tiny_config(model_folder, engine="deepspeed", zero_stage=2, steps=2)))
    with tempfile.TemporaryDirectory() as sockets, (tmp_path / "log").open("w+") as log:
        address = f"unix:{sockets}/learner.sock"
        service = ["-m", "spade_rl.learner", "--config", config, "--run-dir", tmp_path / "run", "--address", address]
        launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
        process = await asyncio.create_subprocess_exec(
            sys.executable, *launcher, *service, env={**os.environ, "OMP_NUM_THREADS": "1"}, stdout=log, stderr=log
        )
        try:
            async with open_channel(address) as channel:
                stub = learner_pb2_grpc.LearnerServiceStub(channel)
                policy = await stub.GetPolicy(learner_pb2.GetPolicyRequest(), timeout=200, wait_for_ready=True)
                answer = await stub.Train(requests(0, make_samples(1)), timeout=60)
            assert (policy.engine, answer.policy_version) == ("deepspeed", 1)
            assert load_file(Path(answer.uri) / "model.safetensors")
            process.terminate()
            await asyncio.wait_for(process.wait(), 60)
        finally:
            if process.returncode is None:
                process.kill()
        log.seek(0)
        # torchrun reports its own signal; the learner's processes end without a word.
        assert not {"learner:", "deadline:", "internal:", "CANCELLED"} & set(log.read().split())


@pytest.mark.slow
def test_one_process_at_every_stage(model_folder: Path, tmp_path: Path) -> None:
    check(model_folder, tmp_path, processes=1, stages="0123")


@pytest.mark.slow
def test_two_processes_at_the_other_stages(model_folder: Path, tmp_path: Path) -> None:
    check(model_folder, tmp_path, processes=2, stages="013")
