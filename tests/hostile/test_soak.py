"""A short soak; the long one is run by hand: ``python tests/hostile/soak.py``."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
import target
from soak import Soak, count_left, differences, drawn, folder_of_its_own

from spade_rl.sandbox.launch import FOLDER_PREFIX, base_folder

COUNT = 200


def test_every_source_is_another_one() -> None:
    sources = [case.source for case in drawn(300, 1)]
    assert len(set(sources)) == len(sources)
    assert [case.source for case in drawn(300, 1)] == sources


def test_a_difference_is_seen(tmp_path: Path) -> None:
    now = count_left(tmp_path)
    assert differences(now, now) == []
    more = replace(now, mounts=now.mounts + 1)
    assert differences(now, more) == [f"mounts: {now.mounts} before, {more.mounts} after"]


def test_what_others_leave_is_not_counted(tmp_path: Path) -> None:
    with folder_of_its_own() as folder:
        before = count_left(folder)
        for place, seen in (
            (tmp_path, []),
            (folder, ["temporary_files: 0 before, 1 after", "folders: 0 before, 1 after"]),
        ):
            (place / "spade-test-x").touch()
            (place / f"{FOLDER_PREFIX}x" / "state").mkdir(parents=True)
            assert sorted(differences(before, count_left(folder))) == sorted(seen)
        left_running = subprocess.Popen(["sleep", "60"])
        try:
            assert count_left(folder).processes == before.processes + 1
        finally:
            left_running.kill()
            left_running.wait()
        assert Path(tempfile.gettempdir()) == folder == base_folder()
    assert not folder.exists()
    assert Path(tempfile.gettempdir()) != folder != base_folder()


@pytest.mark.timeout(1800)
@pytest.mark.gvisor
@pytest.mark.skipif(
    not target.ADDRESS and target.ISOLATION == "gvisor" and shutil.which("runsc") is None,
    reason="runsc is not installed",
)
def test_many_environments_leave_nothing_behind() -> None:
    result = asyncio.run(Soak(count=COUNT, seed=2, concurrency=8, told=lambda _: None).run())
    assert result.problems == []
    assert result.leaks == []
    assert result.done == COUNT
    assert result.honest > COUNT / 3
