"""The archive of a run as the listings read it; importing this loads no database driver."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spade_rl.errors import ConfigurationError

if TYPE_CHECKING:
    from spade_rl.memory.archive import Archive
    from spade_rl.memory.records import Attempt, StoredEnvironment, Trajectory, TrajectoryHeader


@contextmanager
def reading(run_dir: Path) -> Iterator[Archive]:
    """Open the archive of a run's folder to read it."""
    from spade_rl.report.gallery import open_archive

    with open_archive(run_dir) as archive:
        yield archive


def one_environment(archive: Archive, run_id: str, prefix: str) -> StoredEnvironment:
    """Return the one environment whose digest begins with ``prefix``; raises ConfigurationError without one."""
    digest = archive.resolve_digest(run_id, prefix.strip().lower())
    return archive.environments(run_id, digest_prefix=digest)[0]


def attempt_of(archive: Archive, run_id: str, stored: StoredEnvironment) -> Attempt | None:
    """Return the admitted attempt that an environment came from."""
    for page in archive.attempts(run_id, first_cycle=stored.cycle):
        for attempt in page:
            if attempt.report and attempt.report.admitted and attempt.report.digest == stored.environment.digest:
                return attempt
    return None


def one_trajectory(archive: Archive, run_id: str, name: str) -> Trajectory:
    """Return the one trajectory with the identifier ``name``; the run's own part of it may be left out.

    Raises ConfigurationError if there is none.
    """
    for identifier in dict.fromkeys((name, f"{run_id}/{name}")):
        for page in archive.trajectories(run_id, trajectory_id=identifier, tokens=False):
            for trajectory in page:
                return trajectory
    raise ConfigurationError(f"the run {run_id} has no episode {name!r}; `spade episodes list` names them all")


def environment_json(stored: StoredEnvironment, *, source: bool) -> dict[str, Any]:
    """Return an environment as JSON; without ``source``, only what a list needs."""
    one = stored.environment
    listed: dict[str, Any] = {
        "digest": one.digest,
        "skill": one.skill,
        "kind": one.kind,
        "cycle": stored.cycle,
        "statistics": asdict(stored.statistics) if stored.statistics else None,
    }
    if source:
        listed |= {"source": one.source, "hint": one.hint, "provenance": asdict(one.provenance)}
    return listed


def header_json(head: TrajectoryHeader) -> dict[str, Any]:
    """Return the searchable fields of an episode as JSON."""
    return asdict(head)
