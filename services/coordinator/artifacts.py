"""The files of runs, as they are handed out.

``refresh`` makes a run's folder below ``exports/`` up to now and lists its files with sizes and digests; they stay as
they are until the next refresh of the same run, so that a broken download can go on where it stopped. A file that was
replaced in between is refused by its digest.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import shutil
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from spade_rl.coordinator.clients import Services
from spade_rl.coordinator.desk import EVENTS, Desk
from spade_rl.coordinator.events import read_events
from spade_rl.coordinator.export import WEIGHTS, write_folder
from spade_rl.errors import ConfigurationError, SpadeError

EXPORTS = "exports"
COMPLETE = "COMPLETE"
CHUNK_BYTES = 1 << 20
ATTEMPTS = 3
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Artifact:
    """A file of a run: its path below the run's folder, its size in bytes and its SHA-256."""

    path: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class _Listing:
    """What a refresh found, and for which events and parts it holds."""

    basis: tuple[int, str, bool]
    artifacts: tuple[Artifact, ...]


class Artifacts:
    """Makes and reads the folders below ``exports/``; ``close`` frees its thread."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._folder = desk.folder / EXPORTS
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="artifacts")
        self._lock = asyncio.Lock()
        self._listings: dict[str, _Listing] = {}

    def close(self) -> None:
        """Wait for work in progress."""
        self._executor.shutdown()

    async def _aside(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._executor, work)

    async def refresh(self, run_id: str, *, weights: bool) -> tuple[Artifact, ...]:
        """Make a run's folder up to now; returns its files in the order in which to fetch them."""
        async with self._lock:
            for _ in range(ATTEMPTS):
                lines = await self._lines(run_id)
                basis = (len(lines), lines[-1] if lines else "", weights)
                known = self._listings.get(run_id)
                if known is not None and known.basis == basis:
                    return known.artifacts
                artifacts = await self._made(run_id, lines, weights=weights)
                # A run that went back to a checkpoint meanwhile has taken back what was read of the archive.
                if (await self._lines(run_id))[: len(lines)] == lines:
                    self._listings[run_id] = _Listing(basis, artifacts)
                    return artifacts
            raise SpadeError(f"the run {run_id} keeps going back to its checkpoint; ask again when it goes on")

    async def read(self, run_id: str, path: str, sha256: str, offset: int) -> AsyncIterator[bytes]:
        """Yield a listed file from an offset on."""
        known = self._listings.get(run_id)
        artifact = next((one for one in known.artifacts if one.path == path), None) if known else None
        if artifact is None or artifact.sha256 != sha256:
            raise ConfigurationError(f"{path} of the run {run_id} is not what was listed any more: list it again")
        if offset > artifact.size:
            raise ConfigurationError(f"{path} has {artifact.size} bytes: there is nothing from {offset} on")
        # Opened once: a refresh replaces files, it does not change them.
        try:
            file = await self._aside(lambda: (self._folder / run_id / path).open("rb"))
        except OSError as error:
            raise SpadeError(f"cannot read {path} of the run {run_id}: {error}") from error
        try:
            await self._aside(lambda: file.seek(offset))
            while data := await self._aside(lambda: file.read(CHUNK_BYTES)):
                yield data
        finally:
            file.close()

    async def _lines(self, run_id: str) -> list[str]:
        run = self._desk.current(run_id)
        if run is not None:
            return run.events.lines()
        path = self._desk.run_folder(run_id) / EVENTS
        return await self._aside(lambda: [json.dumps(one) for one in read_events(path)] if path.exists() else [])

    async def _made(self, run_id: str, lines: list[str], *, weights: bool) -> tuple[Artifact, ...]:
        unfinished, final = self._folder / f".{run_id}", self._folder / run_id
        config = self._desk.config
        services = Services(config.endpoints, config.run.stage_seconds, config.tls)
        try:
            await self._aside(lambda: _emptied(unfinished))
            await write_folder(
                unfinished,
                source=self._desk.run_folder(run_id),
                lines=lines,
                services=services,
                run_id=run_id,
                weights=self._weights(run_id) if weights else None,
                executor=self._executor,
            )
            found = await self._aside(lambda: _listed(unfinished))
            await self._aside(lambda: _replaced(unfinished, final))
        except OSError as error:
            raise SpadeError(f"cannot write the artifacts of the run {run_id}: {error}") from error
        finally:
            await services.close()
        return found

    def _weights(self, run_id: str) -> Path:
        version = self._desk.status(run_id).policy_version
        folder = self._desk.folder / WEIGHTS / f"{version:06d}"
        newest = self._desk.resolve("")
        if run_id != newest or not (folder / COMPLETE).exists():
            raise ConfigurationError(
                f"the learner does not hold version {version} of the run {run_id} any more; `spade resume {run_id}` brings it back"
            )
        return folder


def _emptied(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)


def _replaced(unfinished: Path, final: Path) -> None:
    old = final.with_name(f".{final.name}-old")
    shutil.rmtree(old, ignore_errors=True)
    if final.exists():
        final.rename(old)
    unfinished.rename(final)
    shutil.rmtree(old, ignore_errors=True)


def _listed(folder: Path) -> tuple[Artifact, ...]:
    """Return the files below a folder, the small and telling ones first and the manifest last."""
    paths = [path for path in folder.rglob("*") if path.is_file()]
    ordered = sorted(paths, key=lambda path: (path.name == "manifest.json", len(path.parts), path.as_posix()))
    return tuple(Artifact(path.relative_to(folder).as_posix(), path.stat().st_size, _sha256(path)) for path in ordered)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
