"""A release from outside, as a user has it: the preflight, a run from submit to its report at home, the tunnel broken.

The tests build on one another: they are the life of one release, in order.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from release import CHART, Release, answer, eventually

from spade_rl.memory.archive import Archive
from spade_rl.report.events import RunState, read_log

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

WAITS = {"config": {"run": {"start": False}}}
RUN = ("run.cycles=6", "run.minutes=null", "designer.environments=5", "regret.plays=2", "evaluation.suite=none")
RUN_SECONDS = 600
Spade = Callable[..., subprocess.CompletedProcess[str]]


def test_the_preflight_finds_the_cluster_good(release: Release, spade: Spade, tmp_path: Path) -> None:
    values = tmp_path / "values.yaml"
    values.write_text(yaml.safe_dump(release.overrides))
    found = spade("doctor", "--json", "-f", str(CHART / "ci" / "cpu-values.yaml"), "-f", str(values))
    checks = {one["name"]: one for one in answer(found)["checks"]}
    assert {"gVisor", "images", "RuntimeClass", "storage", "rights"} <= checks.keys()
    assert "ran under it" in checks["gVisor"]["found"]


def test_nothing_is_there_yet(spade: Spade) -> None:
    missing = spade("status")
    assert missing.returncode == 2
    assert "no release spade" in missing.stderr


def test_a_release_may_wait_for_its_first_run(release: Release, spade: Spade) -> None:
    release.apply("cpu", WAITS)
    assert answer(spade("status", "--json")) == {"runs": []}


def test_a_run_is_submitted_stopped_and_resumed(spade: Spade) -> None:
    assert answer(spade("submit", "--name", "first", "--json", *RUN)) == {"run_id": "first", "state": "running"}
    eventually(
        "the first cycle",
        lambda: answer(spade("status", "first", "--json"))["runs"][0]["cycle"] >= 1,
        RUN_SECONDS,
    )
    stopped = answer(spade("stop", "--json"))
    assert stopped == {"run_id": "first", "state": "stopped"}
    assert answer(spade("resume", "first", "--json"))["state"] == "running"


def test_who_follows_a_run_does_not_notice_that_the_coordinator_is_replaced(
    release: Release, command: list[str], home: Path
) -> None:
    with subprocess.Popen(
        [*command, "logs", "--follow", "--json"], cwd=home, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as follower:
        assert follower.stdout is not None
        assert follower.stderr is not None
        first = json.loads(follower.stdout.readline())
        assert first["event"] == "run_started"
        release.kubectl("delete", "pod", "spade-coordinator-0", "--grace-period=0", "--force")
        out, err = follower.communicate(timeout=RUN_SECONDS)
    assert follower.returncode == 0, err
    events = [first, *map(json.loads, out.splitlines())]
    assert events[-1]["event"] == "run_finished"
    assert {one["cycle"] for one in events if one["event"] == "cycle"} == set(range(6))


def test_its_report_comes_home(spade: Spade, home: Path) -> None:
    copied = answer(spade("fetch", "first", "--weights", "--json"))
    assert copied["state"] == "finished"
    folder = home / "runs" / "first"
    assert "<html" in Path(home / copied["report"]).read_text()
    log = read_log(folder)
    assert (log.state, len(log.cycles), log.started.isolation) == (RunState.FINISHED, 6, "gvisor")
    with Archive.open(folder, read_only=True) as archive:
        assert len(archive.trajectory_headers("first")) == sum(one.episodes for one in log.cycles)
    assert list((folder / "weights").glob("*/model.safetensors"))
    assert answer(spade("fetch", "first", "--weights", "--json"))["received_bytes"] == 0


def test_nothing_is_left_after_the_release(release: Release) -> None:
    release.uninstall()
    eventually("an empty namespace", lambda: not release.leftovers(), 60)
