"""The schema is what the migrations make, and only databases of this version are opened."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from hypothesis import given
from hypothesis import strategies as st

from spade_rl.errors import ConfigurationError, MemoryStoreError
from spade_rl.memory.archive import Archive
from spade_rl.memory.database import VERSION_TABLE
from spade_rl.memory.schema import Base, escape_text, unescape_text

OpenArchive = Callable[..., Archive]


def test_the_migrations_make_the_tables_that_the_code_declares(open_archive: OpenArchive) -> None:
    with open_archive()._engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
        assert compare_metadata(context, Base.metadata) == []


def test_a_newer_version_is_refused(open_archive: OpenArchive) -> None:
    archive = open_archive()
    with archive._engine.begin() as connection:
        connection.exec_driver_sql(f"UPDATE {VERSION_TABLE} SET version_num = '9999'")
    for read_only in (False, True):
        with pytest.raises(ConfigurationError, match=r"newer version of Spade \(schema 9999"):
            open_archive(read_only=read_only)


def test_tables_of_another_program_are_refused(open_archive: OpenArchive) -> None:
    with open_archive()._engine.begin() as connection:
        connection.exec_driver_sql(f"DROP TABLE {VERSION_TABLE}")
    with pytest.raises(ConfigurationError, match=r"another program.*attempts"):
        open_archive()


def test_a_database_that_holds_no_archive_is_not_opened_read_only(open_archive: OpenArchive) -> None:
    with open_archive()._engine.begin() as connection:
        Base.metadata.drop_all(connection)
        connection.exec_driver_sql(f"DROP TABLE {VERSION_TABLE}")
    with pytest.raises(ConfigurationError, match="nothing was recorded"):
        open_archive(read_only=True)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("nonsense", "not a SQLAlchemy URL"),
        ("mysql://host/name", "sqlite or postgresql"),
    ],
)
def test_urls_that_cannot_be_honoured(url: str, message: str, tmp_path) -> None:
    with pytest.raises(ConfigurationError, match=message):
        Archive.open(tmp_path, url=url)


def test_a_server_that_is_down_hides_the_password(tmp_path) -> None:
    with pytest.raises(MemoryStoreError, match="cannot open postgresql") as caught:
        Archive.open(tmp_path, url="postgresql://user:secret@127.0.0.1:1/name")
    assert "secret" not in str(caught.value)


@given(st.text(st.sampled_from("\0\ufdd101a") | st.characters(exclude_categories=["Cs"])))
def test_escaping_loses_nothing(text: str) -> None:
    escaped = escape_text(text)
    assert "\0" not in escaped
    assert unescape_text(escaped) == text
