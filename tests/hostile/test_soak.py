"""A short soak; the long one is run by hand: ``python tests/hostile/soak.py``."""

from __future__ import annotations

import asyncio
import shutil
from dataclasses import replace

import pytest
import target
from soak import Soak, count_left, differences, drawn

COUNT = 200


def test_every_source_is_another_one() -> None:
    sources = [case.source for case in drawn(300, 1)]
    assert len(set(sources)) == len(sources)
    assert [case.source for case in drawn(300, 1)] == sources


def test_a_difference_is_seen() -> None:
    now = count_left()
    assert differences(now, now) == []
    more = replace(now, mounts=now.mounts + 1)
    assert differences(now, more) == [f"mounts: {now.mounts} before, {more.mounts} after"]


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
