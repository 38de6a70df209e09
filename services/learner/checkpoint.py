"""Checkpoints: a folder with the engine's state and ``learner.json``, which says what it is and how it ends.

The folder appears whole. Before anything of it is loaded it is checked: the format, the engine, the model's
parameters, the number of processes, and the size of every file. There is no random state to keep: whatever the
learner draws it derives from the run's seed and the number of the update.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from spade_rl.errors import ConfigurationError
from spade_rl.learner.engine import Engine
from spade_rl.learner.files import whole_folder

FORMAT = 1
MANIFEST = "learner.json"
_STATE = "engine"


class Progress(BaseModel):
    """The learner's own counters: the version and the answer to the update that made it."""

    model_config = ConfigDict(frozen=True)

    policy_version: int = Field(0, ge=0)
    metrics: dict[str, float] | None = None


class Manifest(BaseModel):
    """What a checkpoint is; ``files`` has the size of every file of the engine's state."""

    model_config = ConfigDict(extra="forbid")

    format: int
    engine: str
    identity: dict[str, str | int]
    progress: Progress
    files: dict[str, int]


def _sizes(folder: Path) -> dict[str, int]:
    return {str(file.relative_to(folder)): file.stat().st_size for file in folder.rglob("*") if file.is_file()}


def save_checkpoint(folder: Path, engine: Engine, progress: Progress) -> None:
    """Write a checkpoint, in place of an older one at ``folder``."""
    with whole_folder(folder.absolute()) as temporary:
        state = temporary / _STATE
        state.mkdir()
        engine.save(state)
        manifest = Manifest(
            format=FORMAT,
            engine=engine.name,
            identity=dict(engine.identity),
            progress=progress,
            files=_sizes(state),
        )
        (temporary / MANIFEST).write_text(manifest.model_dump_json(indent=1))


def load_checkpoint(folder: Path, engine: Engine) -> Progress:
    """Restore an engine from a checkpoint and return the counters; ConfigurationError says what does not fit."""
    manifest = _manifest(folder)
    if manifest.format != FORMAT:
        raise ConfigurationError(
            f"the checkpoint {folder} has format {manifest.format}, this version reads {FORMAT}: "
            "resume with the version of Spade that wrote it"
        )
    if manifest.engine != engine.name:
        raise ConfigurationError(
            f"the checkpoint {folder} was written by learner.engine: {manifest.engine}, this run has {engine.name}: "
            "set it back"
        )
    for name, value in engine.identity.items():
        if manifest.identity.get(name) != value:
            raise ConfigurationError(
                f"the checkpoint {folder} is of another {name.replace('_', ' ')} ({manifest.identity.get(name)}, here {value}): "
                "use the model and the learner's settings that wrote it"
            )
    sizes = _sizes(folder / _STATE)
    damaged = sorted(name for name, size in manifest.files.items() if sizes.get(name) != size)
    if damaged:
        raise ConfigurationError(
            f"the checkpoint {folder} is damaged ({', '.join(damaged)} missing or truncated): resume from an earlier one"
        )
    engine.load(folder.absolute() / _STATE)
    return manifest.progress


def _manifest(folder: Path) -> Manifest:
    try:
        return Manifest.model_validate_json((folder / MANIFEST).read_text())
    except FileNotFoundError as error:
        raise ConfigurationError(f"{folder} is no checkpoint of the learner: it has no {MANIFEST}") from error
    except (OSError, UnicodeDecodeError, ValidationError) as error:
        raise ConfigurationError(
            f"cannot read the checkpoint {folder / MANIFEST} ({error}): resume from an earlier one"
        ) from error
