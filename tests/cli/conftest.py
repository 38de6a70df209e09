"""The command line on synthetic runs, in this process and in one of its own."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from spade_rl.cli.main import app

# The runs that the report's tests are made of; test folders are no packages, so the module is loaded by its path.
_spec = importlib.util.spec_from_file_location(
    "synthetic_runs", Path(__file__).parent.parent / "report" / "conftest.py"
)
assert _spec is not None
assert _spec.loader is not None
_runs = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_runs)
make_run = _runs.make_run
finished_run = _runs.finished_run


@pytest.fixture
def spade(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Run a command in ``tmp_path``, in this process."""
    monkeypatch.chdir(tmp_path)
    for name in ("SPADE_DEBUG", "SPADE_RUNS_DIR"):
        monkeypatch.delenv(name, raising=False)
    # A terminal wide enough that no cell is folded.
    monkeypatch.setenv("COLUMNS", "200")
    return lambda *arguments, **options: CliRunner().invoke(app, list(arguments), **options)


@pytest.fixture
def process(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run a command in ``tmp_path``, in a process of its own."""

    def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        known = {name: value for name, value in os.environ.items() if not name.startswith("SPADE_")}
        command = [sys.executable, "-c", "from spade_rl.cli.main import main; main()", *arguments]
        return subprocess.run(
            command,
            cwd=tmp_path,
            env={**known, **environment},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    return run


def last_line(output: str) -> Any:
    """Return the JSON object in the last line of an output."""
    assert output.endswith("\n")
    found = json.loads(output.splitlines()[-1])
    assert isinstance(found, dict)
    return found


@pytest.fixture
def as_json() -> Callable[[str], Any]:
    """Read the last line of an output as one JSON object."""
    return last_line
