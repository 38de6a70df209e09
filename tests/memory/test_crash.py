"""A run that is killed in the midst of a record: everything is there once, or not at all."""

from __future__ import annotations

import pickle
import subprocess
import sys
from itertools import chain
from pathlib import Path
from typing import Any

from spade_rl.memory.archive import Archive
from spade_rl.memory.records import Record

RUN = "run-1"
# Where the second record is killed, and whether it counts.
MOMENTS = {"in the file": False, "before the rows": False, "before the commit": False, "after the commit": True}
WRITER = """
import os, pickle, signal, sys
from pathlib import Path
from spade_rl.memory import archive, content

folder, records = Path(sys.argv[1]), pickle.loads(Path(sys.argv[2]).read_bytes())

def killing(function, when=lambda *_: True):
    def wrapped(*arguments, **options):
        function(*arguments, **options)
        if when(*arguments):
            os.kill(os.getpid(), signal.SIGKILL)
    return wrapped

for moment in sys.argv[3:]:
    if os.fork():
        assert os.wait()[1] == signal.SIGKILL
        continue
    (folder / moment).mkdir()
    with archive.Archive.open(folder / moment) as opened:
        opened.record(records[0])
        if moment == "in the file":
            content.pq.write_table = killing(content.pq.write_table)
        elif moment == "before the rows":
            content.ContentStore.write = killing(content.ContentStore.write)
        elif moment == "before the commit":
            archive._add = killing(archive._add, lambda _, table, rows: table is archive.TrajectoryRow)
        killing(opened.record)(records[1])
"""


def check(archive: Archive, *records: Record) -> None:
    """The archive holds these records and nothing else."""
    assert [s.environment for s in archive.environments(RUN)] == [e for r in records for e in r.environments]
    assert list(chain.from_iterable(archive.attempts(RUN))) == [a for r in records for a in r.attempts]
    read = list(chain.from_iterable(archive.trajectories(RUN)))
    assert len(read) == sum(len(record.trajectories) for record in records)
    assert {t.header.id: t for t in read} == {t.header.id: t for record in records for t in record.trajectories}


def test_a_kill_at_any_moment_leaves_whole_cycles(tmp_path: Path, make: Any) -> None:
    records = [make.record(cycle, f"E{cycle}", plays=20) for cycle in range(2)]
    (tmp_path / "records").write_bytes(pickle.dumps(records))
    command = [sys.executable, "-c", WRITER, str(tmp_path), str(tmp_path / "records"), *MOMENTS]
    subprocess.run(command, check=True, timeout=120)
    for moment, counts in MOMENTS.items():
        folder, kept = tmp_path / moment, records[: 1 + counts]
        # A reader may come first, when the log that the dead one left is still to be worked in.
        with Archive.open(folder, read_only=True) as archive:
            check(archive, *kept)
        with Archive.open(folder) as archive:
            check(archive, *kept)
            archive.record(records[1])
            check(archive, *records)
            archive.rollback(RUN, 0)
            check(archive, records[0])
            assert len(list((folder / "trajectories").iterdir())) == 1


def test_a_reader_sees_a_run_that_goes_on(tmp_path: Path, make: Any) -> None:
    records = [make.record(cycle, f"E{cycle}") for cycle in range(3)]
    with Archive.open(tmp_path) as writer, Archive.open(tmp_path, read_only=True) as reader:
        for cycle, record in enumerate(records):
            writer.record(record)
            check(reader, *records[: cycle + 1])
