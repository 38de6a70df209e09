from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import pytest
from typer import Exit

from spade_rl.cli.output import guarded, shown
from spade_rl.errors import ConfigurationError, EngineError

HEAVY = ("torch", "transformers", "sqlalchemy", "pyarrow", "datasets", "deepspeed")


def test_start_up_is_light() -> None:
    code = (
        "import sys\nfrom spade_rl.cli.main import app\n"
        "try:\n    app(['--help'])\nexcept SystemExit as end:\n    assert not end.code\n"
        f"heavy = sorted(set({HEAVY}) & set(sys.modules))\nassert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "doctor" in done.stdout


def test_every_command_has_help(spade: Callable[..., Any]) -> None:
    for command in ("train", "resume", "runs", "envs list", "envs show", "envs replay", "episodes list", "episodes show", "check-env", "report", "nano build", "nano eval", "doctor", "presets"):  # fmt: skip
        result = spade(*command.split(), "--help")
        assert result.exit_code == 0, command
        assert "Usage" in result.output


def test_version(spade: Callable[..., Any]) -> None:
    assert spade("--version").output == f"spade {version('spade-rl')}\n"


@pytest.mark.parametrize(
    "arguments", [("nonsense",), ("train", "--nonsense"), ("train", "--seed", "x"), ("check-env",), ("envs",)]
)
def test_wrong_usage_ends_with_2(process: Callable[..., Any], arguments: tuple[str, ...]) -> None:
    done = process(*arguments)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def _raising(error: BaseException) -> Callable[[], None]:
    @guarded
    def command() -> None:
        raise error

    return command


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (ConfigurationError("learner.x: unknown"), 2, "learner.x: unknown"),
        (EngineError("out of memory"), 1, "out of memory"),
        (ZeroDivisionError("by zero"), 1, "unexpected ZeroDivisionError: by zero"),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
)
def test_a_failure_is_one_message_and_an_exit_code(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int, message: str
) -> None:
    monkeypatch.delenv("SPADE_DEBUG", raising=False)
    with pytest.raises(Exit) as ended:
        _raising(error)()
    assert ended.value.exit_code == code
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"Error: {message}")
    assert "Traceback" not in printed.err
    monkeypatch.setenv("SPADE_DEBUG", "1")
    with pytest.raises(Exit):
        _raising(error)()
    assert "Traceback" in capsys.readouterr().err


def test_debug_shows_where_it_failed(process: Callable[..., Any]) -> None:
    assert "Traceback" not in process("report").stderr
    assert "Traceback" in process("--debug", "report").stderr
    assert "Traceback" in process("report", SPADE_DEBUG="1").stderr


def test_untrusted_text_neither_acts_nor_is_markup() -> None:
    text = shown("[bold]a\x1b[2Jb")
    assert text.plain == "[bold]a\\x1b[2Jb"
    assert text.spans == []
