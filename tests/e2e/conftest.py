"""A small run of the shipped nano model, the same services and code as a large one."""

from collections.abc import Callable
from pathlib import Path

import pytest

from spade_rl.config import RunConfig
from spade_rl.config_files import load_config
from spade_rl.sandbox.runtime import describe_runtime

SMALL = [
    "designer.environments=5",
    "regret.plays=2",
    "run.cycles=4",
    "run.minutes=null",
    "evaluation.suite=none",
    "learner.steps=1",
]


@pytest.fixture
def small_run() -> Callable[..., RunConfig]:
    """Return the configuration of a small run with further overrides."""
    return lambda *overrides: load_config(preset="quickstart", overrides=[*SMALL, *overrides])


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    return tmp_path / "runs" / "small"


@pytest.fixture(scope="session")
def gvisor() -> None:
    report = describe_runtime()
    if not report.usable:
        pytest.skip(f"gVisor does not run here: {report.advice}")
