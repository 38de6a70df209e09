"""Fixtures of the learner's tests; ``learner_cases`` beside this file is shared with the scripts that they start."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from spade_rl.config import RunConfig

sys.path.insert(0, str(Path(__file__).parent))

from learner_cases import tiny_config, write_model


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The starting model, tied."""
    return write_model(tmp_path_factory.mktemp("model"))


@pytest.fixture
def make_config(model_folder: Path) -> Callable[..., RunConfig]:
    """Build a configuration on the tiny model."""
    return partial(tiny_config, model_folder)
