"""What a run was made with: the versions of what it depends on, and the identity of its folder."""

from __future__ import annotations

import fcntl
import json
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from spade_rl.config import RunConfig
from spade_rl.config_files import dump_config, load_config
from spade_rl.errors import ConfigurationError

FOLDER_FORMAT = 1
MANIFEST = "manifest.json"
CONFIG = "config.yaml"
LOCK = "lock"
# Where the services listen, and how they prove who they are, may differ each time that a run goes on.
MAY_CHANGE = {"endpoints": True, "tls": True}
PACKAGES = ("spade-rl", "torch", "transformers", "tokenizers", "deepspeed", "grpcio", "protobuf", "SQLAlchemy")


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that matter, where they are installed."""
    found = {"python": platform.python_version(), "platform": platform.platform()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def write_manifest(run_dir: Path, run_id: str) -> None:
    """Mark a folder as a run's."""
    text = json.dumps({"format": FOLDER_FORMAT, "run_id": run_id, "versions": versions()}, indent=1)
    temporary = run_dir / f".{MANIFEST}.{os.getpid()}"
    temporary.write_text(text + "\n")
    temporary.replace(run_dir / MANIFEST)


def read_manifest(run_dir: Path) -> dict[str, Any]:
    """Return a run folder's manifest; ConfigurationError if the folder is not one that this version can read."""
    try:
        manifest = json.loads((run_dir / MANIFEST).read_text())
        written = manifest["format"]
        manifest["run_id"]
    except FileNotFoundError as error:
        raise ConfigurationError(f"{run_dir} is not a run's folder: it has no {MANIFEST}") from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigurationError(f"cannot read {run_dir / MANIFEST}: {error}") from error
    if written != FOLDER_FORMAT:
        raise ConfigurationError(
            f"{run_dir} was written by another version of Spade (folder format {written}, this version reads "
            f"{FOLDER_FORMAT}); use the version that made it: {manifest.get('versions', {}).get('spade-rl', 'unknown')}"
        )
    return manifest


def prepare_run_dir(run_dir: Path, config: RunConfig) -> str:
    """Make ``run_dir`` a run's folder, or check that it is the folder of this very run; returns the run's id.

    The id is the folder's name. A folder that holds a run of another configuration is refused: its checkpoints
    would not fit.
    """
    text = dump_config(config)
    stored = run_dir / CONFIG
    try:
        run_dir.mkdir(parents=True, exist_ok=True)
        if (run_dir / MANIFEST).exists():
            if load_config(file=stored).model_dump(exclude=MAY_CHANGE) != config.model_dump(exclude=MAY_CHANGE):
                raise ConfigurationError(
                    f"{run_dir} holds a run of another configuration; choose another name, or `spade resume` that run"
                )
            return str(read_manifest(run_dir)["run_id"])
        if any(run_dir.iterdir()):
            raise ConfigurationError(f"{run_dir} is not empty and not a run's folder; choose another one")
        temporary = run_dir / f".{CONFIG}"
        temporary.write_text(text)
        temporary.replace(stored)
        write_manifest(run_dir, run_dir.name)
    except OSError as error:
        raise ConfigurationError(f"cannot prepare the run's folder {run_dir}: {error}") from error
    return run_dir.name


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a folder: two processes in one would destroy each other's checkpoints. ConfigurationError if it is held."""
    with (folder / LOCK).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise ConfigurationError(f"another process is running {folder}; wait for it, or stop it first") from error
        yield
