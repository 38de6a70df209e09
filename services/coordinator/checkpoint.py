"""Checkpoints: one folder holds everything that a run needs to go on.

    checkpoints/000012/state.json   the coordinator's state after twelve cycles
    checkpoints/000012/learner/     weights and optimizer, written by the learner

A folder is built under another name and renamed when it is whole, so that one which bears a cycle's number is complete.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path

from spade_rl.coordinator.state import RunState, dump_state, load_state
from spade_rl.errors import ConfigurationError, SpadeError

STATE = "state.json"
LEARNER = "learner"
UNFINISHED = ".unfinished-"


def _numbered(folder: Path) -> list[Path]:
    """Return the complete checkpoints, oldest first."""
    return sorted(path for path in folder.glob("[0-9]*") if path.name.isdigit() and (path / STATE).exists())


async def save_checkpoint(
    folder: Path, state: RunState, save_learner: Callable[[Path], Awaitable[None]], keep: int
) -> Path:
    """Write the checkpoint of ``state`` into ``folder``, drop all but the newest ``keep``, return its path."""
    final = folder / f"{state.cycle:06d}"
    unfinished = folder / f"{UNFINISHED}{state.cycle:06d}"
    try:
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        await save_learner(unfinished / LEARNER)
        with (unfinished / STATE).open("w") as out:
            out.write(dump_state(state))
            out.flush()
            os.fsync(out.fileno())
        shutil.rmtree(final, ignore_errors=True)
        unfinished.rename(final)
    except OSError as error:
        raise SpadeError(
            f"cannot write the checkpoint {final}: {error}. The run's last checkpoint is whole; "
            "make room and go on with `spade resume`"
        ) from error
    for old in _numbered(folder)[:-keep]:
        shutil.rmtree(old, ignore_errors=True)
    return final


def newest_checkpoint(folder: Path) -> tuple[Path, RunState] | None:
    """Return the newest complete checkpoint and its state; None if the run never reached one."""
    found = _numbered(folder)
    if not found:
        return None
    path = found[-1]
    try:
        text = (path / STATE).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"cannot read the checkpoint {path}: {error}") from error
    return path, load_state(text)
