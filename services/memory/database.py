"""Opening the archive's database and keeping its schema.

A database is migrated when it is opened for writing. One of a newer version, one of another program and a file that
is no database are refused before anything is written. All failures of the driver come out as ``MemoryStoreError``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Any

import pyarrow as pa
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, create_engine, event, inspect
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, SQLAlchemyError

from spade_rl.errors import ConfigurationError, MemoryStoreError
from spade_rl.memory.schema import Base

DATABASE_NAME = "memory.sqlite"
VERSION_TABLE = "spade_schema_version"
BUSY_SECONDS = 30
CONNECT_SECONDS = 10
STATEMENT_SECONDS = 120


@contextmanager
def storing(what: str) -> Iterator[None]:
    """Around database and file work: failures come out as ``MemoryStoreError`` that says what to do."""
    try:
        yield
    except (SQLAlchemyError, OSError, pa.ArrowException) as error:
        raise MemoryStoreError(f"cannot {what}: {_cause(error)}{_advice(error)}") from error


def _cause(error: Exception) -> str:
    cause = error.orig if isinstance(error, DBAPIError) else error
    return str(cause).strip() or type(cause).__name__


def _advice(error: Exception) -> str:
    text = str(error).lower()
    if "full" in text or "no space" in text or "file too large" in text or "quota" in text:
        return ". Nothing was kept of it; make room on the disk and resume the run."
    if "locked" in text:
        return ". Another process writes to it; stop that one first."
    if "readonly" in text or "read-only" in text or "permission" in text:
        return ". Allow this user to write there, or use another run folder."
    return ""


def _url(run_dir: Path, url: str | None, *, read_only: bool) -> URL:
    if url is None:
        path = run_dir / DATABASE_NAME
        if read_only and not path.is_file():
            raise ConfigurationError(f"{run_dir} holds no {DATABASE_NAME}: it is not the folder of a run")
        query = {"uri": "true", "mode": "ro" if read_only else "rwc"}
        if read_only and not os.access(run_dir, os.W_OK):
            # On a read-only medium there is no room for a write-ahead log, and nothing changes either.
            query["immutable"] = "1"
        quoted = str(path.absolute()).replace("%", "%25").replace("?", "%3f").replace("#", "%23")
        return URL.create("sqlite", database=f"file:{quoted}", query=query)
    try:
        parsed = make_url(url)
    except ArgumentError as error:
        raise ConfigurationError(
            f"memory.url is not a SQLAlchemy URL such as postgresql://user@host/name: {error}"
        ) from error
    backend = parsed.get_backend_name()
    if backend not in ("sqlite", "postgresql"):
        raise ConfigurationError(f"memory.url must name sqlite or postgresql, not {backend}")
    return parsed.set(drivername="postgresql+psycopg") if backend == "postgresql" else parsed


def _tune_sqlite(engine: Engine, *, read_only: bool) -> None:
    """Make transactions SQLAlchemy's business, not the driver's, so that schema changes are in them too."""

    @event.listens_for(engine, "connect")
    def connected(connection: Any, _record: Any) -> None:
        connection.isolation_level = None
        connection.execute(f"PRAGMA busy_timeout = {BUSY_SECONDS * 1000}")
        if not read_only:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")

    @event.listens_for(engine, "begin")
    def begun(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN" if read_only else "BEGIN IMMEDIATE")


def open_database(run_dir: Path, url: str | None, *, read_only: bool = False) -> Engine:
    """Return an engine on a database of the current schema; without ``url``, on SQLite in the run's folder.

    Raises ConfigurationError when the database is not there, not ours or of another version, MemoryStoreError when
    it cannot be read or written.
    """
    parsed = _url(run_dir, url, read_only=read_only)
    where = str(run_dir / DATABASE_NAME) if url is None else parsed.render_as_string(hide_password=True)
    sqlite = parsed.get_backend_name() == "sqlite"
    arguments = (
        {} if sqlite else {"connect_timeout": CONNECT_SECONDS, "options": f"-c statement_timeout={STATEMENT_SECONDS}s"}
    )
    try:
        engine = create_engine(parsed, connect_args=arguments, pool_pre_ping=not sqlite)
    except (ModuleNotFoundError, NoSuchModuleError) as error:
        raise ConfigurationError(
            f"memory.url needs a driver that is missing ({error}): pip install 'spade-rl[postgresql]'"
        ) from error
    if sqlite:
        _tune_sqlite(engine, read_only=read_only)
    try:
        with storing(f"open {where}"), engine.begin() as connection:
            _to_current_schema(connection, where, read_only=read_only)
    except MemoryStoreError as error:
        engine.dispose()
        if "not a database" in str(error):
            raise ConfigurationError(
                f"{where} is not a SQLite database: move it away or use another run folder"
            ) from error
        raise
    except ConfigurationError:
        engine.dispose()
        raise
    return engine


def _to_current_schema(connection: Connection, where: str, *, read_only: bool) -> None:
    config = Config()
    config.set_main_option("script_location", str(resources.files("spade_rl.memory") / "migrations").replace("%", "%%"))
    config.attributes.update(connection=connection, version_table=VERSION_TABLE)
    scripts = ScriptDirectory.from_config(config)
    current = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE}).get_current_revision()
    known = {script.revision for script in scripts.walk_revisions()}
    if current is not None and current not in known:
        raise ConfigurationError(
            f"{where} was written by a newer version of Spade (schema {current}, this one knows up to {scripts.get_current_head()}): "
            "install that version, or use another run folder"
        )
    if current is None:
        tables = set(inspect(connection).get_table_names())
        if tables & set(Base.metadata.tables) or (tables and connection.dialect.name == "sqlite"):
            raise ConfigurationError(
                f"{where} belongs to another program (it has the tables {', '.join(sorted(tables)[:5])}): use another database"
            )
        if read_only:
            raise ConfigurationError(f"{where} holds no archive: nothing was recorded in it yet")
    if current == scripts.get_current_head():
        return
    if read_only:
        raise ConfigurationError(f"{where} was written by an older version of Spade: resume the run once to migrate it")
    command.upgrade(config, "head")
