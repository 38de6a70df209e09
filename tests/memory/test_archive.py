"""What is written is read back whole, once, and on both databases alike."""

from __future__ import annotations

import resource
import shutil
import signal
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from spade_rl.errors import ConfigurationError, MemoryStoreError
from spade_rl.memory.archive import Archive
from spade_rl.memory.records import Record

OpenArchive = Callable[..., Archive]
RUN = "run-1"


def everything(archive: Archive, run_id: str = RUN) -> dict[str, Any]:
    return {
        "environments": archive.environments(run_id),
        "attempts": list(chain.from_iterable(archive.attempts(run_id))),
        "trajectories": list(chain.from_iterable(archive.trajectories(run_id))),
        "digests": archive.normalised_digests(run_id),
    }


def parts(folder: Path) -> set[str]:
    return {path.name for path in (folder / "trajectories").glob("*")}


def test_what_is_recorded_is_read_back_whole(open_archive: OpenArchive, make: Any) -> None:
    record = make.record(3, "A", "B")
    counts = open_archive().record(record)
    assert (counts.attempts, counts.environments, counts.trajectories) == (2, 2, 8)
    reader = open_archive(read_only=True)
    assert {s.environment for s in reader.environments(RUN)} == set(record.environments)
    assert {s.statistics for s in reader.environments(RUN)} == set(record.statistics)
    assert [s.cycle for s in reader.environments(RUN)] == [3, 3]
    assert list(chain.from_iterable(reader.attempts(RUN))) == list(record.attempts)
    read = list(chain.from_iterable(reader.trajectories(RUN)))
    assert {t.header.id: t for t in read} == {t.header.id: t for t in record.trajectories}
    assert [t.header for t in read] == reader.trajectory_headers(RUN)
    assert reader.runs() == [RUN]


def test_recording_twice_changes_nothing(open_archive: OpenArchive, make: Any, tmp_path: Path) -> None:
    archive = open_archive()
    archive.record(make.record(0, "A"))
    before, files = everything(archive), parts(tmp_path)
    counts = archive.record(make.record(0, "A"))
    assert (counts.attempts, counts.environments, counts.trajectories) == (0, 0, 0)
    assert everything(archive) == before
    assert parts(tmp_path) == files


def test_a_record_that_overlaps_adds_only_what_is_new(open_archive: OpenArchive, make: Any) -> None:
    archive = open_archive()
    archive.record(make.record(0, "A"))
    counts = archive.record(make.record(0, "A", "B"))
    # The second attempt is new; the first one has the identifier of one that is there.
    assert (counts.attempts, counts.environments, counts.trajectories) == (1, 1, 4)
    ids = [t.header.id for t in chain.from_iterable(archive.trajectories(RUN))]
    assert len(ids) == len(set(ids)) == 8


def test_runs_do_not_see_each_other(open_archive: OpenArchive, make: Any) -> None:
    archive = open_archive()
    other = type(make)(run_id="run-2")
    archive.record(make.record(0, "A"))
    archive.record(other.record(0, "A", "B"))
    assert archive.runs() == ["run-1", "run-2"]
    assert len(archive.environments("run-1")) == 1
    archive.rollback("run-2", -1)
    assert archive.runs() == ["run-1"]
    assert len(list(chain.from_iterable(archive.trajectories("run-1")))) == 4


def test_rollback_restores_what_was_known_at_the_kept_cycle(
    open_archive: OpenArchive, make: Any, tmp_path: Path
) -> None:
    archive = open_archive()
    archive.record(make.record(0, "A"))
    archive.record(make.record(1, "B"))
    kept, files = everything(archive), parts(tmp_path)
    first = make.environment("A")
    later = Record(
        RUN,
        2,
        attempts=(make.attempt(9, 2, refusal="bad"),),
        environments=(make.environment("C", cycle=2),),
        trajectories=(make.trajectory(first.digest, 2, 0),),
        statistics=(make.statistics(first, 0.9, quarantined=True),),
    )
    archive.record(later)
    assert everything(archive) != kept
    assert archive.rollback(RUN, 1) == (1, 1)
    assert everything(archive) == kept
    assert parts(tmp_path) == files
    assert archive.rollback(RUN, 1) == (0, 0)


def test_statistics_are_the_newest_before_the_cycle_asked_for(open_archive: OpenArchive, make: Any) -> None:
    archive = open_archive()
    environment = make.environment("A")
    archive.record(Record(RUN, 0, environments=(environment,), statistics=(make.statistics(environment, 0.2),)))
    archive.record(Record(RUN, 2, statistics=(make.statistics(environment, 0.6),)))
    archive.record(Record(RUN, 2, statistics=(make.statistics(environment, 0.7),)))

    def win_rate(before: int | None) -> float | None:
        found = archive.environments(RUN, before_cycle=before)
        return found[0].statistics.win_rate if found and found[0].statistics else None

    assert [win_rate(before) for before in (0, 1, 2, 3, None)] == [None, 0.2, 0.2, 0.7, 0.7]


def test_environments_without_plays_have_no_statistics(open_archive: OpenArchive, make: Any) -> None:
    archive = open_archive()
    archive.record(Record(RUN, 0, environments=(make.environment("A"),)))
    assert archive.environments(RUN)[0].statistics is None
    assert archive.environments(RUN, newest_played=5) == []


def test_newest_played_keeps_the_newest(open_archive: OpenArchive, make: Any) -> None:
    archive = open_archive()
    for cycle, name in enumerate("ABCD"):
        archive.record(make.record(cycle, name, plays=1))
    assert [s.cycle for s in archive.environments(RUN, newest_played=2)] == [2, 3]


def test_any_character_survives(open_archive: OpenArchive, make: Any) -> None:
    text = "nul \0, escape \ufdd1 \ufdd10 \ufdd11, quote ' \\ \U0001f600"
    base = make.trajectory("a" * 64, 0, 0)
    trajectory = replace(
        base,
        header=replace(base.header, error=text),
        turns=(replace(base.turns[0], reply=text),),
        last_observation=text,
    )
    attempt = replace(make.attempt(0), reply=text, source=text)
    environment = replace(make.environment("A"), hint=text)
    archive = open_archive()
    archive.record(Record(RUN, 0, (attempt,), (environment,), (trajectory,)))
    assert list(chain.from_iterable(archive.attempts(RUN))) == [attempt]
    assert archive.environments(RUN)[0].environment == environment
    assert list(chain.from_iterable(archive.trajectories(RUN))) == [trajectory]


def test_text_only_leaves_the_tokens_out(open_archive: OpenArchive, make: Any) -> None:
    archive = open_archive()
    archive.record(make.record(0, "A"))
    for trajectory in chain.from_iterable(archive.trajectories(RUN, tokens=False)):
        assert trajectory.sequences == ()
        assert len(trajectory.turns) == 2
    assert all(attempt.sequence == () for attempt in chain.from_iterable(archive.attempts(RUN, tokens=False)))


def test_trajectories_by_identifier_environment_and_limit(open_archive: OpenArchive, make: Any) -> None:
    archive = open_archive()
    record = make.record(0, "A", "B")
    archive.record(record)
    digest, wanted = record.environments[0].digest, record.trajectories[3]
    by_digest = chain.from_iterable(archive.trajectories(RUN, digest_prefix=digest[:10]))
    assert {t.header.environment_digest for t in by_digest} == {digest}
    assert list(chain.from_iterable(archive.trajectories(RUN, trajectory_id=wanted.header.id))) == [wanted]
    assert len(list(chain.from_iterable(archive.trajectories(RUN, limit=3)))) == 3


def test_digests_resolve_by_their_beginning(open_archive: OpenArchive, make: Any) -> None:
    archive = open_archive()
    record = make.record(0, *(f"E{i}" for i in range(20)), plays=0)
    archive.record(record)
    digest = record.environments[0].digest
    assert archive.resolve_digest(RUN, digest[:20]) == digest
    with pytest.raises(ConfigurationError, match="several"):
        archive.resolve_digest(RUN, "")
    with pytest.raises(ConfigurationError, match="none"):
        archive.resolve_digest(RUN, "0" * 64)


def test_a_record_of_mixed_cycles_is_refused_whole(open_archive: OpenArchive, make: Any, tmp_path: Path) -> None:
    archive = open_archive()
    record = replace(make.record(1, "A"), trajectories=(make.trajectory("a" * 64, 2, 0),))
    with pytest.raises(MemoryStoreError, match="cycle 2"):
        archive.record(record)
    assert archive.runs() == []


def test_a_failed_transaction_keeps_nothing(open_archive: OpenArchive, make: Any, tmp_path: Path) -> None:
    archive = open_archive()
    archive.record(make.record(0, "A"))
    before, files = everything(archive), parts(tmp_path)
    broken = make.trajectory("b" * 64, 1, 0)
    # No database takes a missing value here, and the Parquet file is written by then.
    broken = replace(broken, header=replace(broken.header, stop_reason=None))
    with pytest.raises(MemoryStoreError, match="record cycle 1"):
        archive.record(replace(make.record(1, "B"), trajectories=(broken,)))
    assert everything(archive) == before
    assert parts(tmp_path) == files


def test_what_a_crash_left_beside_the_database_is_not_read(
    open_archive: OpenArchive, make: Any, tmp_path: Path
) -> None:
    archive = open_archive()
    archive.record(make.record(0, "A"))
    archive.record(make.record(1, "B"))
    [orphan] = [name for name in parts(tmp_path) if name.startswith("c000001")]
    content = (tmp_path / "trajectories" / orphan).read_bytes()
    archive.rollback(RUN, 0)
    kept = everything(archive)
    # As after a crash between the file and the transaction, and in the midst of the file.
    (tmp_path / "trajectories" / orphan).write_bytes(content)
    (tmp_path / "trajectories" / (orphan + ".tmp")).write_bytes(content[:100])
    again = open_archive()
    assert everything(again) == kept
    again.rollback(RUN, 0)
    assert parts(tmp_path) == {name for name in parts(tmp_path) if name.startswith("c000000")}
    again.record(make.record(1, "B"))
    assert len(again.trajectory_headers(RUN)) == 8


def test_a_missing_or_foreign_trajectory_file_is_named(open_archive: OpenArchive, make: Any, tmp_path: Path) -> None:
    archive = open_archive()
    archive.record(make.record(0, "A"))
    [part] = (tmp_path / "trajectories").iterdir()
    part.write_bytes(b"PAR1 not really")
    with pytest.raises(MemoryStoreError, match=part.name):
        list(archive.trajectories(RUN))
    part.unlink()
    with pytest.raises(MemoryStoreError, match=part.name):
        list(archive.trajectories(RUN))


# --- SQLite's own ---------------------------------------------------------------------------------


def test_a_full_disk_keeps_nothing_and_says_so(tmp_path: Path, make: Any) -> None:
    with Archive.open(tmp_path) as archive:
        archive.record(make.record(0, "A"))
        before = everything(archive)
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        previous = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
            with pytest.raises(MemoryStoreError, match="make room"):
                archive.record(make.record(1, "B", plays=200))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
            signal.signal(signal.SIGXFSZ, previous)
        assert everything(archive) == before
        assert len(parts(tmp_path)) == 1
        archive.record(make.record(1, "B", plays=200))


def test_a_full_database_keeps_nothing_and_says_so(tmp_path: Path, make: Any) -> None:
    archive = Archive.open(tmp_path)
    with archive._engine.connect() as connection:
        # The pool hands the same connection out again.
        connection.exec_driver_sql("PRAGMA max_page_count = 40")
    with pytest.raises(MemoryStoreError, match=r"full.*make room"):
        archive.record(make.record(0, *(f"E{i}" for i in range(300))))
    assert archive.runs() == []
    assert parts(tmp_path) == set()
    archive.close()


def test_a_folder_that_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="not the folder of a run"):
        Archive.open(tmp_path, read_only=True)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    (tmp_path / "memory.sqlite").write_text("# notes\n" * 200)
    with pytest.raises(ConfigurationError, match="not a SQLite database"):
        Archive.open(tmp_path)
    assert (tmp_path / "memory.sqlite").read_text() == "# notes\n" * 200


def test_another_programs_database(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "memory.sqlite") as connection:
        connection.execute("CREATE TABLE moz_places (id INTEGER)")
    with pytest.raises(ConfigurationError, match=r"another program.*moz_places"):
        Archive.open(tmp_path)


def test_an_unwritable_folder(tmp_path: Path) -> None:
    with pytest.raises(MemoryStoreError, match="cannot open"):
        Archive.open(tmp_path / "absent")


def test_a_copied_run_opens_read_only(tmp_path: Path, make: Any) -> None:
    run = tmp_path / "a run ?#%41"
    run.mkdir()
    with Archive.open(run) as archive:
        archive.record(make.record(0, "A"))
        before = everything(archive)
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    with Archive.open(copy, read_only=True) as archive:
        assert everything(archive) == before
        with pytest.raises(MemoryStoreError, match="Allow this user"):
            archive.record(make.record(1, "B"))
