from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any


def test_a_folder_of_something_else_is_not_built_over(spade: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/notes.txt").write_text("mine")
    result = spade("nano", "build", "--out", "mine")
    assert result.exit_code == 2
    assert "holds something else than a model" in result.stderr
    assert (tmp_path / "mine/notes.txt").read_text() == "mine"


def test_a_folder_without_a_model_is_not_measured(spade: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for name in ("empty", "missing"):
        result = spade("nano", "eval", name)
        assert result.exit_code == 2
        assert "Traceback" not in result.stderr
        assert name in result.stderr


def test_building_needs_a_positive_time(spade: Callable[..., Any]) -> None:
    assert spade("nano", "build", "--out", "model", "--minutes", "0").exit_code == 2
