"""Copying a run's files home.

A copy is an ordinary run folder, so every other command reads it. Each file appears whole and checked against its digest;
what came of one when the connection broke is kept and gone on with, if the file is still the same. The manifest comes last,
so that a first copy is no run's folder before it is complete.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from spade_rl.errors import ConfigurationError, SpadeError, UnavailableError
from spade_rl.manifest import MANIFEST
from spade_rl.v1 import coordinator_pb2 as pb

COPY = "copy.json"
PARTS = ".parts"
PATIENCE_SECONDS = 60.0
LISTINGS = 3
_PAUSE = 0.5
_STEP = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
Progress = Callable[[str, int, int], None]


class Source(Protocol):
    """Where the files come from; see ``coordinator.Coordinator``."""

    async def artifacts(self, run_id: str, *, weights: bool) -> pb.ListArtifactsResponse:
        """Return the list of a run's files."""
        ...

    def data(self, run_id: str, artifact: pb.Artifact, offset: int) -> AsyncGenerator[bytes, None]:
        """Yield a file's bytes."""
        ...


class StaleError(SpadeError):
    """A file is not what was listed any more."""


@dataclass(frozen=True, slots=True)
class Copied:
    """What a copy brought: where it is, how the run went, how many files there are and how many bytes came."""

    run_id: str
    folder: Path
    state: pb.RunState
    files: int
    received: int


def safe_path(path: str) -> Path:
    """Return a file's path below the run's folder; ConfigurationError for one that could lead out of it."""
    steps = path.split("/")
    if len(path) > 512 or not all(_STEP.fullmatch(step) for step in steps):
        raise ConfigurationError(f"the coordinator names a file {path!r}, which cannot be one of a run's folder")
    return Path(*steps)


async def copy_home(
    source: Source,
    run_id: str,
    runs_dir: Path,
    *,
    origin: str,
    weights: bool = False,
    patience: float = PATIENCE_SECONDS,
    progress: Progress = lambda _path, _done, _total: None,
) -> Copied:
    """Copy a run's files into its folder below ``runs_dir``; what is there already and the same is left alone.

    Raises ConfigurationError if the folder holds something else than an earlier copy of that run.
    """
    for _ in range(LISTINGS):
        listed = await source.artifacts(run_id, weights=weights)
        folder = runs_dir / safe_path(listed.run_id)
        try:
            received = await _copied(source, listed, folder, origin=origin, patience=patience, progress=progress)
        except StaleError:
            # The run went on, and its files were made anew for somebody else.
            continue
        except OSError as error:
            raise SpadeError(
                f"cannot write the copy {folder}: {error}. Make room, or choose another --runs-dir"
            ) from error
        return Copied(listed.run_id, folder, listed.state, len(listed.artifacts), received)
    raise SpadeError(f"the files of {run_id or 'the run'} keep changing while they are copied; try again")


async def _copied(
    source: Source, listed: pb.ListArtifactsResponse, folder: Path, *, origin: str, patience: float, progress: Progress
) -> int:
    known = await asyncio.to_thread(_prepared, folder, listed.run_id, origin)
    total, done, received = sum(one.size for one in listed.artifacts), 0, 0
    for artifact in listed.artifacts:
        target = folder / safe_path(artifact.path)
        if not await asyncio.to_thread(_same, target, artifact):
            received += await _file(source, listed.run_id, artifact, target, folder / PARTS, patience)
        done += artifact.size
        progress(artifact.path, done, total)
    paths = [one.path for one in listed.artifacts]
    await asyncio.to_thread(_finished, folder, listed.run_id, origin, known, paths)
    return received


async def _file(source: Source, run_id: str, artifact: pb.Artifact, target: Path, parts: Path, patience: float) -> int:
    """Bring one file; returns how many bytes came."""
    part = parts / artifact.sha256
    received = 0
    for _ in range(2):
        received += await _whole(source, run_id, artifact, part, patience)
        if await asyncio.to_thread(_same, part, artifact):
            await asyncio.to_thread(_moved, part, target)
            return received
        await asyncio.to_thread(part.unlink)
    raise SpadeError(
        f"{artifact.path} came twice with another content than it should have: the connection or a disk is broken"
    )


async def _whole(source: Source, run_id: str, artifact: pb.Artifact, part: Path, patience: float) -> int:
    """Bring what is missing of a file, over as many connections as it takes; returns how many bytes came."""
    received, deadline = 0, time.monotonic() + patience
    while True:
        before = _size(part)
        try:
            await _rest(source, run_id, artifact, part)
            return received + _size(part) - before
        except UnavailableError:
            came = _size(part) - before
            if came > 0:
                received, deadline = received + came, time.monotonic() + patience
            elif time.monotonic() > deadline:
                raise
        await asyncio.sleep(_PAUSE)


async def _rest(source: Source, run_id: str, artifact: pb.Artifact, part: Path) -> None:
    try:
        with part.open("ab") as out:
            async with aclosing(source.data(run_id, artifact, out.tell())) as pieces:
                async for data in pieces:
                    await asyncio.to_thread(out.write, data)
            out.flush()
            os.fsync(out.fileno())
    except ConfigurationError as error:
        part.unlink()
        raise StaleError(str(error)) from error


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _same(path: Path, artifact: pb.Artifact) -> bool:
    """Whether a file is the one that was listed."""
    try:
        if path.stat().st_size != artifact.size:
            return False
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == artifact.sha256
    except FileNotFoundError:
        return False


def _moved(part: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    part.replace(target)


def _prepared(folder: Path, run_id: str, origin: str) -> list[str]:
    """Make the folder ready; returns the files of the copy that is there."""
    known: list[str] = []
    if folder.exists() and any(folder.iterdir()):
        try:
            mark = json.loads((folder / COPY).read_text())
            same, known = (mark["run_id"], mark["origin"]) == (run_id, origin), [str(path) for path in mark["files"]]
        except (OSError, ValueError, KeyError, TypeError):
            same = False
        if not same:
            raise ConfigurationError(
                f"{folder} holds something else than a copy of this run from {origin}; choose another --runs-dir"
            )
    (folder / PARTS).mkdir(parents=True, exist_ok=True)
    if not known:
        _mark(folder, run_id, origin, [])
    return known


def _mark(folder: Path, run_id: str, origin: str, files: list[str]) -> None:
    temporary = folder / f".{COPY}"
    temporary.write_text(json.dumps({"run_id": run_id, "origin": origin, "files": files}, indent=1))
    temporary.replace(folder / COPY)


def _finished(folder: Path, run_id: str, origin: str, known: list[str], files: list[str]) -> None:
    """Remove what an earlier copy brought and the run does not have any more, and what is left of broken downloads."""
    for path in set(known) - set(files) - {MANIFEST}:
        (folder / safe_path(path)).unlink(missing_ok=True)
    for part in (folder / PARTS).iterdir():
        part.unlink()
    (folder / PARTS).rmdir()
    _mark(folder, run_id, origin, files)
