from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

STAIRS = """
import random


class Stairs:
    def reset(self, seed):
        draw = random.Random(seed)
        self.plan = [draw.choice(["left", "right"]) for _ in range(draw.randint(2, 9))]
        self.at = 0
        return self.show(), {}

    def show(self):
        if self.at == len(self.plan):
            return "At the top: say ready."
        return f"Step {self.at + 1} of {len(self.plan)}: the stairs turn {self.plan[self.at]}."

    def step(self, action):
        wanted = self.plan[self.at] if self.at < len(self.plan) else "ready"
        if action.strip() != wanted:
            return "You fall.", 0.0, True, False, {}
        self.at += 1
        if self.at > len(self.plan):
            return "Done.", 1.0, True, False, {}
        return self.show(), 0.0, False, False, {}

    def solution(self):
        return [*self.plan, "ready"]
"""


@pytest.fixture
def stairs(tmp_path: Path) -> str:
    (tmp_path / "stairs.py").write_text(STAIRS)
    return "stairs.py"


@pytest.mark.gvisor
def test_an_environment_that_passes_every_gate_is_admitted(
    spade: Callable[..., Any], as_json: Callable[[str], Any], stairs: str
) -> None:
    result = spade("check-env", stairs, "--json")
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    report = as_json(result.stdout)
    assert (report["admitted"], report["gate"], report["isolation"]) == (True, None, "gvisor")
    assert report["solution"][-1] == "ready"
    assert {gate["verdict"] for gate in report["gates"]} == {"passed"}
    assert len(report["gates"]) >= 14


def test_a_weaker_isolation_is_asked_for_by_name_and_said(
    spade: Callable[..., Any], as_json: Callable[[str], Any], stairs: str
) -> None:
    result = spade("check-env", stairs, "--isolation", "process", "--json")
    assert result.exit_code == 0, result.output
    assert "Warning: weaker isolation: process" in result.stderr
    assert as_json(result.stdout)["isolation"] == "process"


@pytest.mark.parametrize(
    ("source", "gate"),
    [
        ("def (", "parse"),
        ("import socket\n" + STAIRS, "imports"),
        ("class Nothing:\n    pass\n", "class"),
        (STAIRS.replace('"ready"]', '"steady"]'), "solution"),
    ],
)
def test_a_refused_environment_ends_with_1_and_the_gate(
    spade: Callable[..., Any], as_json: Callable[[str], Any], tmp_path: Path, source: str, gate: str
) -> None:
    (tmp_path / "bad.py").write_text(source)
    result = spade("check-env", "bad.py", "--isolation", "process", "--json")
    assert result.exit_code == 1
    report = as_json(result.stdout)
    assert (report["admitted"], report["gate"]) == (False, gate)
    assert report["message"]
    text = spade("check-env", "bad.py", "--isolation", "process")
    assert text.exit_code == 1
    assert f"Rejected by the gate {gate}: " in text.stdout


@pytest.mark.parametrize("name", ["number_lock", "help_desk"])
def test_the_shipped_examples_are_admitted(spade: Callable[..., Any], as_json: Callable[[str], Any], name: str) -> None:
    file = Path(__file__).parents[2] / "examples" / "environments" / f"{name}.py"
    result = spade("check-env", str(file), "--isolation", "process", "--seed", "5", "--json")
    assert result.exit_code == 0, result.output
    report = as_json(result.stdout)
    assert (report["admitted"], report["gate"], report["message"]) == (True, None, None)
    assert report["solution"]


def test_another_seed_tries_other_instances(
    spade: Callable[..., Any], as_json: Callable[[str], Any], stairs: str
) -> None:
    def solution(seed: int) -> list[str]:
        result = spade("check-env", stairs, "--isolation", "process", "--seed", str(seed), "--json")
        return as_json(result.stdout)["solution"]

    assert solution(1) == solution(1) != solution(2)


@pytest.mark.parametrize(
    "arguments",
    [(), ("a.py", "b.py"), ("a.py", "--isolation", "none"), ("a.py", "--seed", "-1"), ("a.py", "--what")],
)
def test_wrong_usage_ends_with_2(spade: Callable[..., Any], arguments: tuple[str, ...]) -> None:
    result = spade("check-env", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr


def test_what_cannot_be_checked_ends_with_2(spade: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "empty.py").write_text(" \n")
    (tmp_path / "binary.py").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "huge.py").write_text("#" * 300_000)
    (tmp_path / "folder.py").mkdir()
    for name, message in (
        ("empty.py", "is empty"),
        ("binary.py", "not UTF-8"),
        ("huge.py", "larger than 256 KiB"),
        ("folder.py", "Is a directory"),
        ("missing.py", "No such file"),
    ):
        result = spade("check-env", name)
        assert (result.exit_code, result.stdout) == (2, ""), name
        assert message in result.stderr


def test_without_gvisor_nothing_weaker_is_taken(process: Callable[..., Any], stairs: str, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    done = process("check-env", stairs, PATH=str(tmp_path / "bin"), PYTHONPATH=os.environ.get("PYTHONPATH", ""))
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert "`runsc` is not installed" in done.stderr
    assert "sandbox.isolation: process" in done.stderr
