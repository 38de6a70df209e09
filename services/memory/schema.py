"""The tables of the archive.

Every key begins with the run, so that several runs share one database. Rows of a run carry the cycle in which
they were recorded, which is what a rollback goes by. Statistics are kept per cycle and the newest row counts: after
a rollback the newest row is again what was known at the kept cycle.

The same types serve SQLite and PostgreSQL. A policy can write any character, and PostgreSQL's text cannot hold
U+0000, so text is stored with that one character escaped.
"""

from __future__ import annotations

import json
from typing import Any, ClassVar

from sqlalchemy import BigInteger, Dialect, Double, Index, Text
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column
from sqlalchemy.types import TypeDecorator

# A noncharacter, which Unicode reserves for uses like this one; itself escaped where a text holds it.
_ESCAPE = "\ufdd1"


def escape_text(text: str) -> str:
    """Return ``text`` without U+0000; ``unescape_text`` gives it back."""
    return text.replace(_ESCAPE, _ESCAPE + "1").replace("\0", _ESCAPE + "0")


def unescape_text(text: str) -> str:
    """Return what ``escape_text`` was given."""
    return text.replace(_ESCAPE + "0", "\0").replace(_ESCAPE + "1", _ESCAPE)


class AnyText(TypeDecorator[str]):
    """Text that may hold U+0000."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002
        """Escape on the way in."""
        return None if value is None else escape_text(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002
        """Unescape on the way out."""
        return None if value is None else unescape_text(value)


class JsonText(TypeDecorator[Any]):
    """A JSON value as text; numbers that are not finite survive, unlike in PostgreSQL's own JSON types."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> str | None:  # noqa: ARG002
        """Dump on the way in; ASCII only, so that no character needs an escape of ours."""
        return None if value is None else json.dumps(value, separators=(",", ":"))

    def process_result_value(self, value: str | None, dialect: Dialect) -> Any:  # noqa: ARG002
        """Load on the way out."""
        return None if value is None else json.loads(value)


class Base(DeclarativeBase):
    """The archive's tables."""

    type_annotation_map: ClassVar[dict[Any, Any]] = {
        str: AnyText,
        int: BigInteger,
        float: Double,
        dict[str, Any]: JsonText,
        list[Any]: JsonText,
    }


class EnvironmentRow(Base):
    """An admitted environment."""

    __tablename__ = "environments"
    __table_args__ = (Index("environments_by_skill", "run_id", "skill", "cycle"),)

    run_id: Mapped[str] = mapped_column(primary_key=True)
    digest: Mapped[str] = mapped_column(primary_key=True)
    cycle: Mapped[int]
    kind: Mapped[str]
    skill: Mapped[str]
    source: Mapped[str]
    hint: Mapped[str]
    document_id: Mapped[str]
    provenance: Mapped[dict[str, Any]]


class AttemptRow(Base):
    """A source that the designer wrote, admitted or not."""

    __tablename__ = "attempts"
    __table_args__ = (Index("attempts_by_cycle", "run_id", "cycle"), Index("attempts_by_skill", "run_id", "skill"))

    run_id: Mapped[str] = mapped_column(primary_key=True)
    id: Mapped[str] = mapped_column(primary_key=True)
    cycle: Mapped[int]
    skill: Mapped[str]
    source: Mapped[str]
    admitted: Mapped[bool]
    refusal: Mapped[str]
    normalised_digest: Mapped[str]
    reply: Mapped[str]
    provenance: Mapped[dict[str, Any]]
    report: Mapped[dict[str, Any] | None] = mapped_column(JsonText)
    sequence: Mapped[list[Any]]


class StatisticsRow(Base):
    """What was known of an environment's results at the end of a cycle."""

    __tablename__ = "statistics"

    run_id: Mapped[str] = mapped_column(primary_key=True)
    digest: Mapped[str] = mapped_column(primary_key=True)
    cycle: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    plain_plays: Mapped[int]
    hinted_plays: Mapped[int]
    win_rate: Mapped[float]
    hinted_win_rate: Mapped[float]
    regret: Mapped[float]
    regret_standard_error: Mapped[float]
    designer_reward: Mapped[float]
    void_episodes: Mapped[int]
    quarantined: Mapped[bool]
    quarantine_reason: Mapped[str]
    closed: Mapped[bool]


class TrajectoryRow(Base):
    """The searchable fields of a trajectory; its content lies in the Parquet file ``part``."""

    __tablename__ = "trajectories"
    __table_args__ = (
        Index("trajectories_by_cycle", "run_id", "cycle"),
        Index("trajectories_by_environment", "run_id", "environment_digest"),
    )

    run_id: Mapped[str] = mapped_column(primary_key=True)
    id: Mapped[str] = mapped_column(primary_key=True)
    environment_digest: Mapped[str]
    cycle: Mapped[int]
    arm: Mapped[str]
    seed: Mapped[int]
    play: Mapped[int]
    episode_return: Mapped[float]
    stop_reason: Mapped[str]
    turns: Mapped[int]
    sampled_tokens: Mapped[int]
    context_tokens: Mapped[int]
    seconds: Mapped[float]
    error: Mapped[str]
    part: Mapped[str]
