"""The archive of environments, attempts and trajectories.

Everything a run made, by SQL for what is searched and by Parquet for what is only read back. A write is one
transaction and idempotent: what is there already is left as it is, and the statistics of a cycle are those of its last
record. Readers of a finished run open the same class read-only; no service is needed. Not safe for use by several
threads at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import groupby
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Select, delete, func, insert, select
from sqlalchemy.orm import InstrumentedAttribute, Session, defer, load_only

from spade_rl.errors import ConfigurationError, MemoryStoreError
from spade_rl.memory.content import ContentStore, part_name
from spade_rl.memory.database import open_database, storing
from spade_rl.memory.records import (
    Attempt,
    Record,
    RecordCounts,
    RefusedSource,
    Statistics,
    StoredEnvironment,
    Trajectory,
    TrajectoryHeader,
)
from spade_rl.memory.rows import (
    as_attempt,
    as_environment,
    as_header,
    as_refused,
    as_statistics,
    attempt_row,
    environment_row,
    statistics_row,
    trajectory_row,
)
from spade_rl.memory.schema import AttemptRow, Base, EnvironmentRow, StatisticsRow, TrajectoryRow

TRAJECTORIES_FOLDER = "trajectories"
# Below the limits on a statement's parameters of both databases.
_CHUNK = 500
_T = TypeVar("_T")


def _chunks(values: Sequence[Any]) -> Iterator[Sequence[Any]]:
    return (values[start : start + _CHUNK] for start in range(0, len(values), _CHUNK))


class Archive:
    """One database and its folder of trajectories. Close it, or use it as a context manager."""

    def __init__(self, run_dir: Path, *, url: str | None = None, read_only: bool = False) -> None:
        self._engine = open_database(run_dir, url, read_only=read_only)
        self._content = ContentStore(str(run_dir.absolute() / TRAJECTORIES_FOLDER))

    @classmethod
    def open(cls, run_dir: Path, *, url: str | None = None, read_only: bool = False) -> Archive:
        """Open the archive of a run's folder; ``url`` names the database where it is not the folder's own.

        Raises ConfigurationError when there is none, or one of another version or program.
        """
        return cls(run_dir, url=url, read_only=read_only)

    def close(self) -> None:
        """Let go of the database."""
        self._engine.dispose()

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def _session(self, what: str) -> Iterator[Session]:
        """One transaction: kept when the block ends well, gone when it raises."""
        with storing(what), Session(self._engine) as session, session.begin():
            yield session

    # --- Writing ----------------------------------------------------------------------------------

    def record(self, record: Record) -> RecordCounts:
        """Keep what a cycle brings, all of it or nothing."""
        run_id, cycle = record.run_id, record.cycle
        for trajectory in record.trajectories:
            if trajectory.header.cycle != cycle:
                raise MemoryStoreError(
                    f"the trajectory {trajectory.header.id} is of cycle {trajectory.header.cycle}, the record of cycle {cycle}"
                )
        written: list[str] = []
        try:
            with self._session(f"record cycle {cycle} of {run_id}") as session:
                attempts = _new(session, AttemptRow.id, run_id, {a.id: a for a in record.attempts})
                environments = _new(session, EnvironmentRow.digest, run_id, {e.digest: e for e in record.environments})
                trajectories = _new(session, TrajectoryRow.id, run_id, {t.header.id: t for t in record.trajectories})
                _add(session, AttemptRow, [attempt_row(run_id, attempt) for attempt in attempts])
                _add(session, EnvironmentRow, [environment_row(run_id, cycle, e) for e in environments])
                _replace_statistics(session, run_id, cycle, record.statistics)
                if trajectories:
                    part = part_name(run_id, cycle, (t.header.id for t in trajectories))
                    self._content.write(part, trajectories)
                    written.append(part)
                    _add(session, TrajectoryRow, [trajectory_row(run_id, part, t.header) for t in trajectories])
        except MemoryStoreError:
            with suppress(OSError):  # What is left of it is named by no row.
                self._content.remove(written)
            raise
        return RecordCounts(len(attempts), len(environments), len(trajectories))

    def rollback(self, run_id: str, last_cycle: int) -> tuple[int, int]:
        """Forget what was recorded after ``last_cycle``; return how many environments and trajectories that were."""
        with self._session(f"roll {run_id} back to cycle {last_cycle}") as session:
            removed = [
                len(
                    session.execute(
                        delete(row).where(row.run_id == run_id, row.cycle > last_cycle).returning(key)
                    ).all()
                )
                for row, key in (
                    (EnvironmentRow, EnvironmentRow.digest),
                    (TrajectoryRow, TrajectoryRow.id),
                    (AttemptRow, AttemptRow.id),
                    (StatisticsRow, StatisticsRow.cycle),
                )
            ]
        with storing(f"remove the trajectories after cycle {last_cycle}"):
            self._content.remove(self._content.parts_after(run_id, last_cycle))
        return removed[0], removed[1]

    # --- Reading ----------------------------------------------------------------------------------

    def runs(self) -> list[str]:
        """Return the runs of which anything is kept."""
        with self._session("list runs") as session:
            found: set[str] = set()
            for column in (EnvironmentRow.run_id, AttemptRow.run_id, TrajectoryRow.run_id):
                found.update(session.scalars(select(column).distinct()))
        return sorted(found)

    def resolve_digest(self, run_id: str, prefix: str) -> str:
        """Return the digest of the one environment of a run whose digest begins with ``prefix``."""
        with self._session("resolve a digest") as session:
            query = select(EnvironmentRow.digest).where(
                EnvironmentRow.run_id == run_id, EnvironmentRow.digest.startswith(prefix, autoescape=True)
            )
            found = sorted(session.scalars(query.limit(3)))
        if len(found) != 1:
            what = f"several, such as {found[0][:16]} and {found[1][:16]}: give more of it" if found else "none"
            raise ConfigurationError(f"the run {run_id} has {what} among its environments that begin with {prefix!r}")
        return found[0]

    def environments(
        self,
        run_id: str,
        *,
        skill: str = "",
        digest_prefix: str = "",
        before_cycle: int | None = None,
        newest_played: int | None = None,
    ) -> list[StoredEnvironment]:
        """Return environments with their newest statistics, in the order of cycle and digest.

        ``before_cycle`` looks at the archive as it was before that cycle; ``newest_played`` keeps only so many of
        the newest that have statistics.
        """
        newest = select(StatisticsRow.digest, func.max(StatisticsRow.cycle).label("cycle")).where(
            StatisticsRow.run_id == run_id
        )
        if before_cycle is not None:
            newest = newest.where(StatisticsRow.cycle < before_cycle)
        latest = newest.group_by(StatisticsRow.digest).subquery()
        query = (
            select(EnvironmentRow, StatisticsRow)
            .outerjoin(latest, latest.c.digest == EnvironmentRow.digest)
            .outerjoin(
                StatisticsRow,
                (StatisticsRow.run_id == run_id)
                & (StatisticsRow.digest == latest.c.digest)
                & (StatisticsRow.cycle == latest.c.cycle),
            )
            .where(EnvironmentRow.run_id == run_id)
        )
        if skill:
            query = query.where(EnvironmentRow.skill == skill)
        if digest_prefix:
            query = query.where(EnvironmentRow.digest.startswith(digest_prefix, autoescape=True))
        if before_cycle is not None:
            query = query.where(EnvironmentRow.cycle < before_cycle)
        if newest_played is not None:
            query = query.where(StatisticsRow.digest.is_not(None)).limit(newest_played)
        query = query.order_by(EnvironmentRow.cycle.desc(), EnvironmentRow.digest.desc())
        with self._session("list environments") as session:
            rows = session.execute(query).all()
            found = [
                StoredEnvironment(as_environment(row), row.cycle, as_statistics(known) if known else None)
                for row, known in rows
            ]
        return found[::-1]

    def refused(self, run_id: str, *, skill: str, before_cycle: int, newest: int) -> list[RefusedSource]:
        """Return the newest refused sources of a skill that were recorded before a cycle."""
        query = (
            select(AttemptRow)
            .options(
                load_only(
                    AttemptRow.id,
                    AttemptRow.cycle,
                    AttemptRow.skill,
                    AttemptRow.source,
                    AttemptRow.refusal,
                    AttemptRow.provenance,
                )
            )
            .where(
                AttemptRow.run_id == run_id,
                AttemptRow.skill == skill,
                AttemptRow.cycle < before_cycle,
                AttemptRow.refusal != "",
                AttemptRow.source != "",
            )
            .order_by(AttemptRow.cycle.desc(), AttemptRow.id.desc())
            .limit(newest)
        )
        with self._session("list refused sources") as session:
            return [as_refused(row) for row in session.scalars(query)]

    def attempts(self, run_id: str, *, first_cycle: int = 0, tokens: bool = True) -> Iterator[list[Attempt]]:
        """Yield the attempts of a run, one cycle at a time; without ``tokens``, text only."""
        ours = AttemptRow.run_id == run_id
        with self._session("list attempts") as session:
            cycles = sorted(
                session.scalars(select(AttemptRow.cycle).where(ours, AttemptRow.cycle >= first_cycle).distinct())
            )
        for cycle in cycles:
            with self._session("list attempts") as session:
                query = select(AttemptRow).where(ours, AttemptRow.cycle == cycle).order_by(AttemptRow.id)
                query = query if tokens else query.options(defer(AttemptRow.sequence))
                page = [as_attempt(row, tokens=tokens) for row in session.scalars(query)]
            yield page

    def normalised_digests(self, run_id: str) -> list[str]:
        """Return the normalised digests of a run's admitted sources."""
        query = select(AttemptRow.normalised_digest).where(
            AttemptRow.run_id == run_id, AttemptRow.admitted.is_(True), AttemptRow.normalised_digest != ""
        )
        with self._session("list normalised digests") as session:
            return sorted(set(session.scalars(query)))

    def trajectory_headers(
        self, run_id: str, *, digest_prefix: str = "", trajectory_id: str = "", limit: int = 0
    ) -> list[TrajectoryHeader]:
        """Return the searchable fields of trajectories, in the order of cycle, environment, arm and play."""
        with self._session("list trajectories") as session:
            rows = session.scalars(_trajectory_query(run_id, digest_prefix, trajectory_id, limit))
            return [as_header(row) for row in rows]

    def trajectories(
        self, run_id: str, *, digest_prefix: str = "", trajectory_id: str = "", limit: int = 0, tokens: bool = True
    ) -> Iterator[list[Trajectory]]:
        """Yield whole trajectories in the order of their headers, in pages; without ``tokens``, text only."""
        with self._session("list trajectories") as session:
            rows = session.scalars(_trajectory_query(run_id, digest_prefix, trajectory_id, limit))
            found = [(row.part, as_header(row)) for row in rows]
        for part, group in groupby(found, key=lambda item: item[0]):
            for headers in _chunks([header for _, header in group]):
                with storing(f"read the trajectories in {part}"):
                    page = self._content.read(part, headers, tokens=tokens)
                yield page


def _trajectory_query(run_id: str, prefix: str, trajectory_id: str, limit: int) -> Select[Any]:
    row = TrajectoryRow
    query = select(row).where(row.run_id == run_id)
    if prefix:
        query = query.where(row.environment_digest.startswith(prefix, autoescape=True))
    if trajectory_id:
        query = query.where(row.id == trajectory_id)
    query = query.order_by(row.cycle, row.environment_digest, row.arm, row.play, row.id)
    return query.limit(limit) if limit else query


def _new(session: Session, key: InstrumentedAttribute[str], run_id: str, offered: dict[str, _T]) -> list[_T]:
    known: set[str] = set()
    for chunk in _chunks(list(offered)):
        known.update(session.scalars(select(key).where(key.class_.run_id == run_id, key.in_(chunk))))
    return [value for name, value in offered.items() if name not in known]


def _add(session: Session, table: type[Base], rows: list[dict[str, Any]]) -> None:
    if rows:
        session.execute(insert(table), rows)


def _replace_statistics(session: Session, run_id: str, cycle: int, statistics: Iterable[Statistics]) -> None:
    newest = {known.digest: known for known in statistics}
    for digests in _chunks(list(newest)):
        session.execute(
            delete(StatisticsRow).where(
                StatisticsRow.run_id == run_id, StatisticsRow.cycle == cycle, StatisticsRow.digest.in_(digests)
            )
        )
    _add(session, StatisticsRow, [statistics_row(run_id, cycle, known) for known in newest.values()])
