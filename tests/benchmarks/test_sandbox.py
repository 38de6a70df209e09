"""Tiny runs of the sandbox's benchmark: what it measures is there; how fast is not looked at."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks.sandbox import CROWD, FULL, QUICK, STEPS, Driver, Plan, drivers, is_for, measure, questions
from benchmarks.sandbox_environment import LOOP, WALK, actions, first_observation, instance
from benchmarks.sandbox_peers import REQUIREMENTS, ensure, interpreter, requirement
from benchmarks.sandbox_report import OURS, Contestant, memory_of
from benchmarks.sandbox_usage import (
    CLIENT,
    GOFER,
    OTHER,
    RUNSC,
    SENTRY,
    SERVICE,
    WORKER,
    Process,
    leftovers,
    members,
    memory_bytes,
    private_bytes,
    processes,
)
from spade_rl.config import Isolation
from spade_rl.sandbox.program import analyse

TINY = Plan(rounds=2, seconds=0.0, kills=1, sessions=2, crowds=(1, 2))


def test_the_environments_are_such_as_the_sandbox_takes() -> None:
    assert analyse(WALK).class_name == "Env"
    assert analyse(LOOP).class_name == "Env"
    environment = instance(WALK)
    assert environment.reset(3)[0] == first_observation(3) != first_observation(4)
    assert not any(environment.step(action)[2] for action in actions(100))
    environment.reset(3)
    *_, last = [environment.step(action) for action in environment.solution()]
    assert last[1:3] == (1.0, True)


@pytest.mark.parametrize("plan", [QUICK, FULL])
def test_peers_are_asked_what_they_can_work_off(plan: Plan) -> None:
    ours, peer = (Driver(Contestant(name, isolated=True), []) for name in (OURS, "peer"))
    ours.largest_batch = 1000
    asked = [name for name, question in questions(plan) if is_for(ours, question, plan)]
    assert asked == [name for name, _ in questions(plan)]
    of_peer = [name for name, question in questions(plan) if is_for(peer, question, plan)]
    assert "fresh@1" in of_peer
    assert "steps/1@1" in of_peer
    assert "steps/10@1" not in of_peer
    assert (f"fresh@{CROWD}" in of_peer) == (plan is FULL)


async def test_a_tiny_run_measures_everything_and_names_who_is_missing() -> None:
    everyone = [each for each in drivers(None, Isolation.PROCESS, quick=True) if "runsc" not in each.contestant.name]
    await measure(everyone, TINY, Console(quiet=True))
    found = {each.contestant.name: each.contestant for each in everyone}
    ours, plain = found[OURS], found["plain subprocess"]
    assert ours.problems == plain.problems == []
    assert not ours.isolated
    assert set(ours.answers) == {name for name, _ in questions(TINY)} | {"memory", "kill"}
    assert [len(answers) for name, answers in ours.answers.items()] == [2] * len(questions(TINY)) + [1, 1]
    assert ours.answers["fresh@1"][0]["count"] >= 1
    assert ours.answers["steps/1000@4"][0]["count"] >= 4000
    assert len(ours.answers["kill"][0]["told"]) == 1
    assert f"episodes@{CROWD}" not in plain.answers
    assert memory_of(plain.answers["memory"][0]).episode_mb > 0
    assert found["gvisor binding, exec"].why_not() == "peers that are packages were not asked for"
    assert not any(each.runs for each in everyone)


async def test_a_contender_that_breaks_says_how_and_stops_nobody() -> None:
    broken = Driver(Contestant("broken", isolated=True), [sys.executable, "-c", "raise SystemExit('no such thing')"])
    everyone = [broken, *(d for d in drivers(None, Isolation.PROCESS, quick=True) if "plain" in d.contestant.name)]
    await measure(everyone, TINY, Console(quiet=True))
    assert "its process ended with status 1: no such thing" in broken.contestant.problems
    assert everyone[1].contestant.ran


async def test_what_a_contender_leaves_behind_is_ended_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.sandbox.GONE_SECONDS", 0.0)
    code = """
import json, subprocess, sys
child = subprocess.Popen(["sleep", "60"], stdin=-3, stdout=-3, stderr=-3, start_new_session=True)
print(json.dumps({"version": str(child.pid), "largest_batch": 1, "folder": ""}), flush=True)
sys.stdin.read()
"""
    driver = Driver(Contestant("careless", isolated=True), [sys.executable, "-c", code])
    await driver.start()
    child = int(driver.contestant.version)
    assert child in processes()
    await driver.stop()
    assert driver.contestant.problems == ["left 1 processes behind (sleep), which were killed"]
    deadline = time.monotonic() + 10
    while child in processes():
        assert time.monotonic() < deadline


async def test_when_the_time_is_over_what_is_left_is_named() -> None:
    (plain,) = (d for d in drivers(None, Isolation.PROCESS, quick=True) if "plain" in d.contestant.name)
    await measure([plain], Plan(1, 0.0, 1, 1, (1,), until=0.0, last=0.0), Console(quiet=True))
    assert not plain.contestant.ran
    assert plain.contestant.skipped == {"fresh@1", *(f"steps/{batch}@{crowd}" for batch, crowd in STEPS), "memory"}
    assert "no time was left to ask fresh@1" in plain.contestant.why_not()


def test_a_peer_that_may_not_be_installed_is_named(tmp_path: Path) -> None:
    assert "a run without --quick installs it" in ensure(tmp_path, "gvisor", "gvisor", install=False)
    assert not interpreter(tmp_path).exists()
    assert requirement("openenv-core") in REQUIREMENTS.read_text().splitlines()


def test_processes_are_found_by_descent_and_by_name(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "input()", str(tmp_path)]
    child = subprocess.Popen(command, stdin=subprocess.PIPE)
    try:
        every = processes()
        assert members(every, os.getpid(), "")[child.pid] == OTHER
        assert members(every, os.getpid(), "")[os.getpid()] == CLIENT
        assert child.pid in members(every, 1 << 30, str(tmp_path))
        assert memory_bytes(os.getpid(), "")[OTHER] > 0
    finally:
        child.communicate()


def test_kinds_of_processes_go_by_their_command_lines_and_parents() -> None:
    lines = {
        1: (0, "init"),
        2: (1, "python -m benchmarks.sandbox_ours"),
        3: (2, "python -m spade_rl.sandbox --run-dir /tmp/x"),
        4: (3, "/usr/bin/runsc run"),
        5: (4, "runsc-sandbox boot"),
        6: (4, "runsc-gofer gofer"),
        7: (5, ""),
        8: (3, "python -c spawned"),
        9: (1, "sleep /tmp/x/y"),
        10: (1, "sleep"),
    }
    every = {pid: Process(pid, 7, parent, tuple(line.split()), 0.0, 0.0) for pid, (parent, line) in lines.items()}
    kinds = {2: CLIENT, 3: SERVICE, 4: RUNSC, 5: SENTRY, 6: GOFER, 7: WORKER, 8: SERVICE}
    assert members(every, 2, "/tmp/x") == kinds | {9: OTHER}
    assert members(every, 2, "") == kinds


def test_a_process_is_known_by_its_number_and_its_start() -> None:
    every = {pid: Process(pid, started, 1, ("sleep",), 0.0, 0.0) for pid, started in ((5, 70), (6, 70))}
    assert leftovers({5: 70, 6: 69, 7: 70}, every) == [every[5]]


def test_private_memory_leaves_out_what_is_shared() -> None:
    rollup = ["Rss:  900 kB", "Pss:  500 kB", "Pss_Anon:  100 kB", "Pss_File:  20 kB", "Pss_Shmem:  380 kB"]
    assert private_bytes(rollup) == 120 << 10
