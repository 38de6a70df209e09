"""Memory cgroups of sandboxes, made where they can be."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from spade_rl.config import SandboxSection
from spade_rl.sandbox.cgroup import Cgroup, Cgroups, find_cgroups, remove_stale_cgroups
from spade_rl.sandbox.episode import open_episode
from spade_rl.sandbox.limits import EpisodeError, FaultKind, Origin
from spade_rl.sandbox.opening import open_home
from spade_rl.sandbox.pool import Pool

GROWS = """
class Env:
    def reset(self, seed):
        return "", {}
    def step(self, action):
        self.x = [bytearray(b"x") * (40 << 20) for _ in range(8)]
        return "", 0.0, False, False, {}
"""


@pytest.fixture
def cgroups() -> Cgroups:
    found = find_cgroups()
    if found is None:
        pytest.skip("this user may make no memory cgroups here")
    return found


def test_none_are_made_where_none_can_be(tmp_path: Path) -> None:
    own = tmp_path / "own"
    assert find_cgroups(tmp_path, own) is None
    own.write_text("4:memory:/a\n0::/b\n")
    assert find_cgroups(tmp_path, own) is None


@pytest.mark.parametrize(
    ("version", "file", "content", "killed"),
    [
        (1, "memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 0\n", False),
        (1, "memory.oom_control", "oom_kill_disable 1\nunder_oom 1\noom_kill 12\n", True),
        (2, "memory.events", "low 1\nmax 7\noom 2\noom_kill 0\noom_group_kill 1\n", False),
        (2, "memory.events", "low 0\noom 2\noom_kill 3\n", True),
    ],
)
def test_kills_are_read_from_either_version(
    tmp_path: Path, version: int, file: str, content: str, killed: bool
) -> None:
    (tmp_path / file).write_text(content)
    assert Cgroup(tmp_path, version).killed() is killed


def test_the_kernel_ends_what_is_over_the_limit(cgroups: Cgroups) -> None:
    cgroup = cgroups.make(f"spade-test-{os.getpid()}.a", 64 << 20)
    try:
        command = [*cgroup.joining(), sys.executable, "-c", "x = bytearray(b'x') * (200 << 20)"]
        assert not cgroup.killed()
        assert subprocess.run(command, check=False).returncode != 0
        assert cgroup.killed()
    finally:
        cgroup.remove()
    assert not cgroup.folder.exists()


def test_those_of_an_ended_service_are_removed(cgroups: Cgroups) -> None:
    name = f"spade-test-{os.getpid()}"
    stale, other = cgroups.make(f"{name}.s1", 64 << 20), cgroups.make(f"{name}x.s1", 64 << 20)
    try:
        remove_stale_cgroups(cgroups, f"{name}.")
        assert not stale.folder.exists()
        assert other.folder.exists()
    finally:
        other.remove()


@pytest.mark.gvisor
async def test_what_the_kernel_ends_is_the_environments_fault(
    gvisor_section: SandboxSection, cgroups: Cgroups, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A watchdog that looks away: the cgroup is alone.
    monkeypatch.setattr("spade_rl.sandbox.sandbox.Sandbox.used_memory", lambda _self: 0)
    section = gvisor_section.model_copy(
        update={"sandbox_memory_mb": 128, "worker_memory_mb": 2048, "call_seconds": 60.0}
    )
    async with open_home(section) as home:
        assert home.cgroups is not None
        async with Pool(home, section) as pool:
            with pytest.raises(EpisodeError) as caught:
                async with open_episode(pool, GROWS) as episode:
                    await episode.reset(1)
                    await episode.step(["go"])
                    await episode.step(["go"])
            assert (caught.value.origin, caught.value.kind) == (Origin.ENVIRONMENT, FaultKind.MEMORY)
    deadline = time.monotonic() + 10
    while left := list(cgroups.parent.glob(f"{home.folder.name}.*")):
        assert time.monotonic() < deadline, left
        time.sleep(0.02)  # noqa: ASYNC251
