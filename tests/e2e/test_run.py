"""Whole runs: what a run leaves behind is consistent, and a run that was killed ends as if it had not been."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import yaml
from safetensors.torch import load_file

from spade_rl.coordinator.checkpoint import newest_checkpoint
from spade_rl.coordinator.events import read_events
from spade_rl.errors import SpadeError
from spade_rl.local import resume, train
from spade_rl.memory.archive import Archive

pytestmark = [pytest.mark.usefixtures("gvisor"), pytest.mark.timeout(900)]


def check_consistent(run_dir: Path, cycles: int) -> None:
    """Every cycle once, every accepted environment once, every trajectory once, in all three places."""
    events = [e for e in read_events(run_dir / "events.jsonl") if e["event"] == "cycle"]
    assert [e["cycle"] for e in events] == list(range(cycles))
    with Archive.open(run_dir, read_only=True) as archive:
        run_id = run_dir.name
        environments = list(archive.environments(run_id))
        trajectories = [t for batch in archive.trajectories(run_id) for t in batch]
        attempts = [a for batch in archive.attempts(run_id) for a in batch]
    assert len(environments) == sum(e["admitted"] for e in events)
    assert len(attempts) == sum(e["attempts"] for e in events)
    assert len(trajectories) == sum(e["episodes"] for e in events)
    assert max(Counter(t.header.id for t in trajectories).values()) == 1
    assert max(Counter(e.environment.digest for e in environments).values()) == 1


@pytest.mark.slow
def test_a_run_leaves_everything_once(run_dir, small_run):
    heard = []
    # Three cycles cut the second window short: its designs are rewarded and trained on all the same.
    summary = train(small_run("run.cycles=3", "regret.window=2"), run_dir=run_dir, listener=heard.append)
    assert summary["cycles"] == 3
    assert summary["isolation"] == "gvisor"
    assert summary["policy_version"] >= 1
    assert 0 < summary["valid_share"] <= 1
    check_consistent(run_dir, 3)
    with Archive.open(run_dir, read_only=True) as archive:
        statistics = [e.statistics for e in archive.environments(run_dir.name)]
    assert all(one is not None and one.closed for one in statistics)
    assert {one.plain_plays for one in statistics if one} == {2, 4}
    stages = {e["stage"] for e in heard if e["event"] == "progress"}
    assert {"design", "play", "learn", "checkpoint"} <= stages
    started = next(e for e in heard if e["event"] == "run_started")
    assert started["isolation"] == "gvisor"
    assert not list((run_dir / "checkpoints").glob(".unfinished*"))


@pytest.mark.slow
def test_a_run_that_is_killed_again_and_again_ends_whole(run_dir, tmp_path, small_run):
    config = small_run("run.cycles=5")
    file = tmp_path / "config.yaml"
    file.write_text(yaml.safe_dump(config.model_dump(mode="json")))
    code = (
        "import sys; from pathlib import Path; from spade_rl.config_files import load_config; from spade_rl.local import train;"
        "train(load_config(file=Path(sys.argv[1])), run_dir=Path(sys.argv[2]))"
    )
    rng = random.Random(0)
    for _ in range(5):
        process = subprocess.Popen([sys.executable, "-c", code, str(file), str(run_dir)], start_new_session=True)
        time.sleep(rng.uniform(3, 20))
        process.kill()
        assert process.wait(30) in (-signal.SIGKILL, 0), "the run ended by itself"
        assert not surviving(process.pid), "a killed run left processes"
    assert '"event": "run_started"' in (run_dir / "events.jsonl").read_text()
    summary = train(config, run_dir=run_dir)
    assert summary["cycles"] == 5
    check_consistent(run_dir, 5)


class Died(Exception):
    """Stands for a crash of the process."""


@pytest.mark.slow
def test_a_resumed_run_equals_the_uninterrupted_one(tmp_path, small_run):
    # One slot: the last bits of a batched product depend on what else is in the batch.
    config = small_run("agent.engine.slots=1", "agent.engine.threads=1", "learner.threads=1", "regret.window=3")

    def die_after_two_cycles(event):
        if event["event"] == "checkpoint" and event["cycle"] == 2:
            raise Died

    whole, broken = tmp_path / "whole" / "run", tmp_path / "broken" / "run"
    train(config, run_dir=whole)
    with pytest.raises(Died):
        train(config, run_dir=broken, listener=die_after_two_cycles)
    train(config, run_dir=broken)
    check_consistent(broken, 4)
    states = [newest_checkpoint(folder / "checkpoints")[1] for folder in (whole, broken)]
    assert replace(states[0], seconds=0, events=0) == replace(states[1], seconds=0, events=0)
    policies = [load_file(newest(folder / "weights") / "model.safetensors") for folder in (whole, broken)]
    assert policies[0].keys() == policies[1].keys()
    assert all(torch.equal(policies[0][name], policies[1][name]) for name in policies[0])


def newest(folder: Path) -> Path:
    return max(path for path in folder.iterdir() if path.name.isdigit())


def surviving(session: int, seconds: float = 10) -> list[int]:
    """Return what still lives of a session after a while."""
    deadline = time.monotonic() + seconds
    while alive := [
        int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit() and session_of(path) == session
    ]:
        if time.monotonic() > deadline:
            break
        time.sleep(0.1)
    return alive


def session_of(process: Path) -> int | None:
    try:
        fields = (process / "stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else int(fields[3])


@pytest.mark.slow
def test_an_interrupted_run_checkpoints_stops_and_goes_on(run_dir, tmp_path, small_run):
    file = tmp_path / "config.yaml"
    file.write_text(yaml.safe_dump(small_run().model_dump(mode="json")))
    code = (
        "import json, sys; from pathlib import Path; from spade_rl.config_files import load_config;"
        "from spade_rl.local import train;"
        "print(json.dumps(train(load_config(file=Path(sys.argv[1])), run_dir=Path(sys.argv[2]))))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(file), str(run_dir)], stdout=subprocess.PIPE, text=True, env=os.environ
    )
    log = run_dir / "events.jsonl"
    deadline = time.monotonic() + 120
    while not (log.exists() and '"event": "checkpoint"' in log.read_text()):
        assert time.monotonic() < deadline, "the run never began"
        assert process.poll() is None
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=120)
    summary = json.loads(out.splitlines()[-1])
    assert summary["stopped"] is True
    assert summary["cycles"] < 4
    assert resume(run_dir)["cycles"] == 4
    check_consistent(run_dir, 4)


@pytest.mark.slow
def test_a_designer_that_writes_nothing_valid_ends_the_run(run_dir, small_run):
    # Eight tokens are no program.
    config = small_run("designer.max_tokens=8", "run.empty_sets=2", "run.cycles=9")
    with pytest.raises(SpadeError, match="no valid environment in 2 sets in a row"):
        train(config, run_dir=run_dir)
    _, state = newest_checkpoint(run_dir / "checkpoints")
    assert (state.cycle, state.empty_sets) == (2, 2)
    assert read_events(run_dir / "events.jsonl")[-1]["event"] == "run_failed"
