"""Folders that appear whole or not at all."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote, urlsplit

from spade_rl.errors import ConfigurationError, LearnerError

TEMPORARY = ".tmp-"


def local_path(uri: str) -> Path:
    """Return the path that a URI names; only local folders are supported."""
    parts = urlsplit(uri)
    if parts.scheme == "file":
        return Path(unquote(parts.path))
    if "://" in uri:
        raise ConfigurationError(f"{uri} is not a local path; the learner reads and writes local or mounted folders")
    return Path(uri)


@contextmanager
def whole_folder(target: Path) -> Iterator[Path]:
    """Yield an empty temporary folder beside ``target`` that takes its place when the block succeeds.

    An older ``target`` is replaced. When the block raises, nothing is left behind; a full disk or a missing
    permission is a LearnerError that says where.
    """
    temporary = target.parent / f"{TEMPORARY}{target.name}-{uuid.uuid4().hex}"
    try:
        temporary.mkdir(parents=True)
        yield temporary
        if target.exists():
            old = target.parent / f"{TEMPORARY}{target.name}-{uuid.uuid4().hex}"
            target.rename(old)
            temporary.rename(target)
            shutil.rmtree(old)
        else:
            temporary.rename(target)
    except OSError as error:
        raise LearnerError(f"cannot write {target}: {error}. Free space there or choose another folder.") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def sweep(folder: Path) -> None:
    """Remove temporary folders that a killed process left in ``folder``."""
    for leftover in folder.glob(f"{TEMPORARY}*"):
        shutil.rmtree(leftover, ignore_errors=True)
